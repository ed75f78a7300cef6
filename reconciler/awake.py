"""Time as this program was awake: what it stood still (suspended, frozen, stopped by a signal) is no time.

The system's clock goes on meanwhile, so that on waking every limit seems to have passed, of waits nobody could end.
"""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final
from weakref import WeakKeyDictionary

import anyio

#: Seconds between two looks at the clock, while anything is timed.
PACE: Final = 0.25
#: A look that comes so many seconds late is no matter of a busy machine.
STANDSTILL: Final = 2.0

_clocks: WeakKeyDictionary[asyncio.AbstractEventLoop, "Awake"] = WeakKeyDictionary()


class Awake:
    """The time of one event loop, which does not go on while that stands still. Right while a timer of it runs."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._stood = 0.0
        self._running = 0
        #: When the next look is due; None = nothing is timed.
        self._due: float | None = None

    def time(self) -> float:
        """Return the seconds of the event loop's clock without those it stood still."""
        now = self.loop.time()
        late = 0.0 if self._due is None else now - self._due
        # All since the look before: whatever came in meanwhile is still to be read.
        return now - self._stood - (late + PACE if late >= STANDSTILL else 0.0)

    def call_later(self, seconds: float, call: Callable[..., object], *args: Any) -> "Timer":
        """Call it once the program has been awake for so many seconds."""
        return Timer(self, seconds, call, args)

    def begin(self) -> None:
        """Note that one timer more runs."""
        self._running += 1
        if self._due is None:
            self._look_later()

    def end(self) -> None:
        """Note that one timer less runs."""
        self._running -= 1

    def _look(self) -> None:
        self._stood = self.loop.time() - self.time()
        self._due = None
        if self._running:
            self._look_later()

    def _look_later(self) -> None:
        self._due = self.loop.time() + PACE
        self.loop.call_later(PACE, self._look)


class Timer:
    """One call that is to come."""

    __slots__ = ("_args", "_awake", "_call", "_due", "_handle")

    def __init__(
        self, awake: Awake, seconds: float, call: Callable[..., object], args: tuple[Any, ...]
    ) -> None:
        self._awake, self._call, self._args = awake, call, args
        awake.begin()
        self._due = awake.time() + seconds
        self._handle: asyncio.TimerHandle | None = awake.loop.call_later(seconds, self._look)

    def when(self) -> float:
        """Return when it is due, in the time of `Awake`."""
        return self._due

    def cancel(self) -> None:
        """Take it back; harmless once it has been called."""
        if self._handle is not None:
            self._handle.cancel()
            self._over()

    def _look(self) -> None:
        left = self._due - self._awake.time()
        if left > 0:
            self._handle = self._awake.loop.call_later(left, self._look)
            return
        call, args = self._call, self._args
        self._over()
        call(*args)

    def _over(self) -> None:
        self._handle = None
        self._call, self._args = _nothing, ()  # what it referred to need not live as long as it
        self._awake.end()


def _nothing() -> None:
    """Do nothing."""


def awake(loop: asyncio.AbstractEventLoop | None = None) -> Awake:
    """Return the time of an event loop; None = the one that runs."""
    loop = loop or asyncio.get_running_loop()
    found = _clocks.get(loop)
    if found is None:
        found = _clocks[loop] = Awake(loop)
    return found


class move_on_after:  # noqa: N801 - used as anyio's function of this name
    """Leave the block once the program has been awake for so many seconds in it (None = never); yields its scope."""

    __slots__ = ("_scope", "_seconds", "_timer")

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._scope = anyio.CancelScope()
        self._timer: Timer | None = None

    def __enter__(self) -> anyio.CancelScope:
        scope = self._scope.__enter__()
        if self._seconds is not None:
            self._timer = awake().call_later(self._seconds, scope.cancel)
        return scope

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if self._timer is not None:
            self._timer.cancel()
        return bool(self._scope.__exit__(kind, error, trace))
