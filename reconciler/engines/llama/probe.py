"""One tiny real call to a llama.cpp server: proof that the model works, not only its HTTP port."""

from collections.abc import Mapping
from typing import Final

import httpx

from reconciler.core.launch import Role
from reconciler.engines import api_key
from reconciler.engines.base import Probe, Readiness
from reconciler.engines.health import unreachable
from reconciler.engines.proof import CALL_TIMEOUT, message_of

_COMPLETION: Final = ("/v1/completions", {"prompt": "a", "max_tokens": 1, "temperature": 0})
# The plain completion serves chat models too, and needs no chat template to work.
_CALLS: Final[Mapping[Role, tuple[str, Mapping[str, object]]]] = {
    Role.CHAT: _COMPLETION,
    Role.COMPLETION: _COMPLETION,
    Role.VISION: _COMPLETION,
    Role.EMBEDDING: ("/v1/embeddings", {"input": "a"}),
    Role.RERANK: ("/v1/rerank", {"query": "a", "documents": ["a"]}),
}


async def call_once(role: Role, base_url: str, client: httpx.AsyncClient, key: str | None = None) -> Probe:
    """Make the smallest call that `role` allows, with the server's own `key`. Never raises for a dead server."""
    path, body = _CALLS[role]
    try:
        response = await client.post(
            base_url + path, json=dict(body), headers=api_key.headers(key), timeout=CALL_TIMEOUT
        )
    except httpx.HTTPError as error:
        return unreachable(error)
    if response.is_success:
        return Probe(Readiness.READY)
    if response.status_code in (401, 403):
        # Requests are sent with the key that the launch states; they would all be refused like this one.
        hint = (
            "state it as `args: [--api-key, KEY]`" if key is None else "it does not take the one it was given"
        )
        return Probe(Readiness.FAILED, f"it wants a key: {hint}")
    detail = f"{path} answers {response.status_code}: {message_of(response)}"
    if response.status_code in (429, 503):
        return Probe(Readiness.LOADING, detail)
    if "ooling" in detail:
        detail += "; say how vectors are made of tokens with `args: [--pooling, mean]` (or cls, last)"
    return Probe(Readiness.FAILED, f"it does not work as role {role.value}: {detail}")
