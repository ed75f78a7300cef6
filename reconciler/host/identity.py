"""Who a process is: its pid together with its start time, which no later owner of the same pid can share."""

import errno
import os
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

LINUX: Final = sys.platform.startswith("linux")
#: psutil tells start times in seconds where the kernel tells no ticks.
_TICKS_PER_SECOND: Final = 100
#: The kernel's flag of a process that ends (PF_EXITING).
_EXITING: Final = 0x4
#: The system, or our limits, give no more for now.
_LACKING: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
#: States of what is only left for its parent to be told.
_DEAD: Final = (b"Z", b"X", b"x")


@dataclass(frozen=True, slots=True, order=True)
class Process:
    """One process for good: pid and start time (clock ticks since boot; on macOS 1/100 s since 1970)."""

    pid: int
    started: int


@dataclass(frozen=True, slots=True)
class Stat:
    """What the kernel says of one process at one moment."""

    started: int
    parent: int
    session: int
    #: It runs (or sleeps); a zombie only waits for its parent to read its exit status.
    alive: bool


def read_stat(pid: int) -> Stat | None:
    """Return what is known of `pid`, zombies included; None if there is no such process. Blocking (one small read).

    Start ticks do not move when the wall clock is set, so an identity outlives any clock change. Raises OSError while
    nothing can be opened: then nothing is known of any process.
    """
    if not LINUX:
        return _read_psutil(pid)
    fields = _fields(f"/proc/{pid}/stat")
    if fields is None:
        return None
    # A leader that left its other threads behind looks like a zombie, but its memory is still there.
    alive = fields[0] not in _DEAD or int(fields[17]) > 1
    return Stat(started=int(fields[19]), parent=int(fields[1]), session=int(fields[3]), alive=alive)


def _read_psutil(pid: int) -> Stat | None:
    try:
        found = psutil.Process(pid)
        with found.oneshot():
            started = round(found.create_time() * _TICKS_PER_SECOND)
            alive = found.status() != psutil.STATUS_ZOMBIE
            return Stat(started=started, parent=found.ppid(), session=os.getsid(pid), alive=alive)
    except (psutil.Error, OSError):
        return None


def identify(pid: int) -> Process | None:
    """Return the identity of the live process `pid`, or None. Blocking (one small read)."""
    stat = read_stat(pid)
    return Process(pid, stat.started) if stat is not None and stat.alive else None


def age(process: Process) -> float | None:
    """Return the seconds since `process` was started, by a clock that nobody sets; None where there is none (macOS).

    Time that the machine slept counts.
    """
    if not LINUX:
        return None
    since_boot = time.clock_gettime(time.CLOCK_BOOTTIME)
    return max(0.0, since_boot - process.started / os.sysconf("SC_CLK_TCK"))


def alive(process: Process) -> bool:
    """Return whether exactly this process still runs; a zombie does not. Blocking (one small read)."""
    return identify(process.pid) == process


def ending(pid: int) -> bool:
    """Return whether `pid` has given its memory back and closes what it has open: it does nothing more for anybody.

    Nobody is told of its end before all is closed, which takes long where a GPU's driver has a part in it, and its
    connections may close sooner than the port it listens on. A zombie has nothing open any more. Known on Linux only.
    Blocking (one small read).
    """
    if not LINUX:
        return False
    try:
        leader = _fields(f"/proc/{pid}/stat")
    except OSError:
        return False  # it cannot be told
    if leader is None:
        return False
    if leader[0] not in _DEAD:
        return _exits(leader)
    if int(leader[17]) <= 1:
        return False
    # The first thread is done, and the last one closes what all of them had open.
    try:
        threads = [_fields(f"/proc/{pid}/task/{name}/stat") for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return False
    alive = [found for found in threads if found is not None and found[0] not in _DEAD]
    return bool(alive) and all(map(_exits, alive))


def _exits(fields: list[bytes]) -> bool:
    return int(fields[20]) == 0 and bool(int(fields[6]) & _EXITING)


def _fields(path: str) -> list[bytes] | None:
    """Return what a `stat` file says behind the name, which may hold blanks and brackets; None if it is gone.

    Raises OSError if nothing can be opened now: a process of which nothing can be read is not one that has ended.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in _LACKING:
            raise
        return None
    try:
        data = os.read(file, 4096)
    except OSError:
        return None  # it went between the two
    finally:
        os.close(file)
    return data[data.rfind(b")") + 2 :].split()


def process_table() -> dict[int, Stat]:
    """Return all processes by pid, sorted. Blocking (one small read a process)."""
    pids: Iterable[int] = (
        (int(name) for name in os.listdir("/proc") if name.isdigit()) if LINUX else psutil.pids()
    )
    return {pid: stat for pid in sorted(pids) if (stat := read_stat(pid)) is not None}


def read_environ(pid: int) -> frozenset[bytes]:
    """Return the `NAME=value` strings `pid` was started with; empty if it is gone or not ours to read. Blocking."""
    if LINUX:
        try:
            if os.stat(f"/proc/{pid}").st_uid != os.geteuid():
                return frozenset()
            return frozenset(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
        except OSError:
            return frozenset()
    try:
        found = psutil.Process(pid)
        if found.uids().effective != os.geteuid():
            return frozenset()
        return frozenset(f"{name}={value}".encode() for name, value in found.environ().items())
    except (psutil.Error, OSError):
        return frozenset()
