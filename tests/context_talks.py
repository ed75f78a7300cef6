"""Conversations, and a tokenizer of words, for the tests of the context budget."""

import json
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from reconciler.gateway.call import Call
from reconciler.gateway.context.text import CHAT, MESSAGES, RESPONSES

JSON = [(b"content-type", b"application/json")]


def call(document: dict[str, Any], path: str = CHAT) -> Call:
    """Return a request as the gateway reads it."""
    body = json.dumps(document).encode()
    return Call(path, path.encode(), "POST", JSON, body, str(document.get("model", "chat")))


def say(role: str, text: str) -> dict[str, Any]:
    """Return one message."""
    return {"role": role, "content": text}


class Words:
    """Counts every word of the JSON as a token, and four more for each message; remembers how often it was asked."""

    def __init__(self, per_word: int = 1) -> None:
        self.per_word = per_word
        self.asked: list[Mapping[str, Any]] = []

    async def __call__(self, path: str, document: Mapping[str, Any]) -> int | None:
        """Be the engine's tokenizer."""
        self.asked.append(document)
        return self.count(path, document)

    def count(self, path: str, document: Mapping[str, Any]) -> int:
        """Return the tokens of a request."""
        items = document.get("input" if path == RESPONSES else "messages", [])
        held = [items, *(document.get(name) for name in ("system", "instructions", "tools", "prompt"))]
        words = sum(len(json.dumps(part).split()) for part in held if part)
        return self.per_word * words + 4 * (len(items) if isinstance(items, list) else 1)


async def cannot(path: str, document: Mapping[str, Any]) -> int | None:
    """Be an engine that does not count."""
    return None


def chat_of(turns: int, words: int = 50, system: bool = True) -> dict[str, Any]:
    """Return a chat of that many turns of a question and an answer, and a last question."""
    items = [say("system", "be brief")] if system else []
    for number in range(turns):
        items += [
            say("user", f"q{number} " + "word " * words),
            say("assistant", f"a{number} " + "word " * words),
        ]
    return {"model": "chat", "messages": [*items, say("user", "the last question")]}


def _tool_turn(path: str, name: str, text: str) -> list[dict[str, Any]]:
    if path == CHAT:
        function = {"name": "look", "arguments": json.dumps({"at": text})}
        calls = [{"id": name, "type": "function", "function": function}]
        called = {"role": "assistant", "content": None, "tool_calls": calls}
        return [called, {"role": "tool", "tool_call_id": name, "content": text}]
    if path == MESSAGES:
        use = {"type": "tool_use", "id": name, "name": "look", "input": {"at": text}}
        result = {"type": "tool_result", "tool_use_id": name, "content": [{"type": "text", "text": text}]}
        return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    return [
        {"type": "function_call", "call_id": name, "name": "look", "arguments": json.dumps({"at": text})},
        {"type": "function_call_output", "call_id": name, "output": text},
    ]


def _words(number: int) -> str:
    return "word " * number + "end"


@st.composite
def talks(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """Draw a path and a conversation: any order of roles, tools whose results come late or not at all."""
    path = draw(st.sampled_from([CHAT, MESSAGES, RESPONSES]))
    roles = ["user", "assistant", "tool", "late"] + (["system"] if path != MESSAGES else [])
    items: list[dict[str, Any]] = []
    owed: list[dict[str, Any]] = []
    for number, role in enumerate(draw(st.lists(st.sampled_from(roles), min_size=1, max_size=16))):
        text = f"n{number} {_words(draw(st.integers(0, 60)))}"
        if role in ("tool", "late"):
            used, result = _tool_turn(path, draw(st.sampled_from([f"c{number}", "c"])), text)
            items.append(used)
            (owed if role == "late" else items).append(result)
        else:
            items.append(say(role, text))
            items += [owed.pop() for _ in range(min(len(owed), draw(st.integers(0, 1))))]
    document: dict[str, Any] = {"model": "chat", "input" if path == RESPONSES else "messages": items}
    if path == MESSAGES and draw(st.booleans()):
        document["system"] = "be brief"
    return path, document


def ids(item: Any, names: tuple[str, ...]) -> set[str]:
    """Return the ids under these names anywhere in a message."""
    if isinstance(item, list):
        return set().union(*(ids(part, names) for part in item)) if item else set()
    if not isinstance(item, dict):
        return set()
    here = {item[name] for name in names if name in item}
    return here.union(*(ids(value, names) for value in item.values()))


RESULTS = ("tool_call_id", "tool_use_id")


def orphans(path: str, items: list[Any]) -> set[str]:
    """Return the ids of the results whose call did not come before them."""
    called: set[str] = set()
    lost: set[str] = set()
    for item in items:
        if path == RESPONSES:
            own = {item["call_id"]} if item.get("type") == "function_call_output" else set()
            new = {item["call_id"]} if item.get("type") == "function_call" else set()
        else:
            own, new = ids(item, RESULTS), ids(item, ("id",))
        lost |= own - called
        called |= new
    return lost
