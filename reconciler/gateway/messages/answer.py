"""An answer of chat completions as a message of Anthropic's API."""

import json
import math
import re
import uuid
from collections.abc import Mapping
from typing import Any, Final

from reconciler.gateway.errors import ApiError

#: OpenAI's reasons to stop in Anthropic's words; any other is the end of the turn.
STOPS: Final[Mapping[str, str]] = {
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}
#: Where engines put what a model thinks: llama.cpp and older vLLM, then newer vLLM.
REASONING: Final = ("reasoning_content", "reasoning")
#: Where engines say which of the asked words ended the answer: vLLM, then SGLang.
STOPPED_BY: Final = ("stop_reason", "matched_stop")
#: Stands in a tool's input for arguments that are no JSON object (cut off, as a rule), so that they are not lost.
UNPARSED: Final = "unparsed_arguments"


def from_chat(answer: Mapping[str, Any], model: str) -> dict[str, Any]:
    """Return the message for a complete chat answer; `model` is the name that the client asked for.

    Raises `ApiError` (502) if the answer is no chat completion.
    """
    choice = first_choice(answer)
    if choice is None or not isinstance(choice.get("message"), dict):
        raise ApiError(
            "upstream_error", "the model's server answered with something that is no chat completion"
        )
    said = choice["message"]
    content = [
        *({"type": "thinking", "thinking": text, "signature": ""} for text in [reasoning(said)] if text),
        *({"type": "text", "text": text} for text in [spoken(said)] if text),
    ]
    calls = [_tool_use(call) for call in tool_calls(said)]
    reason, sequence = stopped(choice, called=bool(calls))
    return {
        **envelope(answer.get("id"), model),
        "content": content + calls,
        "stop_reason": reason,
        "stop_sequence": sequence,
        "usage": usage(answer.get("usage")),
    }


def envelope(chat_id: object, model: str) -> dict[str, Any]:
    """Return what every message begins with; its id is made from the engine's, or new if that gave none."""
    known = re.sub(r"[^A-Za-z0-9]", "", chat_id.removeprefix("chatcmpl-")) if isinstance(chat_id, str) else ""
    return {"id": f"msg_{known or uuid.uuid4().hex}", "type": "message", "role": "assistant", "model": model}


def first_choice(answer: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the first choice of an answer or of a piece of one; None if there is none."""
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return None
    return choices[0]


def reasoning(said: Mapping[str, Any]) -> str:
    """Return what the model thought."""
    return next((text for text in map(said.get, REASONING) if isinstance(text, str) and text), "")


def spoken(said: Mapping[str, Any]) -> str:
    """Return what the model said, or the words with which it declined."""
    content = said.get("content")
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "".join(text for text in texts if isinstance(text, str))
    if isinstance(content, str) and content:
        return content
    refusal = said.get("refusal")
    return refusal if isinstance(refusal, str) else ""


def tool_calls(said: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the tool calls of a message, or pieces of them."""
    calls = said.get("tool_calls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def arguments_text(call: Mapping[str, Any]) -> str:
    """Return the arguments of a tool call, or a piece of them, as text; some engines send them parsed.

    Raises `ApiError` (502) for such that are nested too deeply.
    """
    function = call.get("function")
    value = function.get("arguments") if isinstance(function, dict) else None
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value)
    except RecursionError:
        raise ApiError("upstream_error", "the model's server sent arguments nested too deeply") from None


def tool_name(call: Mapping[str, Any]) -> str:
    """Return the name of the called tool; empty in a later piece of a call."""
    function = call.get("function")
    value = function.get("name") if isinstance(function, dict) else None
    return value if isinstance(value, str) else ""


def tool_id(call: Mapping[str, Any]) -> str:
    """Return the id of a tool call; empty if this piece has none."""
    value = call.get("id")
    return value if isinstance(value, str) else ""


def new_tool_id() -> str:
    """Return an id for a call whose engine gave none."""
    return f"toolu_{uuid.uuid4().hex[:24]}"


def parse_arguments(text: str) -> dict[str, Any] | None:
    """Return the arguments of a complete tool call, an empty object for none; None if they are no JSON object."""
    if not text.strip():
        return {}
    try:
        value = json.loads(text, parse_constant=_no_number, parse_float=_finite)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def stopped(choice: Mapping[str, Any], *, called: bool) -> tuple[str, str | None]:
    """Return `stop_reason` and `stop_sequence`; `called` says that the answer calls a tool."""
    said = choice.get("message", choice.get("delta"))
    if isinstance(said, dict) and isinstance(said.get("refusal"), str) and said["refusal"]:
        return "refusal", None
    reason = STOPS.get(str(choice.get("finish_reason")), "end_turn")
    if reason == "end_turn" and called:
        return "tool_use", None
    sequence = next((text for text in map(choice.get, STOPPED_BY) if isinstance(text, str) and text), None)
    if reason == "end_turn" and sequence is not None:
        return "stop_sequence", sequence
    return reason, None


def tokens(value: object) -> tuple[int, int] | None:
    """Return the tokens of prompt and answer that an engine's `usage` tells; None = it tells nothing."""
    if not isinstance(value, dict) or "prompt_tokens" not in value:
        return None
    return _count(value.get("prompt_tokens")), _count(value.get("completion_tokens"))


def usage(value: object) -> dict[str, int]:
    """Return the tokens used. Anthropic counts what came out of a cache apart, OpenAI within the prompt."""
    told = value if isinstance(value, dict) else {}
    details = told.get("prompt_tokens_details")
    prompt = _count(told.get("prompt_tokens"))
    cached = min(prompt, _count(details.get("cached_tokens")) if isinstance(details, dict) else 0)
    return {
        "input_tokens": prompt - cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": _count(told.get("completion_tokens")),
    }


def _tool_use(call: Mapping[str, Any]) -> dict[str, Any]:
    text = arguments_text(call)
    given = parse_arguments(text)
    return {
        "type": "tool_use",
        "id": tool_id(call) or new_tool_id(),
        "name": tool_name(call),
        "input": {UNPARSED: text} if given is None else given,
    }


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


def _finite(text: str) -> float:
    """Return a number that can be written as JSON again."""
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text} is too large")
    return value
