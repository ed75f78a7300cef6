"""Which CPUs a process gets, how far it steps back for others, how much memory it may lock."""

import errno
import os
import resource
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Final, TypeVar

from reconciler.engines.base import Command
from reconciler.host.errors import StartError

T = TypeVar("T")

#: The weakest claim to the CPU there is.
_WEAKEST: Final = 19
#: The kernel takes one change of a session's claim each 0.1 s, from all programs together.
_TRIES: Final = 5
_PAUSE: Final = 0.11


def within(command: Command, start: Callable[[], T]) -> T:
    """Return what `start` returns; the process it starts has the CPUs and the niceness that `command` asks for.

    On Linux both belong to a thread, and a new process takes them over from the one that starts it, before its first
    instruction. So a thread of its own takes them on and ends: niceness could not be given back. Raises StartError
    where there are no such CPUs, and what `start` raises.
    """
    if sys.platform != "linux" or not (command.cpus or command.nice):
        return start()
    future: Future[T] = Future()
    thread = Thread(target=_on_thread, args=(future, command, start), name="start", daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        raise StartError(f"{error}; the limit of processes (ulimit -u) or memory is reached") from error
    thread.join()
    return future.result()


def _on_thread(future: "Future[T]", command: Command, start: Callable[[], T]) -> None:
    try:
        if command.cpus:
            _take(command.cpus)
        if command.nice:
            os.setpriority(os.PRIO_PROCESS, 0, _niceness(command))
        future.set_result(start())
    except BaseException as error:  # the caller gets it, whatever it is
        future.set_exception(error)


def _take(cpus: tuple[int, ...]) -> None:
    try:
        os.sched_setaffinity(0, cpus)
    except OSError as error:
        named = ", ".join(map(str, cpus))
        raise StartError(
            f"none of the CPUs {named} may be used here ({error.strerror}): correct device.cpus"
        ) from error


def _niceness(command: Command) -> int:
    return min(_WEAKEST, os.getpriority(os.PRIO_PROCESS, 0) + command.nice)


def after_start(pid: int, command: Command) -> None:
    """Do for a process just started what can only be done to one that is there. Blocks for up to 0.6 s."""
    if command.locks:
        _let_lock(pid)
    if command.nice and sys.platform == "linux":
        _step_back(Path(f"/proc/{pid}/autogroup"), command.nice)
    elif command.nice:
        with suppress(OSError):  # it has ended already
            os.setpriority(os.PRIO_PROCESS, pid, _niceness(command))


def _let_lock(pid: int) -> None:
    """Raise the limit of locked memory as far as it goes. Where only the process itself could (macOS) it stays."""
    if not hasattr(resource, "prlimit"):
        return
    with suppress(OSError):  # it has ended already, or is another user's by now
        hard = resource.prlimit(pid, resource.RLIMIT_MEMLOCK)[1]
        resource.prlimit(pid, resource.RLIMIT_MEMLOCK, (hard, hard))


def _step_back(file: Path, nice: int) -> None:
    """Have the whole session step back, too.

    Where the kernel groups processes by session for the CPU (`sched_autogroup_enabled`), niceness counts within a
    session only, and each model has one of its own.
    """
    for _ in range(_TRIES):
        try:
            file.write_text(f"{nice}\n")
        except OSError as error:
            if error.errno != errno.EAGAIN:
                return  # there are no such groups, or the process has ended
            time.sleep(_PAUSE)
        else:
            return
