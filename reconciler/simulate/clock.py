"""Virtual time: what happens next, and what time it is then."""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final

from reconciler.leases import Lease
from reconciler.leases.page import Page

#: Kinds of events.
COME: Final = 0
END: Final = 1
CALL: Final = 2

Event = tuple[float, int, int, object]


class Clock:
    """A clock that is moved on by whoever runs the simulation, and the events that are due."""

    __slots__ = ("_count", "events", "now")

    def __init__(self, now: float) -> None:
        self.now = now
        self.events: list[Event] = []
        self._count = 0

    def __call__(self) -> float:
        return self.now

    def come(self, when: float, row: int) -> None:
        """Let a request come at `when`."""
        self._push(when, COME, row)

    def end(self, when: float, row: int, page: Page, lease: Lease) -> None:
        """Let a request end at `when`."""
        self._push(when, END, (row, page, lease))

    def at(self, when: float, call: Callable[[], None]) -> None:
        """Call something at `when`."""
        self._push(when, CALL, call)

    def _push(self, when: float, kind: int, what: object) -> None:
        # Of what is due at the same time, the first that was said comes first.
        self._count += 1
        heappush(self.events, (when, self._count, kind, what))

    def pop(self) -> Event:
        """Take the next event out, and move on to it."""
        event = heappop(self.events)
        self.now = max(self.now, event[0])
        return event
