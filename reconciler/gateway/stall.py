"""Ends one step of work that takes too long."""

from types import TracebackType

from reconciler.awake import Timer, awake
from reconciler.gateway.interrupt import Interrupt


class Stall:
    """`with Stall(seconds) as stall:` is left early once it has taken `seconds`."""

    __slots__ = ("_interrupt", "_seconds", "_timer")

    def __init__(self, seconds: float) -> None:
        self._interrupt = Interrupt()
        self._seconds = seconds
        self._timer: Timer | None = None

    @property
    def happened(self) -> bool:
        """Whether the block was left because it took too long."""
        return self._interrupt.caught

    def __enter__(self) -> "Stall":
        self._interrupt.__enter__()
        self._timer = awake().call_later(self._seconds, self._interrupt.end)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if self._timer is not None:
            self._timer.cancel()
        return self._interrupt.__exit__(kind, error, trace)
