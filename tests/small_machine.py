"""A machine with little memory: a control group with a limit, in which a test runs the manager and everything else.

The processes in it see the limit as the machine's memory. Where no control group can be made (no rights, no memory
controller) the test is skipped, and says so.
"""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from support import wait_for

MIB = 1 << 20
_V1 = Path("/sys/fs/cgroup/memory")
_V2 = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class SmallMachine:
    """A control group that limits memory."""

    folder: Path
    #: Version 1 names its files differently.
    v1: bool

    def enter(self) -> None:
        """Move the calling process in; what it starts is in it too. For `preexec_fn`."""
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def limit(self, mib: int) -> None:
        """Set the limit, in MiB; swap, if any, does not count as memory."""
        self._limit_swap(mib)  # with swap it may be no less than without: first when raised ...
        name = "memory.limit_in_bytes" if self.v1 else "memory.max"
        (self.folder / name).write_text(str(mib * MIB))
        self._limit_swap(mib)  # ... last when lowered

    def _limit_swap(self, mib: int) -> None:
        name = "memory.memsw.limit_in_bytes" if self.v1 else "memory.swap.max"
        with suppress(OSError):  # there may be no swap accounting
            (self.folder / name).write_text(str(mib * MIB if self.v1 else 0))

    @property
    def used(self) -> int:
        """Bytes charged now, page cache included."""
        return int((self.folder / ("memory.usage_in_bytes" if self.v1 else "memory.current")).read_text())

    @property
    def anonymous(self) -> int:
        """Bytes charged now that are no file's: they cannot be dropped."""
        stat = dict(line.split() for line in (self.folder / "memory.stat").read_text().splitlines())
        return int(stat["total_rss"] if self.v1 else stat["anon"])

    @property
    def kills(self) -> int:
        """How often the kernel killed a process in here for want of memory."""
        name = "memory.oom_control" if self.v1 else "memory.events"
        counts = dict(line.split() for line in (self.folder / name).read_text().splitlines())
        return int(counts.get("oom_kill", 0))

    @property
    def pids(self) -> list[int]:
        """The processes in here."""
        return [int(line) for line in (self.folder / "cgroup.procs").read_text().split()]


@contextmanager
def small_machine(mib: int) -> Iterator[SmallMachine]:
    """Yield a control group limited to `mib` MiB; it is removed once the processes in it have ended."""
    v1 = (_V1 / "memory.limit_in_bytes").exists()
    folder = (_V1 if v1 else _V2) / f"reconciler-test-{uuid.uuid4().hex[:12]}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    machine = SmallMachine(folder, v1)
    try:
        try:
            machine.limit(mib)
        except OSError as error:
            pytest.skip(f"memory cannot be limited here: {error}")
        yield machine
    finally:
        # Also after a failure: what a test has started ends a moment later, and only an empty group can be removed.
        with suppress(AssertionError):
            wait_for(lambda: not machine.pids, 15, "a machine without processes")
        with suppress(OSError):
            folder.rmdir()
