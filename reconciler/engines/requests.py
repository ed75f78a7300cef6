"""Asking a running server to do something besides its work: sleep, wake, count."""

from collections.abc import Mapping
from typing import Any, Final

import httpx

from reconciler.engines import api_key
from reconciler.engines.base import EngineError, Server
from reconciler.engines.health import HEALTH_TIMEOUT
from reconciler.engines.proof import message_of

#: Seconds an answer may take; whoever asks has a deadline of its own, which is shorter.
_SECONDS: Final = 600.0


async def post(server: Server, path: str, body: Mapping[str, object] | None = None) -> Any:
    """Return the JSON that `path` answers, or None if it answers something else. Raises EngineError."""
    return await _ask(server, "POST", path, dict(body or {}), _SECONDS)


async def get(server: Server, path: str) -> Any:
    """Return the JSON that `path` says of the server now, or None for something else. Raises EngineError."""
    return await _ask(server, "GET", path, None, HEALTH_TIMEOUT)


async def _ask(
    server: Server, method: str, path: str, body: Mapping[str, object] | None, seconds: float
) -> Any:
    try:
        response = await server.client.request(
            method,
            server.base_url + path,
            json=body,
            headers=api_key.headers(server.key),
            timeout=seconds,
        )
    except httpx.HTTPError as error:
        raise EngineError(f"{path} got no answer: {error or type(error).__name__}") from error
    if not response.is_success:
        raise EngineError(f"{path} answers {response.status_code}: {message_of(response)}")
    try:
        return response.json()
    except ValueError:
        return None
