"""Deadlines that wait for a program which stood still: stopped by a signal, frozen with its container, or suspended.

The clock goes on meanwhile, so that on waking every deadline seems to have passed, of work that nobody could do.
"""

import asyncio
from collections.abc import Callable
from math import inf

import anyio

from reconciler.awake import PACE, STANDSTILL


class Deadline:
    """Cancels `scope` at a time of the event loop's clock, which is later by as much as the program stood still.

    Made on the event loop. `stood` is called with the seconds of each standstill, after the deadline was moved.
    """

    def __init__(
        self, scope: anyio.CancelScope, at: float, stood: Callable[[float], object] = lambda _: None
    ) -> None:
        self._scope, self._stood = scope, stood
        self._loop = asyncio.get_running_loop()
        self._next: asyncio.TimerHandle | None = None
        self._due = inf
        self.at = at

    @property
    def at(self) -> float:
        """When it is over; infinite = never."""
        return self._at

    @at.setter
    def at(self, at: float) -> None:
        self._at = at
        self._arm()

    def close(self) -> None:
        """Watch no longer."""
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _arm(self) -> None:
        self.close()
        if self._at < inf:
            self._due = min(self._at, self._loop.time() + PACE)
            self._next = self._loop.call_at(self._due, self._look)

    def _look(self) -> None:
        late = self._loop.time() - self._due
        if late >= STANDSTILL:
            self._at += late
            self._stood(late)
        if self._loop.time() >= self._at:
            self.close()
            self._scope.cancel()
        else:
            self._arm()
