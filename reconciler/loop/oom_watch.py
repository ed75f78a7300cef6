"""Whether the kernel has just ended a process for want of memory: who died of SIGKILL then died of that."""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from reconciler.core.crashes import Starved
from reconciler.memory import oom_kills
from reconciler.memory.oom_kills import Counters

#: Seconds between the kernel's decision and the moment in which the process is gone, at most: it is large.
BEFORE: Final = 30.0
#: Looks at the counters closer together than this are one.
PACE: Final = 1.0


class OomWatch:
    """Remembers what the kernel's counters said. Its methods block briefly, and may be called from any thread."""

    def __init__(
        self,
        count: Callable[[], Counters] = oom_kills.count,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._count, self._clock = count, clock
        self._lock = threading.Lock()
        #: When, and what the counters said; the oldest are dropped, but for the last one before `BEFORE`.
        self._seen: deque[tuple[float, Counters]] = deque()

    def look(self) -> None:
        """Note what the counters say now."""
        with self._lock:
            now = self._clock()
            if not self._seen or now - self._seen[-1][0] >= PACE:
                self._note(now, self._count())

    def starved(self, *, ours: bool) -> Starved:
        """Return whether the kernel ended a process within the last `BEFORE` seconds.

        `ours`: who died was in our own control group. Then its counter rules, for the one of the machine also counts
        what was ended elsewhere. One that only tells of the end of another (a container's client) may be anywhere.
        """
        with self._lock:
            now, counted = self._clock(), self._count()
            before = self._seen[0][1] if self._seen else Counters()
            self._note(now, counted)
        group, machine = _rose(before.group, counted.group), _rose(before.machine, counted.machine)
        if group is not None and (group or ours):
            return Starved.YES if group else Starved.NO
        if machine is None:
            return Starved.UNKNOWN
        return Starved.PROBABLY if machine else Starved.NO

    def _note(self, now: float, counted: Counters) -> None:
        self._seen.append((now, counted))
        while len(self._seen) > 1 and self._seen[1][0] <= now - BEFORE:
            self._seen.popleft()


def _rose(before: int | None, now: int | None) -> bool | None:
    """Return whether a counter has grown; None = it cannot be told."""
    return None if before is None or now is None else now > before
