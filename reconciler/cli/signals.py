"""Being told to end while there is something to be put back first."""

import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Final

#: What a shell adds to the number of the signal that ended a program.
BY_SIGNAL: Final = 128
#: What `signal.signal` returns and takes.
Handler = Callable[[int, FrameType | None], object] | int | None
ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Ended(SystemExit):
    """A signal ends the program; its exit code is what a shell makes of that."""

    def __init__(self, number: int) -> None:
        super().__init__(BY_SIGNAL + number)


class Endings:
    """The block in which a signal ends the program by an exception, so that whatever is held is given back.

    Ctrl-C stays a KeyboardInterrupt. What is ignored stays ignored: that is what nohup is for. Main thread only.
    """

    def __init__(self) -> None:
        self._waits = False
        self._came: int | None = None
        self._before: dict[int, Handler] = {}

    def __enter__(self) -> "Endings":
        for number in heard():
            self._before[number] = signal.signal(number, self._take)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def put_off(self) -> None:
        """From now on let what is done come to its end."""
        self._waits = True

    def allow(self) -> None:
        """From now on a signal ends the program again; so does one that came. Raises `Ended`, KeyboardInterrupt."""
        self._waits = False
        if self._came is not None:
            self._end(self._came)

    def _take(self, number: int, _frame: FrameType | None) -> None:
        if self._waits:
            self._came = number
        else:
            self._end(number)

    def _end(self, number: int) -> None:
        self._waits = True  # one is enough: what is given back now is not broken off by a second one
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise Ended(number)


def heard() -> list[int]:
    """Return the signals that end a program, without those that are ignored."""
    return [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]
