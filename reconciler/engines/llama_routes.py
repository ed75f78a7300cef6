"""What a llama.cpp server answers, and how it counts tokens."""

import json
from collections.abc import Mapping
from typing import Any, Final

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

#: Seconds a count may take. It waits for no slot; 222,000 tokens took 1.6 s on two busy cores.
COUNT_SECONDS: Final = 10.0
#: Prompts of one completion that are counted each; for more the caller's estimate must do.
_MOST_PROMPTS: Final = 16
#: Where it says how many tokens a request of each kind would have, its template and tools included.
_COUNTS: Final[Mapping[str, str]] = {
    "/v1/chat/completions": "/v1/chat/completions/input_tokens",
    "/v1/responses": "/v1/responses/input_tokens",
    "/v1/messages": "/v1/messages/count_tokens",
    "/v1/messages/count_tokens": "/v1/messages/count_tokens",
}


def serves(spec: LaunchSpec) -> frozenset[str]:
    """Return the paths of the data API that answer for the model's role."""
    return _BY_ROLE.get(spec.role, _GENERATION)


async def count_tokens(
    base_url: str, path: str, body: Mapping[str, object], client: httpx.AsyncClient
) -> int | None:
    """Return the prompt tokens of a request, or None if the server does not tell. Never raises for a dead server.

    Of a completion with several prompts, each answered for itself, it is the longest that counts.
    """
    if path == "/v1/completions":
        return await _count_prompts(base_url, body.get("prompt"), client)
    if path not in _COUNTS:
        return None
    answer = await _post(base_url + _COUNTS[path], body, client)
    tokens = answer.get("input_tokens")
    if isinstance(tokens, int):
        return tokens
    return await _count_rendered(base_url, body, client) if path == "/v1/chat/completions" else None


async def _count_rendered(base_url: str, body: Mapping[str, object], client: httpx.AsyncClient) -> int | None:
    """Count as older servers can: render the template, then count the text."""
    prompt = (await _post(base_url + "/apply-template", body, client)).get("prompt")
    return await _count_text(base_url, prompt, client) if isinstance(prompt, str) else None


async def _count_prompts(base_url: str, prompt: object, client: httpx.AsyncClient) -> int | None:
    several = isinstance(prompt, list) and not any(isinstance(part, int) for part in prompt)
    prompts: list[object] = prompt if several and isinstance(prompt, list) else [prompt]
    if not 0 < len(prompts) <= _MOST_PROMPTS:
        return None
    longest = 0
    for one in prompts:
        tokens = await _count_text(base_url, one, client)
        if tokens is None:
            return None
        longest = max(longest, tokens)
    return longest


async def _count_text(base_url: str, text: object, client: httpx.AsyncClient) -> int | None:
    """Count one prompt as completions take it: marks in the text are marks, and a beginning is put before it."""
    if isinstance(text, list) and all(isinstance(part, int) for part in text):
        return len(text)
    if not isinstance(text, str | list):
        return None
    asked = {"content": text, "add_special": True, "parse_special": True}
    tokens = (await _post(base_url + "/tokenize", asked, client)).get("tokens")
    return len(tokens) if isinstance(tokens, list) else None


async def _post(url: str, body: Mapping[str, object], client: httpx.AsyncClient) -> dict[str, Any]:
    """Return the JSON object that is answered, empty if none is."""
    # Written in ASCII: half a surrogate pair in a client's text has no UTF-8.
    data = json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    try:
        response = await client.post(url, content=data, headers=headers, timeout=COUNT_SECONDS)
        answer: Any = response.json() if response.is_success else None
    except (httpx.HTTPError, ValueError):
        return {}
    return answer if isinstance(answer, dict) else {}
