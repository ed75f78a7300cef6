"""Watching the memory of one model's processes, twenty times a second, in a thread."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from reconciler.host.identity import Process
from reconciler.host.tree import Mark, members
from reconciler.memory.probe import Held, MachineProbe

#: Seconds between two looks, and between two looks at which processes there are and at the machine.
PERIOD: Final = 0.05
TREE_PERIOD: Final = 0.5
#: Mapped weights cost a walk of the page tables (12 ms a GiB): at most this share of the time goes into that.
WALK_SHARE: Final = 0.2
_KEY: Final = "measured"


@dataclass(frozen=True, slots=True)
class Measured:
    """What was seen, in bytes; None = it could not be read."""

    #: Most that was held since the model was ready, and at any time, mapped weights included.
    steady: int | None
    peak: int | None
    #: What `steady` consisted of: bytes only the processes can give back, mapped weights, and of the former what
    #: drivers hold.
    committed: int | None
    warm: int | None
    device: int
    #: By how much the machine's available memory fell at most, whoever took it.
    fell: int | None
    #: Looks that told something.
    looks: int


class Watch:
    """Samples from entering to leaving the context. `find` returns the model's process once there is one.

    `find` is called from the thread, while it returns None at each look. Use `steady()` when the model is ready.
    """

    def __init__(
        self,
        probe: MachineProbe,
        find: Callable[[], Process | None],
        tree: Callable[[Process], Sequence[int]] | None = None,
    ) -> None:
        self._probe = probe
        self._find = find
        self._tree = tree or _pids
        self._ready = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="measure", daemon=True)
        self._process: Process | None = None
        self._error: BaseException | None = None
        self._peak: int | None = None
        self._steady: tuple[int, Held] | None = None
        self._before: int | None = None
        self._least: int | None = None
        self._looks = 0
        self._pids: tuple[int, ...] = ()
        self._due = self._walk_at = float("-inf")

    def __enter__(self) -> Self:
        self._before = self._probe.read(time.monotonic()).available
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        if self._error is not None and error is None:
            raise self._error

    def steady(self) -> None:
        """From now on the model is ready: what it holds is its steady size."""
        self._ready.set()

    @property
    def holds(self) -> int | None:
        """The most that was held so far; None = nothing seen yet."""
        return self._peak

    @property
    def result(self) -> Measured:
        """What was seen so far."""
        size, held = self._steady or (None, Held(None, None))
        fell = None if self._before is None or self._least is None else max(0, self._before - self._least)
        return Measured(size, self._peak, held.committed, held.warm, held.device, fell, self._looks)

    # -- in the thread --------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while True:
                last = self._stop.is_set()  # one more look after the end was asked for
                self._look(time.monotonic(), last)
                if last:
                    return
                self._stop.wait(PERIOD)
        except BaseException as error:  # raised again by whoever waits for the end
            self._error = error

    def _look(self, now: float, last: bool) -> None:
        if self._process is None:
            self._process = self._find()
        if self._process is None:
            return
        if now >= self._due:
            self._due = now + TREE_PERIOD
            self._pids = tuple(self._tree(self._process))
            self._note_available(now)
        if not self._pids:
            return
        walk = last or now >= self._walk_at
        began = time.monotonic()
        held = self._probe.held({_KEY: self._pids}, now, walk=(_KEY,) if walk else ())[_KEY]
        if walk:
            self._walk_at = now + max(TREE_PERIOD, (time.monotonic() - began) / WALK_SHARE)
        self._note(held)

    def _note_available(self, now: float) -> None:
        available = self._probe.read(now).available
        if available is not None:
            self._least = available if self._least is None else min(self._least, available)

    def _note(self, held: Held) -> None:
        if held.committed is None:
            return
        self._looks += 1
        size = held.committed + (held.warm or 0)
        self._peak = max(self._peak or 0, size, held.peak or 0)
        if self._ready.is_set() and (self._steady is None or size >= self._steady[0]):
            self._steady = (size, held)


def _pids(process: Process) -> Sequence[int]:
    """Return the process with its session and descendants, whoever started it."""
    return [member.pid for member in members(process, Mark("", ""))]
