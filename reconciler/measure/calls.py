"""One small and one longer request, so that the buffers a model works with are really touched."""

from collections.abc import Mapping
from typing import Any, Final

import httpx

from reconciler.core.launch import Role

#: Seconds one answer may take.
TIMEOUT: Final = 120.0
#: Most models make a token of each digit: enough of them to fill a batch of 512.
LONG: Final = " ".join(str(n % 10) for n in range(1200))
#: A model of another role is fed with what we have none of (speech, pictures), or takes much longer than a probe may.
_PATHS: Final[Mapping[Role, str]] = {
    Role.CHAT: "/v1/completions",
    Role.COMPLETION: "/v1/completions",
    Role.VISION: "/v1/completions",
    Role.EMBEDDING: "/v1/embeddings",
    Role.RERANK: "/v1/rerank",
}


def ask_model(
    base_url: str, model: str, role: Role, headers: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """Send the requests and return one sentence for each that was not answered. Blocks.

    A context shorter than the longer text refuses it; half of it, and so on, is then tried.
    """
    if role not in _PATHS:
        return (f"no request is known for the role {role.value}: what answering takes is not measured",)
    problems = []
    with httpx.Client(
        base_url=base_url, trust_env=False, timeout=TIMEOUT, headers=dict(headers or {})
    ) as client:
        for text in ("a", LONG):
            problem = _ask(client, model, role, text)
            while problem is not None and problem.startswith("400") and len(text) > 16:
                text = text[: len(text) // 2]
                problem = _ask(client, model, role, text)
            if problem is not None:
                problems.append(
                    f"a request was not answered ({problem}): what it would have taken is not measured"
                )
                break  # a server that does not speak this will not understand the longer one either
    return tuple(problems)


def _ask(client: httpx.Client, model: str, role: Role, text: str) -> str | None:
    """Send one request; return the status and what was said of it if it was refused."""
    try:
        answer = client.post(_PATHS[role], json=_body(role, model, text))
    except httpx.HTTPError as error:
        return str(error) or type(error).__name__
    return None if answer.is_success else f"{answer.status_code}: {answer.text[:120]}"


def _body(role: Role, model: str, text: str) -> dict[str, Any]:
    if role is Role.EMBEDDING:
        return {"model": model, "input": text}
    if role is Role.RERANK:
        return {"model": model, "query": "a", "documents": [text]}
    return {"model": model, "prompt": text, "max_tokens": 1, "temperature": 0}
