"""Whether a body without a length came whole, as far as it says so itself.

The end of its connection proves nothing: the system closes the connections of a process that was killed just as an
engine does that has said everything. What is neither proved nor disproved here is up to whoever knows of the process.
"""

import json
import re
from typing import Any, Final

#: Bytes kept of the end of a body: the last event of a stream may repeat the whole answer.
TAIL_BYTES: Final = 64 * 1024
_EVENT_STREAM: Final = b"text/event-stream"
_JSON: Final = b"application/json"
_GAP: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_DONE: Final = b"[DONE]"
#: Types of the last event of a stream of Anthropic's form, and of OpenAI's responses.
_LAST_TYPES: Final = frozenset(
    {"message_stop", "error", "response.completed", "response.incomplete", "response.failed"}
)
_FIRST_TYPES: Final = ("message_", "content_block_", "response.")


class Tail:
    """The end of one body of the given `Content-Type`."""

    def __init__(self, kind: bytes) -> None:
        self._events = kind.lower().startswith(_EVENT_STREAM)
        self._json = kind.lower().startswith(_JSON)
        self._kept = bytearray()
        self._all = True

    def add(self, data: bytes) -> None:
        """Take the next bytes of the body."""
        self._kept += data
        if len(self._kept) > TAIL_BYTES:
            del self._kept[:-TAIL_BYTES]
            self._all = False

    def whole(self) -> bool:
        """Return whether the body proves that it is whole."""
        if self._events:
            said = self._last()
            return said == _DONE or _ends(_parsed(said))
        return self._json and self._all and _parsed(bytes(self._kept)) is not None

    def cut(self) -> bool:
        """Return whether the body proves that it is not whole: a stream that breaks off, in a form that says its end.

        An event that came whole and is of no known form proves nothing.
        """
        if not self._events or not self._kept:
            return False
        if not self._kept.endswith((b"\n\n", b"\r\r", b"\r\n\r\n")):
            return not self.whole()
        return _goes_on(_parsed(self._last()))

    def _last(self) -> bytes:
        """Return the data of the last event; empty if it has none, or began before what is kept."""
        events = [event for event in _GAP.split(bytes(self._kept)) if event.strip()]
        if not self._all:
            events = events[1:]
        for event in reversed(events):
            lines = [line for line in event.splitlines() if line.startswith(b"data:")]
            if lines:
                return b"\n".join(line[5:].strip() for line in lines)
        return b""


def _parsed(text: bytes) -> dict[str, Any] | None:
    try:
        said = json.loads(text)
    except ValueError:
        return None
    return said if isinstance(said, dict) else None


def _ends(said: dict[str, Any] | None) -> bool:
    """Return whether nothing comes after this event: the last of Anthropic's, of llama.cpp's own, or an error."""
    if said is None:
        return False
    return said.get("type") in _LAST_TYPES or said.get("stop") is True or "error" in said


def _goes_on(said: dict[str, Any] | None) -> bool:
    """Return whether another event should have come after this one."""
    if said is None:
        return False
    choices = said.get("choices")
    if isinstance(choices, list) and choices:
        return not any(isinstance(c, dict) and c.get("finish_reason") for c in choices)
    if said.get("stop") is False:
        return True
    return str(said.get("type", "")).startswith(_FIRST_TYPES) and not _ends(said)
