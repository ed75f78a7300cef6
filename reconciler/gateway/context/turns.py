"""A conversation as turns: what may be left out of it, and only together."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from reconciler.gateway.context import estimate
from reconciler.gateway.context.text import (
    CHAT,
    MESSAGES,
    RESPONSES,
    base_of,
    item_extent,
    items_of,
)

_FIELD: Final = {CHAT: "messages", MESSAGES: "messages", RESPONSES: "input"}


class Part(Enum):
    """What a message is for the cutting of a conversation."""

    #: Instructions: always kept.
    SYSTEM = "system"
    #: Something a person said: a turn begins.
    USER = "user"
    #: An answer, a call of a tool, its result: belongs to the turn before.
    FOLLOWS = "follows"


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation and its turns, oldest first. The last turn is never left out."""

    path: str
    document: Mapping[str, Any]
    items: list[Any]
    #: Indices into `items`, of one turn each; those of instructions are in none.
    turns: tuple[tuple[int, ...], ...]
    #: Plain estimates of tokens: of each turn, and of all that is in none.
    sizes: tuple[int, ...]
    fixed: int

    @property
    def most(self) -> int:
        """How many turns can be left out."""
        return len(self.turns) - 1

    def size(self, dropped: int) -> int:
        """Return the plain estimate of what is left without the `dropped` oldest turns."""
        return self.fixed + sum(self.sizes[dropped:])

    def oldest(self, dropped: int) -> list[Any]:
        """Return the messages of the `dropped` oldest turns."""
        return [self.items[index] for turn in self.turns[:dropped] for index in turn]

    def without(self, dropped: int, note: str | None = None) -> dict[str, Any]:
        """Return the request without its `dropped` oldest turns, `note` behind the instructions."""
        gone = {index for turn in self.turns[:dropped] for index in turn}
        items = [item for index, item in enumerate(self.items) if index not in gone]
        document = {**self.document, _FIELD[self.path]: items}
        return document if note is None else _with_note(self.path, document, items, note)


def talk_of(path: str, document: Mapping[str, Any]) -> Talk | None:
    """Return the request as a conversation; None if it is none that could be shortened."""
    items = items_of(path, document) if path in _FIELD else None
    if not isinstance(items, list) or not items:
        return None
    turns = _joined(path, items, _split(path, items))
    if not turns:
        return None
    sizes = tuple(sum(estimate.plain(item_extent(items[i])) for i in turn) for turn in turns)
    inside = {index for turn in turns for index in turn}
    fixed = sum(estimate.plain(item_extent(item)) for i, item in enumerate(items) if i not in inside)
    return Talk(path, document, items, turns, sizes, fixed + estimate.plain(base_of(path, document)))


def part_of(path: str, item: Any) -> Part:
    """Return what one message is."""
    if not isinstance(item, Mapping):
        return Part.FOLLOWS
    role = item.get("role")
    if path == RESPONSES and item.get("type", "message") != "message":
        return Part.FOLLOWS
    if role in ("system", "developer"):
        return Part.SYSTEM
    # Anthropic's results of tools come in a message of the user.
    return Part.USER if role == "user" and not any(_results(item)) else Part.FOLLOWS


def _split(path: str, items: list[Any]) -> list[list[int]]:
    turns: list[list[int]] = []
    for index, item in enumerate(items):
        part = part_of(path, item)
        if part is Part.USER or (part is Part.FOLLOWS and not turns):
            turns.append([index])
        elif part is Part.FOLLOWS:
            turns[-1].append(index)
    return turns


def _joined(path: str, items: list[Any], turns: list[list[int]]) -> tuple[tuple[int, ...], ...]:
    """Join turns of which a later one holds the result of a tool called in an earlier one."""
    called: dict[str, int] = {}
    joined: list[list[int]] = []
    for turn in turns:
        reach = here = len(joined)
        for index in turn:
            reach = min([reach, *(called[r] for r in _results(items[index]) if r in called)])
            called.update(dict.fromkeys(_calls(items[index]), here))
        whole = [index for part in joined[reach:] for index in part] + turn
        joined[reach:] = [whole]
        if len(joined) <= here:  # calls of turns that were joined away are found at `reach` now
            called = {name: min(at, reach) for name, at in called.items()}
    return tuple(map(tuple, joined))


def _calls(item: Any) -> Iterator[str]:
    """Yield the ids of the tool calls in a message."""
    for part in _with_parts(item, "tool_calls"):
        kind = str(part.get("type", ""))
        if kind == "tool_use" or kind.endswith("_call") or "function" in part:
            yield from _ids(part, ("id", "call_id"))


def _results(item: Any) -> Iterator[str]:
    """Yield the ids of the calls whose results a message holds."""
    for part in _with_parts(item, "content"):
        kind = str(part.get("type", ""))
        if kind == "tool_result" or kind.endswith("_call_output") or part.get("role") == "tool":
            yield from _ids(part, ("tool_use_id", "call_id", "tool_call_id"))


def _with_parts(item: Any, field: str) -> Iterator[Mapping[str, Any]]:
    """Yield the item itself and the parts of its content (and of `field`)."""
    if not isinstance(item, Mapping):
        return
    yield item
    for name in sorted({"content", field}):
        parts = item.get(name)
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, Mapping):
                yield part


def _ids(part: Mapping[str, Any], fields: Iterable[str]) -> Iterator[str]:
    for field in fields:
        value = part.get(field)
        if isinstance(value, str) and value:
            yield value


def _with_note(path: str, document: dict[str, Any], items: list[Any], note: str) -> dict[str, Any]:
    """Put `note` behind the instructions. Many templates take one system message, and only as the first."""
    if path == CHAT:
        first = items[0] if items and part_of(path, items[0]) is Part.SYSTEM else None
        if first is None:
            return {**document, "messages": [{"role": "system", "content": note}, *items]}
        changed = {**first, "content": _appended(first.get("content"), note)}
        return {**document, "messages": [changed, *items[1:]]}
    field = "instructions" if path == RESPONSES else "system"
    return {**document, field: _appended(document.get(field), note)}


def _appended(content: Any, note: str) -> Any:
    if isinstance(content, list):
        return [*content, {"type": "text", "text": note}]
    return f"{content}\n\n{note}" if isinstance(content, str) and content else note
