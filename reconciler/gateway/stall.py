"""Ends work in which one step takes too long, for the price of one timer however many steps there are."""

import asyncio
from types import TracebackType

from reconciler.gateway.interrupt import Interrupt


class Stall:
    """`with stall:` is left early once a step, marked by `begin` and `end`, has taken `seconds`."""

    __slots__ = ("_interrupt", "_loop", "_seconds", "_since", "_timer")

    def __init__(self, seconds: float) -> None:
        self._interrupt = Interrupt()
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._since: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def happened(self) -> bool:
        """Whether the block was left because a step took too long."""
        return self._interrupt.caught

    def begin(self) -> None:
        """A step begins."""
        self._since = self._loop.time()

    def end(self) -> None:
        """The step is done."""
        self._since = None

    def __enter__(self) -> "Stall":
        self._interrupt.__enter__()
        self._timer = self._loop.call_later(self._seconds, self._look)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if self._timer is not None:
            self._timer.cancel()
        return self._interrupt.__exit__(kind, error, trace)

    def _look(self) -> None:
        now = self._loop.time()
        left = self._seconds if self._since is None else self._since + self._seconds - now
        if left > 0:
            self._timer = self._loop.call_later(left, self._look)
        else:
            self._interrupt.end()
