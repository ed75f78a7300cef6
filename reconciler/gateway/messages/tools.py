"""Tools and the choice among them, from Anthropic's shape into OpenAI's."""

from typing import Any

from reconciler.gateway.messages.fields import flag, invalid, items, mapping, name, string


def read_tools(document: dict[str, Any]) -> dict[str, Any]:
    """Return `tools`, `tool_choice` and `parallel_tool_calls` of a chat, as far as the request has them.

    Raises `ApiError` (400), also for tools that Anthropic's own servers run or define.
    """
    given = document.get("tools")
    tools = [] if given is None else items(given, "tools")
    made = [_tool(tool, f"tools.{i}") for i, tool in enumerate(tools)]
    names = [tool["function"]["name"] for tool in made]
    chat: dict[str, Any] = {"tools": made} if made else {}
    wanted = document.get("tool_choice")
    if wanted is None:
        return chat
    choice = mapping(wanted, "tool_choice")
    chosen = _choice(choice, names)
    if not made:
        return {}
    chat["tool_choice"] = chosen
    if flag(choice.get("disable_parallel_tool_use"), "tool_choice.disable_parallel_tool_use"):
        chat["parallel_tool_calls"] = False
    return chat


def _tool(value: object, path: str) -> dict[str, Any]:
    tool = mapping(value, path)
    kind = tool.get("type")
    if kind not in (None, "custom"):
        raise invalid(
            f"{path}.type", f"{kind!r} is run or defined by Anthropic; only 'custom' tools work here"
        )
    function: dict[str, Any] = {"name": name(tool.get("name"), f"{path}.name")}
    if tool.get("description") is not None:
        function["description"] = string(tool["description"], f"{path}.description")
    function["parameters"] = mapping(tool.get("input_schema"), f"{path}.input_schema")
    if tool.get("strict") is not None:
        function["strict"] = flag(tool["strict"], f"{path}.strict")
    return {"type": "function", "function": function}


def _choice(choice: dict[str, Any], names: list[str]) -> str | dict[str, Any]:
    match choice.get("type"):
        case "auto" | "none" as kind:
            return str(kind)
        case "any":
            if not names:
                raise invalid("tool_choice", "asks for a tool, but there are no tools")
            return "required"
        case "tool":
            wanted = name(choice.get("name"), "tool_choice.name")
            if wanted not in names:
                raise invalid("tool_choice.name", f"no tool is called {wanted!r}")
            return {"type": "function", "function": {"name": wanted}}
        case kind:
            raise invalid("tool_choice.type", f"{kind!r} is none of 'auto', 'any', 'tool', 'none'")
