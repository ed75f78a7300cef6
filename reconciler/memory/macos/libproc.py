"""`libproc` through ctypes: what a process is charged by the kernel, and which processes it has started."""

import ctypes
import errno
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

_LIBRARY: Final = "/usr/lib/libproc.dylib"
#: RUSAGE_INFO_V4: the first version with the largest footprint so far.
_FLAVOR: Final = 4
_WORDS: Final = 35
_FOOTPRINT: Final = 7
_LARGEST: Final = 28
#: A ledger of the kernel that went below 0 shows as a figure above this.
_NEGATIVE: Final = 1 << 63


class RusageInfo(ctypes.Structure):
    """`struct rusage_info_v4`: a uuid of 16 bytes and 35 numbers of 8 (296 bytes)."""

    _fields_ = (("uuid", ctypes.c_uint8 * 16), ("words", ctypes.c_uint64 * _WORDS))


#: Fills the structure for a pid and returns 0, or the errno of the failure. Blocks about 10 us.
Rusage = Callable[[int, RusageInfo], int]
#: Fills the array with the pids of a pid's children and returns 0, or the errno of the failure.
ListChildren = Callable[[int, "ctypes.Array[ctypes.c_int]"], int]


@dataclass(frozen=True, slots=True)
class Charge:
    """Bytes the kernel charges a process: now, and the largest they ever were.

    `phys_footprint`: anonymous memory at its full size whether resident, compressed or swapped out, buffers of the
    GPU, page tables. Not clean mapped pages, so not mapped weights, even while the GPU has them wired.
    """

    footprint: int
    largest: int


ENDED: Final = Charge(0, 0)


def read_charge(rusage: Rusage, pid: int) -> Charge | None:
    """Return what `pid` is charged; 0 if it has ended, None if it belongs to another user or cannot be read."""
    info = RusageInfo()
    try:
        failure = rusage(pid, info)
    except OSError:  # the library cannot be loaded
        return None
    if failure == errno.ESRCH:
        return ENDED
    if failure != 0:
        return None
    footprint, largest = int(info.words[_FOOTPRINT]), int(info.words[_LARGEST])
    if footprint >= _NEGATIVE or largest >= _NEGATIVE:
        return None
    return Charge(footprint, max(footprint, largest))


def read_descendants(list_children: ListChildren, pid: int) -> tuple[int, ...] | None:
    """Return all processes below `pid`, sorted, without itself; None if its own children cannot be listed.

    One call a process, where psutil reads every process of the machine. A process whose parent has ended belongs to
    launchd and is not found this way.
    """
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        parent = waiting.pop()
        children = _children(list_children, parent)
        if children is None:
            if parent == pid:
                return None
            continue
        new = children - found - {pid}
        found |= new
        waiting.extend(new)
    return tuple(sorted(found))


def _children(list_children: ListChildren, pid: int) -> set[int] | None:
    room = 64
    while True:
        # The returned count is in bytes on some releases and in pids on others: the zeros left over are not.
        pids = (ctypes.c_int * room)()
        try:
            failure = list_children(pid, pids)
        except OSError:
            return None
        if failure != 0:
            return set() if failure == errno.ESRCH else None
        found = {int(child) for child in pids if child > 0}
        if pids[room - 1] == 0 or room >= 1 << 16:
            return found
        room *= 2


def system_rusage(pid: int, info: RusageInfo) -> int:
    """Call `proc_pid_rusage`. Raises OSError where there is no such library."""
    return _errno_of(_load().proc_pid_rusage, pid, _FLAVOR, ctypes.byref(info))


def system_children(pid: int, pids: "ctypes.Array[ctypes.c_int]") -> int:
    """Call `proc_listchildpids`. Raises OSError where there is no such library."""
    return _errno_of(_load().proc_listchildpids, pid, ctypes.byref(pids), ctypes.sizeof(pids))


@functools.cache
def _load() -> ctypes.CDLL:
    library = ctypes.CDLL(_LIBRARY, use_errno=True)
    library.proc_pid_rusage.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_void_p)
    library.proc_listchildpids.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_int)
    return library


def _errno_of(function: Callable[..., Any], *arguments: object) -> int:
    ctypes.set_errno(0)
    # 0, or for lists the number found, is success.
    return 0 if function(*arguments) >= 0 else ctypes.get_errno() or errno.EINVAL
