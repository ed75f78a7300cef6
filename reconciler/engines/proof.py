"""The tiny real calls that prove a server works: one token, one vector, one score, a moment of silence."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from reconciler.core.launch import Role
from reconciler.engines import api_key
from reconciler.engines.base import Probe, Readiness
from reconciler.engines.health import unreachable

#: Seconds one call may take. A large model reads all its weights from disk for it.
CALL_TIMEOUT: Final = 120.0
#: Characters of an answer that are shown.
_MOST_TEXT: Final = 200


def silence(seconds: float = 0.1, rate: int = 16_000) -> bytes:
    """Return a WAV file of silence: 16 bits, one channel."""
    data = bytes(2 * int(seconds * rate))
    head = struct.pack(
        "<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + len(data), b"WAVE", b"fmt ", 16, 1, 1, rate, 2 * rate, 2, 16,
        b"data", len(data),
    )  # fmt: skip
    return head + data


@dataclass(frozen=True, slots=True)
class Call:
    """One request: JSON, or a form where `files` is given. `${model}` in a text value is the name the server wants."""

    path: str
    body: Mapping[str, object] = field(default_factory=dict)
    #: Field -> file name and content.
    files: Mapping[str, tuple[str, bytes]] | None = None
    #: Seconds it may take. Some servers load their model for it, and give up a load that nobody waits for.
    timeout: float = CALL_TIMEOUT

    def named(self, model: str) -> dict[str, Any]:
        """Return the body with the model's name filled in."""
        return {key: model if value == "${model}" else value for key, value in self.body.items()}


#: OpenAI's shapes, which most servers speak.
OPENAI_CALLS: Final[Mapping[Role, Call]] = {
    Role.CHAT: Call(
        "/v1/chat/completions",
        {"model": "${model}", "messages": [{"role": "user", "content": "a"}], "max_tokens": 1},
    ),
    Role.COMPLETION: Call("/v1/completions", {"model": "${model}", "prompt": "a", "max_tokens": 1}),
    Role.VISION: Call(
        "/v1/chat/completions",
        {"model": "${model}", "messages": [{"role": "user", "content": "a"}], "max_tokens": 1},
    ),
    Role.EMBEDDING: Call("/v1/embeddings", {"model": "${model}", "input": "a"}),
    Role.RERANK: Call("/v1/rerank", {"model": "${model}", "query": "a", "documents": ["a"]}),
    Role.ASR: Call("/v1/audio/transcriptions", {"model": "${model}"}, {"file": ("a.wav", silence())}),
    Role.TTS: Call("/v1/audio/speech", {"model": "${model}", "input": "a"}),
}


async def prove(call: Call, model: str, base_url: str, client: httpx.AsyncClient, key: str | None) -> Probe:
    """Make one call and judge its answer. Never raises for a dead server."""
    try:
        return judge(await _send(call, model, base_url, client, key), call.path, key)
    except httpx.RemoteProtocolError:
        # A kept connection may have been closed just now; what ends a fresh one is its answer.
        return await _prove_again(call, model, base_url, client, key)
    except httpx.HTTPError as error:
        return unreachable(error)


async def understood(
    call: Call, model: str, base_url: str, client: httpx.AsyncClient, key: str | None
) -> Probe:
    """Make a call that a server need not understand: it works unless it fails itself. Never raises."""
    try:
        response = await _send(call, model, base_url, client, key)
    except httpx.HTTPError as error:
        return unreachable(error)
    if response.status_code < 500 or response.status_code == 501:
        return Probe(Readiness.READY, f"{call.path} answers {response.status_code}")
    return judge(response, call.path, key)


async def _prove_again(
    call: Call, model: str, base_url: str, client: httpx.AsyncClient, key: str | None
) -> Probe:
    try:
        return judge(await _send(call, model, base_url, client, key), call.path, key)
    except httpx.RemoteProtocolError as error:
        return Probe(Readiness.FAILED, f"it breaks off {call.path}: {error}")
    except httpx.HTTPError as error:
        return unreachable(error)


async def _send(
    call: Call, model: str, base_url: str, client: httpx.AsyncClient, key: str | None
) -> httpx.Response:
    """Make the call. Raises httpx.HTTPError."""
    url, headers, body = base_url + call.path, api_key.headers(key), call.named(model)
    if call.files is None:
        return await client.post(url, json=body, headers=headers, timeout=call.timeout)
    return await client.post(url, data=body, files=dict(call.files), headers=headers, timeout=call.timeout)


def judge(response: httpx.Response, path: str, key: str | None) -> Probe:
    """Judge the answer to a call: it works, it is not there yet, or it never will be."""
    if response.is_success:
        # Some servers put what went wrong into an answer that says 200.
        wrong = _error_of(response)
        return Probe(Readiness.FAILED, f"{path} answers: {wrong}") if wrong else Probe(Readiness.READY)
    if response.status_code in (401, 403):
        hint = "state it in `args` or `env`" if key is None else "it does not take the one it was given"
        return Probe(Readiness.FAILED, f"it wants a key: {hint}")
    detail = f"{path} answers {response.status_code}: {message_of(response)}"
    loading = response.status_code in (408, 425, 429, 503)
    return Probe(Readiness.LOADING if loading else Readiness.FAILED, detail)


def message_of(response: httpx.Response) -> str:
    """Return what an error answer says, at most 200 characters of it."""
    return _error_of(response) or response.text[:_MOST_TEXT]


def _error_of(response: httpx.Response) -> str | None:
    """Return the `error`, `detail` or `message` of an answer that is a JSON object, or None if it has none."""
    try:
        body: Any = response.json()
    except (ValueError, RecursionError):
        return None
    if not isinstance(body, dict):
        return None
    error = body.get("error") or (not response.is_success and (body.get("detail") or body.get("message")))
    if isinstance(error, dict):
        # FastAPI puts an error in OpenAI's shape below `detail`.
        inner = error.get("error")
        error = (inner.get("message") if isinstance(inner, dict) else inner) or error.get("message") or error
    return str(error)[:_MOST_TEXT] if error else None
