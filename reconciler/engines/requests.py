"""Asking a running server to do something besides its work: sleep, wake, count. No answer of its ends anything here."""

import json
from collections.abc import Mapping
from typing import Any, Final

import anyio.to_thread
import httpx

from reconciler.engines import api_key
from reconciler.engines.base import EngineError, Server
from reconciler.engines.health import HEALTH_TIMEOUT
from reconciler.engines.proof import message_of

#: Seconds an answer may take; whoever asks has a deadline of its own, which is shorter.
_SECONDS: Final = 600.0
#: Bytes of an answer to a question that is asked over and over: more is not read. Reading JSON lets nothing else run in
#: the meantime, in whatever thread it is done, and this much takes some hundredths of a second.
MOST: Final = 1 << 20
#: Bytes of an answer to something that is done once: some servers repeat the whole prompt.
MOST_ONCE: Final = 16 << 20
#: Bytes of a refusal that are read: a sentence of it is shown.
_MOST_REFUSAL: Final = 16 << 10
#: More bytes than these are read as JSON in a worker thread.
_MANY: Final = 64 << 10


async def post(
    server: Server, path: str, body: Mapping[str, object] | None = None, seconds: float | None = _SECONDS
) -> Any:
    """Return the JSON that `path` answers, or None if it answers something else. Raises EngineError.

    It may be the address of another server, too, which is not told the key.
    """
    return await _ask(server, "POST", path, dict(body or {}), seconds, MOST_ONCE)


async def get(server: Server, path: str) -> Any:
    """Return the JSON that `path` says of the server now, or None for something else. Raises EngineError."""
    return await _ask(server, "GET", path, None, HEALTH_TIMEOUT, MOST)


async def _ask(
    server: Server,
    method: str,
    path: str,
    body: Mapping[str, object] | None,
    seconds: float | None,
    most: int,
) -> Any:
    """Return the JSON of the answer. Raises EngineError for none, for a refusal, and for more than `most` bytes."""
    own = path.startswith("/")
    try:
        async with server.client.stream(
            method,
            server.base_url + path if own else path,
            json=body,
            headers=api_key.headers(server.key if own else None),
            timeout=seconds,
        ) as response:
            data = await _read(response, most if response.is_success else _MOST_REFUSAL)
    except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, UnicodeError) as error:
        raise EngineError(f"{path} got no answer: {error or type(error).__name__}") from error
    if not response.is_success:
        said = message_of(httpx.Response(response.status_code, content=data[:_MOST_REFUSAL]))
        raise EngineError(f"{path} answers {response.status_code}: {said}")
    if len(data) > most:
        raise EngineError(f"{path} answers with more than {most >> 20} MiB")
    return _json(data) if len(data) <= _MANY else await anyio.to_thread.run_sync(_json, data)


async def _read(response: httpx.Response, most: int) -> bytes:
    """Return the body, or a little more than `most` bytes of it."""
    data = bytearray()
    async for piece in response.aiter_bytes():
        data += piece
        if len(data) > most:
            break
    return bytes(data)


def _json(data: bytes) -> Any:
    """Return what is written there as JSON, or None: a thousand brackets are no document either."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
