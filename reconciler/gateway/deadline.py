"""A limit on many waits, one after the other, for the price of one timer: most are over long before it is due."""

from collections.abc import Callable

from reconciler.awake import Awake, Timer


class Deadline:
    """Calls what `set` was given unless it is lifted, or set again, in time. A timer that runs already is used again.

    `close` it with what it watches: a timer in the event loop keeps everything it refers to in memory.
    """

    __slots__ = ("_awake", "_due", "_late", "_timer")

    def __init__(self, awake: Awake) -> None:
        self._awake = awake
        self._due = 0.0
        self._late: Callable[[], None] | None = None
        self._timer: Timer | None = None

    def set(self, seconds: float, late: Callable[[], None]) -> None:
        """Call `late` in so many seconds, and nothing that was set before."""
        self._due = due = self._awake.time() + seconds
        self._late = late
        timer = self._timer
        if timer is None:
            self._timer = self._awake.call_later(seconds, self._look)
        elif timer.when() > due:
            timer.cancel()
            self._timer = self._awake.call_later(seconds, self._look)

    def lift(self) -> None:
        """Call nothing."""
        self._late = None

    def close(self) -> None:
        """Lift it, and leave nothing in the event loop."""
        self._late = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self._late is None:
            return
        left = self._due - self._awake.time()
        if left > 0:
            self._timer = self._awake.call_later(left, self._look)
            return
        late, self._late = self._late, None
        late()
