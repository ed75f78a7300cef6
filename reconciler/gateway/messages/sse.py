"""Server-sent events out of bytes that arrive in any pieces."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from reconciler.gateway.errors import ApiError

#: Bytes of one event at most.
MAX_EVENT_BYTES: Final = 16 * 1024 * 1024

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Event:
    """One event, or one comment."""

    data: str
    comment: bool = False


class EventReader:
    """Reads a stream of events. Only a new piece is searched for line ends: a long line costs its length once."""

    def __init__(self, limit: int = MAX_EVENT_BYTES) -> None:
        self._limit = limit
        self._line: list[bytes] = []
        self._data: list[bytes] = []
        self._size = 0
        self._after_cr = False

    def feed(self, piece: bytes) -> Iterator[Event]:
        """Yield the events that `piece` completes. Raises `ApiError` (502) for one longer than the limit."""
        if self._after_cr and piece.startswith(b"\n"):
            piece, self._after_cr = piece[1:], False
        if not piece:
            return
        self._after_cr = piece.endswith(b"\r")
        *ended, rest = _LINE_END.split(piece)
        for text in ended:
            self._keep(text)
            line = b"".join(self._line)
            self._line.clear()
            yield from self._read(line)
        self._keep(rest)

    def finish(self) -> Iterator[Event]:
        """Yield what the stream ended with although no empty line came after it."""
        yield from self._read(b"".join(self._line))
        yield from self._read(b"")
        self._line.clear()

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._limit:
            raise ApiError(
                "upstream_error", f"the model's server sent an event longer than {self._limit} bytes"
            )
        if part:
            self._line.append(part)

    def _read(self, line: bytes) -> Iterator[Event]:
        if not line:
            if self._data:
                yield Event(b"\n".join(self._data).decode(errors="replace"))
            self._data.clear()
            self._size = 0
            return
        name, _, value = line.partition(b":")
        if not name:
            yield Event(value.decode(errors="replace"), comment=True)
        elif name == b"data":
            self._data.append(value.removeprefix(b" "))
        elif name == b"error":  # how older llama.cpp servers say that they failed in the middle
            self._data.append(b'{"error":%s}' % value)
