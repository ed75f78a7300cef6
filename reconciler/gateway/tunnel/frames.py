"""As much of WebSocket framing (RFC 6455, 5.2) as it takes to say goodbye between two frames."""

import struct
from typing import Final

GOING_AWAY: Final = 1001
#: The first kind of control frame; the others are pings and pongs.
_CLOSE: Final = 0x8
#: Bytes a reason may have: a control frame carries 125, two of them the code.
REASON_BYTES: Final = 123


class Frames:
    """Where in a stream of frames we are. Only their heads are looked at; payloads are counted."""

    __slots__ = ("_control", "_head", "_left", "closing")

    def __init__(self) -> None:
        self._head = bytearray()
        self._left = 0
        self._control = False
        #: A close frame went by: nothing may follow it.
        self.closing = False

    @property
    def whole(self) -> bool:
        """Whether the last frame was complete, so that another one may begin here."""
        return not self._left and not self._head

    def feed(self, data: bytes) -> bool:
        """Follow the next bytes; return whether any of them says something, as pings and pongs do not."""
        position, end, says = 0, len(data), False
        while position < end:
            if self._left:
                step = min(self._left, end - position)
                self._left -= step
                position += step
                says = says or not self._control
                continue
            self._head.append(data[position])
            position += 1
            if len(self._head) >= 2 and len(self._head) == _head_size(self._head[1]):
                self._begin()
                says = says or not self._control
        return says

    def _begin(self) -> None:
        head = self._head
        kind = head[0] & 0x0F
        self._control = kind >= _CLOSE
        self.closing = self.closing or kind == _CLOSE
        short = head[1] & 0x7F
        if short == 126:
            (self._left,) = struct.unpack_from("!H", head, 2)
        elif short == 127:
            (self._left,) = struct.unpack_from("!Q", head, 2)
        else:
            self._left = short
        head.clear()


def _head_size(second: int) -> int:
    extended = {126: 2, 127: 8}.get(second & 0x7F, 0)
    return 2 + extended + (4 if second & 0x80 else 0)


def close_frame(code: int, reason: str) -> bytes:
    """Return a server's close frame; a reason that is too long loses its end.

    >>> close_frame(1001, "bye")
    b'\\x88\\x05\\x03\\xe9bye'
    """
    text = reason.encode()[:REASON_BYTES].decode(errors="ignore").encode()
    return struct.pack("!BBH", 0x80 | _CLOSE, 2 + len(text), code) + text
