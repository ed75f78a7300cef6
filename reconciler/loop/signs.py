"""Signs of life of a process that does not answer yet: it grows, it reads from disk, it writes its log."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from reconciler.core.machine import LOAD_CAP, load_deadline
from reconciler.loop.launches import Launch
from reconciler.loop.standstill import Deadline
from reconciler.memory.procfs import field as number_after
from reconciler.memory.procfs import read_text

#: Bytes by which memory, or what was read, must have grown to count: an idle process gains a page now and then.
NOTICEABLE: Final = 1 << 20
#: Seconds between two looks: a share of the patience, within limits.
_SHARE: Final = 0.1
_SHORTEST: Final = 0.02
_LONGEST: Final = 0.25
#: Place of the faults that needed the disk in /proc/PID/stat, counted from what follows the name.
_FAULTS: Final = 9


def disk_reads(pid: int) -> int | None:
    """Return the bytes a process has had read from disk so far; None where the system does not tell. Blocks briefly.

    Where only page faults are told that needed the disk, each counts as one page.
    """
    counted = number_after(read_text(f"/proc/{pid}/io") or "", "read_bytes: ")
    if counted is not None:
        return counted
    fields = (read_text(f"/proc/{pid}/stat") or "").rpartition(")")[2].split()
    if len(fields) <= _FAULTS or not fields[_FAULTS].isdigit():
        return None
    return int(fields[_FAULTS]) * os.sysconf("SC_PAGE_SIZE")


@dataclass(slots=True)
class Signs:
    """What was seen of one launch; each look is compared with the most seen before."""

    log: Path
    holds: int = 0
    written: int | None = None
    reads: dict[int, int] = field(default_factory=dict)

    def look(self, holds: int | None, pids: tuple[int, ...]) -> str:
        """Return what has grown since the last look, for people; "" = nothing. Blocks briefly."""
        grown = []
        if holds is not None and holds >= self.holds + NOTICEABLE:
            self.holds = holds
            grown.append("its memory grew")
        if self._has_read(pids):
            grown.append("it read from disk")
        if self._has_written():
            grown.append("its log grew")
        return " and ".join(grown)

    def _has_read(self, pids: tuple[int, ...]) -> bool:
        more = False
        for pid in pids:
            count = disk_reads(pid)
            if count is None:
                continue
            known = self.reads.setdefault(pid, count)
            if count >= known + NOTICEABLE:
                self.reads[pid], more = count, True
        return more

    def _has_written(self) -> bool:
        """Whether the log has changed its size: it shrinks only by being rotated, which takes a lot of writing."""
        try:
            size = self.log.stat().st_size
        except FileNotFoundError:
            return False
        known, self.written = self.written, size
        return known is not None and size != known


class Patience:
    """How long a load may go on: `seconds` after its last sign of life, and in all `LOAD_CAP` times that.

    `scope` is cancelled when it is over. Made when the load begins, on its event loop. Time in which this program stood
    still does not count: nobody looked, and the process may have stood still with it.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self.began = self.last = clock()
        self.scope = anyio.CancelScope()
        self._deadline = Deadline(self.scope, anyio.current_time() + seconds, self._stood)
        self._sign = ""

    def renew(self, sign: str) -> None:
        """Note a sign of life, and wait on."""
        self.last, self._sign = self._clock(), sign
        left = load_deadline(self.began, self.last, self.seconds) - self.last
        self._deadline.at = anyio.current_time() + left

    @property
    def until(self) -> float:
        """When it is over, if nothing more is seen; on the event loop's clock."""
        return self._deadline.at

    def close(self) -> None:
        """Be over: the load has ended."""
        self._deadline.close()

    def _stood(self, seconds: float) -> None:
        self.began, self.last = self.began + seconds, self.last + seconds

    async def watch(self, launch: Launch, log: Path) -> None:
        """Look for signs of life until cancelled."""
        signs = Signs(log)
        pause = min(_LONGEST, max(_SHORTEST, self.seconds * _SHARE))
        while True:
            pids = launch.pids or (launch.process.pid,)
            if sign := await anyio.to_thread.run_sync(signs.look, launch.holds, pids):
                self.renew(sign)
            await anyio.sleep(pause)

    def over(self, seen: str) -> str:
        """Return why the load was given up; `seen` is what the last probe said."""
        took = self._clock() - self.began
        if not self._sign:
            return f"not ready within {self.seconds:g} s: {seen}"
        if took >= self.seconds * LOAD_CAP:
            return (
                f"not ready within {took:.0f} s, {LOAD_CAP} times timeouts.load: {seen}; it went on,"
                f" {self._sign} {self._clock() - self.last:.1f} s ago"
            )
        return (
            f"not ready after {took:.1f} s, and no progress for {self.seconds:g} s: {seen}; {self._sign} last"
        )
