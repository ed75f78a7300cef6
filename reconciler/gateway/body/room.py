"""How much memory large request bodies take together, and how slowly one may come that takes some of it.

Room is taken as bytes arrive, so that a body which is announced and does not come takes none. The oldest of those
that are being read finds as much free as it still needs: it can always be read to its end, and then the next one is
the oldest. So bodies that wait for each other do not wait for ever. The others find as much free as they have already,
so that a few are soon read whole instead of many by half.
"""

from dataclasses import dataclass
from typing import Final

import anyio

from reconciler.awake import move_on_after
from reconciler.gateway.errors import ApiError

#: Bytes from which a body is large. Smaller ones are always read.
LARGE: Final = 1024 * 1024
#: All large bodies together may take so many times what one may.
ROOM_FACTOR: Final = 4
#: Seconds a large body waits for room.
ROOM_SECONDS: Final = 60.0
#: Room is taken in steps of so many bytes.
STEP_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a large body has to come once it was waited for so many seconds: on average, in bytes a second."""

    grace_seconds: float = 30.0
    bytes_per_second: int = 64 * 1024

    def check(self, came: int, waited: float) -> None:
        """Raise `ApiError` (408) if `came` bytes are too few for the seconds that were waited for them."""
        if waited > self.grace_seconds and came < waited * self.bytes_per_second:
            text = (
                f"{came} bytes of the body came in {waited:.0f} s, less than {self.bytes_per_second} a second"
            )
            raise ApiError("request_timeout", text, headers=((b"connection", b"close"),))


class Room:
    """What is taken, by whom. `seconds`: how long a body waits for a step."""

    def __init__(self, seconds: float = ROOM_SECONDS, pace: Pace | None = None) -> None:
        self.used = 0
        self.seconds = seconds
        self.pace = pace or Pace()
        #: The bodies that are being read, the oldest first. (A dictionary is a set that keeps its order.)
        self._reading: dict[Share, None] = {}

    def share(self, most: int, limit: int) -> "Share":
        """Return what a body takes that may have so many bytes, where any may have `limit`: nothing yet."""
        made = Share(self, most, limit)
        self._reading[made] = None
        return made

    def end(self, share: "Share") -> None:
        """Note that a body is not being read any more."""
        self._reading.pop(share, None)

    def grant(self) -> None:
        """Give what is wished for, as far as it goes, to older bodies first."""
        kept_free, oldest = 0, True
        for share in self._reading:
            if share.wanted:
                if self.used + share.wanted + kept_free > share.total:
                    return
                share.give(share.wanted)
            left = share.most - share.held
            kept_free += left if oldest else min(left, share.held)
            oldest = False


class Share:
    """What one body takes of the room, in bytes."""

    def __init__(self, room: Room, most: int, limit: int) -> None:
        self.most = most
        self.total = ROOM_FACTOR * limit
        self.held = 0
        #: Bytes that it waits for.
        self.wanted = 0
        self._room = room
        self._granted: anyio.Event | None = None

    async def grow(self, size: int) -> None:
        """Have room for `size` bytes, no more than it may have; wait for it.

        Raises `ApiError` (503) if none comes free.
        """
        if size <= self.held:
            return
        room = self._room
        self.wanted = min(self.most, -(-size // STEP_BYTES) * STEP_BYTES) - self.held
        try:
            room.grant()
            if self.wanted:
                self._granted = anyio.Event()
                with move_on_after(room.seconds):
                    await self._granted.wait()
            if self.wanted:
                text = f"other requests hold {room.used} of {self.total} bytes for bodies of {LARGE}"
                raise ApiError("too_many_bodies", f"{text} bytes and more", retry_after=5)
        finally:
            self.wanted, self._granted = 0, None

    def give(self, size: int) -> None:
        """Add to it."""
        self.held += size
        self._room.used += size
        self.wanted = 0
        if self._granted is not None:
            self._granted.set()

    def keep(self, size: int) -> None:
        """Hold no more than `size` bytes from now on: the body was read, or is not wanted any more."""
        room = self._room
        room.end(self)
        room.used -= self.held - size
        self.held = size
        room.grant()
