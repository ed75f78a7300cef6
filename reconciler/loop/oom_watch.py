"""Whether the kernel has just ended a process for want of memory: who died of SIGKILL then died of that."""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from reconciler.memory import oom_kills

#: Seconds between the kernel's decision and the moment in which the process is gone, at most: it is large.
BEFORE: Final = 30.0
#: Looks at the counters closer together than this are one.
PACE: Final = 1.0


class OomWatch:
    """Remembers what the kernel's counters said. Its methods block briefly, and may be called from any thread."""

    def __init__(
        self,
        count: Callable[[], tuple[int, ...]] = oom_kills.count,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._count, self._clock = count, clock
        self._lock = threading.Lock()
        #: When, and what the counters said; the oldest are dropped, but for the last one before `BEFORE`.
        self._seen: deque[tuple[float, tuple[int, ...]]] = deque()

    def look(self) -> None:
        """Note what the counters say now."""
        with self._lock:
            self._look(self._clock())

    def starved(self) -> bool | None:
        """Return whether the kernel ended a process within the last `BEFORE` seconds; None = it does not say."""
        with self._lock:
            now = self._clock()
            counted = self._count()
            before = next((seen for _at, seen in self._seen if len(seen) == len(counted)), None)
            self._note(now, counted)
        if not counted or before is None:
            return None
        return any(new > old for new, old in zip(counted, before, strict=True))

    def _look(self, now: float) -> None:
        if not self._seen or now - self._seen[-1][0] >= PACE:
            self._note(now, self._count())

    def _note(self, now: float, counted: tuple[int, ...]) -> None:
        self._seen.append((now, counted))
        while len(self._seen) > 1 and self._seen[1][0] <= now - BEFORE:
            self._seen.popleft()
