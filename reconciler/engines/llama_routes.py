"""What a llama.cpp server answers, and how it counts tokens."""

from collections.abc import Mapping
from typing import Final

import httpx

from reconciler.core.launch import LaunchSpec, Role

_GENERATION: Final = frozenset(
    {
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/responses",
        "/v1/messages",
        "/v1/messages/count_tokens",
    }
)
#: A server started with --embedding or --rerank answers nothing else.
_BY_ROLE: Final = {
    Role.EMBEDDING: frozenset({"/v1/embeddings"}),
    Role.RERANK: frozenset({"/v1/rerank"}),
}


def serves(spec: LaunchSpec) -> frozenset[str]:
    """Return the paths of the data API that answer for the model's role."""
    return _BY_ROLE.get(spec.role, _GENERATION)


async def count_tokens(
    base_url: str, path: str, body: Mapping[str, object], client: httpx.AsyncClient
) -> int | None:
    """Return the prompt tokens of a request, or None if the server does not tell."""
    return None
