"""A request of Anthropic's Messages API as a request for chat completions."""

from typing import Any, Final

from reconciler.gateway.messages.content import Part, blocks, joined, merged, parts, read_turn
from reconciler.gateway.messages.fields import flag, invalid, items, mapping, name, number, positive, string
from reconciler.gateway.messages.tools import read_tools

#: Things only Anthropic's servers do; leaving them out in silence would change what the client gets.
IMPOSSIBLE: Final = ("container", "mcp_servers")
NUMBERS: Final = ("temperature", "top_p", "top_k")
#: A line of Claude Code about itself that differs with every request, before everything else: an engine that reuses
#: the work on an equal beginning would never find one.
BILLING: Final = "x-anthropic-billing-header:"
#: Anthropic's words for how hard to think, in OpenAI's.
EFFORT: Final = {"low": "low", "medium": "medium", "high": "high", "xhigh": "high", "max": "high"}


def to_chat(document: dict[str, Any]) -> dict[str, Any]:
    """Return the chat completions request that asks the same. `document` is not changed; `model` stays as it is.

    Raises `ApiError` (400) naming the field for what is missing, wrong, or cannot be asked of such an engine.
    What only tunes Anthropic's service (cache marks, tiers, betas) is left out.
    """
    for key in IMPOSSIBLE:
        if document.get(key):
            raise invalid(key, "this model's server has no such thing")
    chat: dict[str, Any] = {"model": document.get("model"), "messages": _messages(document)}
    chat["max_tokens"] = positive(document.get("max_tokens"), "max_tokens")
    for key in NUMBERS:
        if document.get(key) is not None:
            chat[key] = number(document[key], key)
    if document.get("stop_sequences"):
        stops = items(document["stop_sequences"], "stop_sequences")
        chat["stop"] = [string(stop, f"stop_sequences.{i}") for i, stop in enumerate(stops)]
    chat |= read_tools(document) | _thinking(document) | _output(document)
    user = mapping(document.get("metadata") or {}, "metadata").get("user_id")
    if user is not None:
        chat["user"] = string(user, "metadata.user_id")
    if flag(document.get("stream"), "stream"):
        chat |= {"stream": True, "stream_options": {"include_usage": True}}
    return chat


def _messages(document: dict[str, Any]) -> list[Part]:
    chat: list[Part] = []
    if document.get("system") is not None:
        made = _system(document["system"], "system")
        if made:
            chat.append({"role": "system", "content": made})
    if document.get("messages") is None:
        raise invalid("messages", "is missing")
    messages = items(document["messages"], "messages")
    if not messages:
        raise invalid("messages", "must not be empty")
    for i, message in enumerate(messages):
        chat += _message(mapping(message, f"messages.{i}"), f"messages.{i}")
    return chat


def _message(message: Part, path: str) -> list[Part]:
    role, here = message.get("role"), f"{path}.content"
    match role:
        case "user":
            turn = read_turn(message.get("content"), here, "user")
            said = [{"role": "user", "content": merged(turn.parts)}] if turn.parts else []
            return [*turn.results, *said] or [{"role": "user", "content": ""}]
        case "assistant":
            turn = read_turn(message.get("content"), here, "assistant")
            answer: Part = {
                "role": "assistant",
                "content": joined(turn.parts) or ("" if not turn.calls else None),
            }
            return [answer | {"tool_calls": turn.calls} if turn.calls else answer]
        case "system":
            return [{"role": "system", "content": _system(message.get("content"), here)}]
        case _:
            raise invalid(f"{path}.role", f"{role!r} is none of 'user', 'assistant', 'system'")


def _system(value: object, path: str) -> str:
    made: list[Part] = []
    for i, block in enumerate(blocks(value, path)):
        made += parts(mapping(block, f"{path}.{i}"), f"{path}.{i}", images=False)
    return joined([part for part in made if not part["text"].startswith(BILLING)])


def _thinking(document: dict[str, Any]) -> dict[str, Any]:
    """Say whether to think in the way that the chat templates of models that can do both understand."""
    if document.get("thinking") is None:
        return {}
    kind = mapping(document["thinking"], "thinking").get("type")
    if kind not in ("enabled", "disabled", "adaptive"):
        raise invalid("thinking.type", f"{kind!r} is none of 'enabled', 'disabled', 'adaptive'")
    return {} if kind == "adaptive" else {"chat_template_kwargs": {"enable_thinking": kind == "enabled"}}


def _output(document: dict[str, Any]) -> dict[str, Any]:
    """Return the wanted form of the answer, and how hard to think about it."""
    made: dict[str, Any] = {}
    config = mapping(document.get("output_config") or {}, "output_config")
    wanted = config.get("format", document.get("output_format"))
    if wanted is not None:
        path = "output_config.format"
        if mapping(wanted, path).get("type") != "json_schema":
            raise invalid(f"{path}.type", "must be 'json_schema'")
        schema = mapping(wanted.get("schema"), f"{path}.schema")
        form = {"name": "answer", "schema": schema, "strict": True}
        made["response_format"] = {"type": "json_schema", "json_schema": form}
    if config.get("effort") is not None:
        effort = name(config["effort"], "output_config.effort")
        if effort not in EFFORT:
            raise invalid("output_config.effort", f"{effort!r} is none of {', '.join(EFFORT)}")
        made["reasoning_effort"] = EFFORT[effort]
    return made
