"""One small and one longer request, so that the buffers a model works with are really touched."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import httpx

from reconciler.core.launch import Role
from reconciler.engines.proof import OPENAI_CALLS, Call, silence

#: Seconds one answer may take.
TIMEOUT: Final = 120.0
#: Most models make a token of each digit: enough of them to fill a batch of 512.
LONG: Final = " ".join(str(n % 10) for n in range(1200))
#: Half a minute of silence: what a model that hears takes at once.
_HEARD: Final = 30.0
_FILE: Final = "file"
#: What is sent, by role: the first that the server answers. Some engines serve chat alone, or a path of their own.
_CALLS: Final[Mapping[Role, tuple[Call, ...]]] = {
    Role.CHAT: (OPENAI_CALLS[Role.COMPLETION], OPENAI_CALLS[Role.CHAT]),
    Role.COMPLETION: (OPENAI_CALLS[Role.COMPLETION],),
    Role.VISION: (OPENAI_CALLS[Role.COMPLETION], OPENAI_CALLS[Role.VISION]),
    Role.EMBEDDING: (OPENAI_CALLS[Role.EMBEDDING],),
    Role.RERANK: (
        OPENAI_CALLS[Role.RERANK],
        Call("/rerank", {"model": "${model}", "query": "a", "texts": ["a"]}),
    ),
    Role.ASR: (OPENAI_CALLS[Role.ASR],),
    Role.TTS: (
        OPENAI_CALLS[Role.TTS],
        Call("/v1/audio/speech", {"model": "${model}", "input": "a", "voice": "alloy"}),
    ),
    Role.IMAGE: (
        Call("/v1/images/generations", {"model": "${model}", "prompt": "a", "size": "64x64", "n": 1}),
        Call("/v1/images/generations", {"model": "${model}", "prompt": "a", "n": 1}),
    ),
    Role.CLASSIFY: (
        Call("/classify", {"model": "${model}", "input": "a"}),
        Call("/v1/classify", {"model": "${model}", "input": ["a"]}),
        Call("/predict", {"model": "${model}", "inputs": "a"}),
    ),
}
#: Answers after which a shorter text is not tried: it is the key, the path or the method that is wrong.
_NOT_ITS_LENGTH: Final = ("401", "403", "404", "405")


def ask_model(
    base_url: str,
    model: str,
    role: Role,
    headers: Mapping[str, str] | None = None,
    own: Call | None = None,
) -> tuple[str, ...]:
    """Send the requests and return one sentence for each that was not answered. Blocks.

    `own` is the engine's own proof, which is sent where it answers nothing else. A context shorter than the longer
    text refuses it, each server in its way; half of it, and so on, is then tried.
    """
    with httpx.Client(
        base_url=base_url, trust_env=False, timeout=TIMEOUT, headers=dict(headers or {})
    ) as client:
        first: str | None = None
        for call in (*_CALLS[role], *([own] if own is not None else [])):
            problem = _ask(client, call, model)
            if problem is None:
                return _longer(client, call, model)
            first = first or problem
    return (_unanswered(first or "none is known"),)


def _unanswered(problem: str) -> str:
    return f"a request was not answered ({problem}): what it would have taken is not measured"


def _longer(client: httpx.Client, call: Call, model: str) -> tuple[str, ...]:
    """Send the longer request, and shorter ones while they are refused; return what is wrong with the last."""
    if call.files is not None:
        files = {_FILE: ("a.wav", silence(_HEARD))}
        problem = _ask(client, replace(call, files=files), model)
        return () if problem is None else (_unanswered(problem),)
    text = LONG
    problem = _ask(client, _with(call, text), model)
    while (
        problem is not None and problem[:1] in "45" and problem[:3] not in _NOT_ITS_LENGTH and len(text) > 16
    ):
        text = text[: len(text) // 2]
        problem = _ask(client, _with(call, text), model)
    return () if problem is None else (_unanswered(problem),)


def _with(call: Call, text: str) -> Call:
    """Return the call with `text` where it has a text of one letter; the query of a rank stays short."""
    body = {key: value if key == "query" else _filled(value, text) for key, value in call.body.items()}
    return replace(call, body=body)


def _filled(value: object, text: str) -> object:
    if value == "a":
        return text
    if value == ["a"]:
        return [text]
    if isinstance(value, list) and value and isinstance(value[0], dict) and value[0].get("content") == "a":
        return [{**value[0], "content": text}]
    return value


def _ask(client: httpx.Client, call: Call, model: str) -> str | None:
    """Send one request; return the status and what was said of it if it was refused."""
    try:
        if call.files is None:
            answer = client.post(call.path, json=call.named(model))
        else:
            answer = client.post(call.path, data=call.named(model), files=dict(call.files))
    except httpx.HTTPError as error:
        return str(error) or type(error).__name__
    return None if answer.is_success else f"{answer.status_code}: {answer.text[:120]}"
