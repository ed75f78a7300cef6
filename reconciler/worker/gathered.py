"""The pieces of an answer in text: each looked at, and put together to a message."""

from __future__ import annotations

from typing import Any

from .errors import Failed

#: Characters of an answer that is kept until it is whole. A class that never ends would take all memory there is.
MOST = 64 << 20


class Gathered:
    """The answer as far as it has come. Without `keeps` its text is not kept, only looked at."""

    def __init__(self, name: str, keeps: bool = True) -> None:
        self._name = name
        self._keeps = keeps
        self._texts: list[str] = []
        self._more: dict[str, Any] = {}
        self._calls: dict[int, dict[str, Any]] = {}
        self._length = 0
        self._next = 0

    def add(self, piece: Any) -> dict[str, Any]:
        """Take a text, or a dict of a message; return it as a piece of a stream. Raises Failed."""
        part = {"content": piece} if isinstance(piece, str) else piece
        if not isinstance(part, dict):
            raise Failed(f"{self._name} returned a {type(piece).__name__}: a text or a dict is wanted")
        text, calls = part.get("content"), part.get("tool_calls")
        if text is not None and not isinstance(text, str):
            raise Failed(f"{self._name} returned a {type(text).__name__} as content: a text is wanted")
        if calls:
            part = {**part, "tool_calls": [self._call(call) for call in self._listed(calls)]}
        if self._keeps:
            self._more.update(part)
            self._texts += [text] if text else []
            self._length += len(text or "") + (len(str(calls)) if calls else 0)
            if self._length > MOST:
                raise Failed(f"{self._name} returned more than {MOST >> 20} Mi characters")
        return part

    def _listed(self, calls: Any) -> list[dict[str, Any]]:
        if isinstance(calls, (list, tuple)) and all(isinstance(call, dict) for call in calls):
            return list(calls)
        raise Failed(
            f"{self._name} returned a {type(calls).__name__} as tool_calls: a list of dicts is wanted"
        )

    def _call(self, call: dict[str, Any]) -> dict[str, Any]:
        """Return a call of a tool with its number, by which clients put the pieces of a stream together."""
        number = call.get("index")
        if not isinstance(number, int):
            number = self._next
        self._next = max(self._next, number + 1)
        known = self._calls.setdefault(number, {})
        if self._keeps:
            self._calls[number] = _joined(known, call)
        return {**call, "index": number}

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._texts)

    @property
    def finish(self) -> str:
        """Why it ended, as OpenAI says it."""
        return "tool_calls" if self._calls else "stop"

    def message(self) -> dict[str, Any]:
        """Return the whole message; calls of tools without a text have null in its place."""
        text: str | None = self.text
        if not self._calls:
            return {"role": "assistant", **self._more, "content": text}
        calls = [self._calls[number] for number in sorted(self._calls)]
        return {"role": "assistant", **self._more, "content": text or None, "tool_calls": calls}


def _joined(known: dict[str, Any], call: dict[str, Any]) -> dict[str, Any]:
    """Return a call with another piece of it: names come once, arguments in pieces."""
    plain = {key: value for key, value in call.items() if key != "index" and value is not None}
    function = plain.get("function")
    before = known.get("function")
    if isinstance(function, dict) and isinstance(before, dict):
        told, more = before.get("arguments"), function.get("arguments")
        whole = {**before, **{key: value for key, value in function.items() if value is not None}}
        if isinstance(told, str) and isinstance(more, str):
            whole["arguments"] = told + more
        plain["function"] = whole
    return {**known, **plain}
