"""Whether the kernel has just ended a process for want of memory: who died of SIGKILL then died of that."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reconciler.core.crashes import Starved
from reconciler.memory import oom_kills
from reconciler.memory.oom_kills import Counters

#: Seconds between the kernel's decision and the moment in which the process is gone, at most: it is large.
BEFORE: Final = 30.0
#: Looks at the counters closer together than this are one.
PACE: Final = 1.0


@dataclass(frozen=True, slots=True)
class _Look:
    """What the counters said once; `others` are those of control groups that models of ours are in, and we are not."""

    at: float
    counters: Counters
    others: Mapping[Path, int | None]


class OomWatch:
    """Remembers what the kernel's counters said. Its methods block briefly, and may be called from any thread."""

    def __init__(
        self,
        count: Callable[[], Counters] = oom_kills.count,
        clock: Callable[[], float] = time.monotonic,
        elsewhere: Callable[[int], Path | None] = oom_kills.elsewhere,
    ) -> None:
        self._count, self._clock, self._elsewhere = count, clock, elsewhere
        self._lock = threading.Lock()
        #: The oldest are dropped, but for the last one before `BEFORE`.
        self._seen: deque[_Look] = deque()
        #: Where processes were found that are not in our own group: a wrapper, or a person, has put them there.
        self._places: dict[int, Path] = {}

    def look(self, pids: Iterable[int] = ()) -> None:
        """Note what the counters say now, and in which control groups the main processes of models are."""
        with self._lock:
            now = self._clock()
            # One that has ended meanwhile is in none any more.
            found = {pid: self._elsewhere(pid) or self._places.get(pid) for pid in pids}
            self._places = {pid: folder for pid, folder in found.items() if folder is not None}
            last = self._seen[-1] if self._seen else None
            if last is None or now - last.at >= PACE or not last.others.keys() >= set(self._places.values()):
                self._note(now)

    def starved(self, pid: int, *, ours: bool) -> Starved:
        """Return whether the kernel ended a process within the last `BEFORE` seconds.

        `ours`: it was `pid` itself that died. Then the counter of its control group rules, for the one of the machine
        also counts what was ended elsewhere. One that only tells of the end of another (a container's client) may be
        anywhere.
        """
        with self._lock:
            first = self._seen[0] if self._seen else None
            seen = self._note(self._clock())
            place = self._places.get(pid)
            group = self._rose_at(place) if place is not None else None
        before = first.counters if first is not None else Counters()
        if place is None:
            group = _rose(before.group, seen.counters.group)
        machine = _rose(before.machine, seen.counters.machine)
        if group is not None and (group or ours):
            return Starved.YES if group else Starved.NO
        if machine is None:
            return Starved.UNKNOWN
        return Starved.PROBABLY if machine else Starved.NO

    def _rose_at(self, place: Path) -> bool | None:
        said = [look.others[place] for look in self._seen if place in look.others]
        return _rose(said[0], said[-1]) if said else None

    def _note(self, now: float) -> _Look:
        others = {folder: oom_kills.counted(folder) for folder in sorted(set(self._places.values()))}
        look = _Look(now, self._count(), others)
        self._seen.append(look)
        while len(self._seen) > 1 and self._seen[1].at <= now - BEFORE:
            self._seen.popleft()
        return look


def _rose(before: int | None, now: int | None) -> bool | None:
    """Return whether a counter has grown; None = it cannot be told."""
    return None if before is None or now is None else now > before
