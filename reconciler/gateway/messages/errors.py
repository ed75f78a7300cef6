"""Errors as Anthropic's clients know them: `{"type": "error", "error": {type, message, code}}`; `code` is ours."""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from reconciler.gateway.errors import ApiError

#: All that Anthropic's clients ask for is here or below.
PATH: Final = "/v1/messages"
INVALID: Final = "invalid_request_error"
API: Final = "api_error"
OVERLOADED: Final = "overloaded_error"

#: Anthropic's types by status; any other 4xx is the request's fault, any other 5xx the server's.
TYPES: Final[Mapping[int, str]] = MappingProxyType(
    {
        400: INVALID,
        401: "authentication_error",
        402: "billing_error",
        403: "permission_error",
        404: "not_found_error",
        409: "conflict_error",
        413: "request_too_large",
        429: "rate_limit_error",
        500: API,
        503: OVERLOADED,
        504: "timeout_error",
        529: OVERLOADED,
    }
)

#: Ours, and what llama.cpp calls it.
TOO_LONG: Final = frozenset({"context_length_exceeded", "exceed_context_size_error"})
#: Agents look for these words to know that they have to shorten the conversation.
TOO_LONG_WORDS: Final = "prompt is too long"
#: And for these to know that they have to ask for a shorter answer.
ANSWER_WORDS: Final = "exceed context limit"

#: Characters of an engine's own words that are passed on at most.
SAID_CHARACTERS: Final = 4000


def error_body(status: int, code: str, message: str) -> dict[str, Any]:
    """Return the body of an error; the type follows from the HTTP status."""
    kind = TYPES.get(status, INVALID if status < 500 else API)
    said = message.lower()
    if code in TOO_LONG and TOO_LONG_WORDS not in said and ANSWER_WORDS not in said:
        message = f"{TOO_LONG_WORDS}: {message}"
    return {"type": "error", "error": {"type": kind, "message": message, "code": code}}


def body_for(path: str, error: ApiError) -> Mapping[str, Any]:
    """Return the body of an error of ours in the shape that the clients of a path know."""
    if path == PATH or path.startswith(f"{PATH}/"):
        return error_body(error.status, error.code, error.message)
    return error.body()


def engine_error(status: int, body: bytes) -> dict[str, Any]:
    """Return the body of an error for what an engine answered with a status of 400 or more."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    code, message = said(value)
    if not message:
        text = body[: SAID_CHARACTERS * 4].decode(errors="replace").strip()
        message = text or f"the model's server answered {status} and said nothing"
    return error_body(status, code, message[:SAID_CHARACTERS])


def said(value: object) -> tuple[str, str]:
    """Return code and message of an engine's error; the message is empty if there is none in it.

    OpenAI's shape is `{"error": {message, type, code}}`; others send a bare string, `{"message"}` or `{"detail"}`.
    """
    error = value.get("error", value) if isinstance(value, dict) else value
    if isinstance(error, str):
        return "upstream_error", error
    if not isinstance(error, dict):
        return "upstream_error", ""
    names = (error.get("code"), error.get("type"))
    code = next((name for name in names if isinstance(name, str) and name), "upstream_error")
    text = error.get("message", error.get("detail"))
    if text is None:
        return code, ""
    return code, text if isinstance(text, str) else json.dumps(text)
