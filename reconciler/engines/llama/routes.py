"""What a llama.cpp server answers, and how it counts tokens."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from reconciler.core.launch import LaunchSpec, Role
from reconciler.engines import api_key

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
#: Marks of a completion of a middle: at the beginning, before and after the hole; about as many around each file.
_INFILL_MARKS: Final = 4
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
    base_url: str, path: str, body: Mapping[str, object], client: httpx.AsyncClient, key: str | None = None
) -> int | None:
    """Return the prompt tokens of a request, or None if the server does not tell. Never raises for a dead server.

    `key` is the one that the server asks for.
    Of a completion with several prompts, each answered for itself, it is the longest that counts.
    """
    server = _Server(base_url, client, key)
    if path in ("/v1/completions", "/completion"):
        return await _count_prompts(server, body.get("prompt"))
    if path == "/infill":
        return await _count_infill(server, body)
    if path not in _COUNTS:
        return None
    answer = await server.post(_COUNTS[path], body)
    tokens = answer.get("input_tokens")
    if isinstance(tokens, int):
        return tokens
    return await _count_rendered(server, body) if path == "/v1/chat/completions" else None


async def _count_rendered(server: "_Server", body: Mapping[str, object]) -> int | None:
    """Count as older servers can: render the template, then count the text."""
    prompt = (await server.post("/apply-template", body)).get("prompt")
    return await _count_text(server, prompt) if isinstance(prompt, str) else None


async def _count_prompts(server: "_Server", prompt: object) -> int | None:
    several = isinstance(prompt, list) and not any(isinstance(part, int) for part in prompt)
    prompts: list[object] = prompt if several and isinstance(prompt, list) else [prompt]
    if not 0 < len(prompts) <= _MOST_PROMPTS:
        return None
    longest = 0
    for one in prompts:
        tokens = await _count_text(server, one)
        if tokens is None:
            return None
        longest = max(longest, tokens)
    return longest


async def _count_infill(server: "_Server", body: Mapping[str, object]) -> int | None:
    """Count what is around the middle that is filled in: marks in these texts are none, and each gets some around."""
    texts = [body.get(field, "") for field in ("input_prefix", "input_suffix", "prompt")]
    extra = body.get("input_extra")
    files = [part for part in extra if isinstance(part, Mapping)] if isinstance(extra, list) else []
    texts += [part.get(field, "") for part in files for field in ("filename", "text")]
    if not all(isinstance(text, str) for text in texts):
        return None
    text = "\n".join(text for text in texts if isinstance(text, str) and text)
    tokens = (await server.post("/tokenize", {"content": text})).get("tokens")
    return len(tokens) + _INFILL_MARKS * (1 + len(files)) if isinstance(tokens, list) else None


async def _count_text(server: "_Server", text: object) -> int | None:
    """Count one prompt as completions take it: marks in the text are marks, and a beginning is put before it."""
    if isinstance(text, dict):  # with images beside it, which are the caller's to count
        text = text.get("prompt_string")
    if isinstance(text, list) and all(isinstance(part, int) for part in text):
        return len(text)
    if not isinstance(text, str | list):
        return None
    asked = {"content": text, "add_special": True, "parse_special": True}
    tokens = (await server.post("/tokenize", asked)).get("tokens")
    return len(tokens) if isinstance(tokens, list) else None


@dataclass(frozen=True, slots=True)
class _Server:
    """Who is asked."""

    base_url: str
    client: httpx.AsyncClient
    key: str | None = field(repr=False)

    async def post(self, path: str, body: Mapping[str, object]) -> dict[str, Any]:
        """Return the JSON object that is answered, empty if none is."""
        # Written in ASCII: half a surrogate pair in a client's text has no UTF-8.
        data = json.dumps(body).encode()
        headers = {b"content-type": b"application/json", **api_key.headers(self.key)}
        url = self.base_url + path
        try:
            response = await self.client.post(url, content=data, headers=headers, timeout=COUNT_SECONDS)
            answer: Any = response.json() if response.is_success else None
        except (httpx.HTTPError, ValueError):
            return {}
        return answer if isinstance(answer, dict) else {}
