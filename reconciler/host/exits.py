"""Notice that processes end, at once, and reap those that are our children, whoever may or may not be waiting."""

import asyncio
import contextlib
import os
import signal
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

import anyio
import anyio.to_thread

from reconciler.host.identity import Process, alive, read_stat

POLL_SECONDS: Final = 0.25
#: How many past exits are remembered for those who ask late.
_REMEMBERED: Final = 256


@dataclass(frozen=True, slots=True)
class Exit:
    """How a process ended: its code, or the signal that ended it; both None if only its real parent knows."""

    code: int | None = None
    signal: int | None = None

    def __str__(self) -> str:
        if self.signal is not None:
            try:
                name = signal.Signals(self.signal).name
            except ValueError:
                name = "signal"
            return f"killed by {name} ({self.signal})"
        if self.code is None:
            return "ended, exit status unknown (an earlier run started it)"
        return f"exit code {self.code}"


@dataclass(slots=True)
class _Watched:
    process: Process
    #: Ours to reap: until we do, nobody else can get its pid.
    child: bool
    done: asyncio.Event = field(default_factory=asyncio.Event)
    pidfd: int | None = None
    poller: asyncio.Task[None] | None = None


class Exits:
    """Watches processes. All methods but the blocking ones belong on the event loop."""

    def __init__(self) -> None:
        self._watched: dict[Process, _Watched] = {}
        self._past: OrderedDict[Process, Exit] = OrderedDict()

    def watch(self, process: Process, pidfd: int | None, *, child: bool) -> None:
        """Notice when `process` ends, and reap it if it is our `child`.

        `pidfd` (from `open_pidfd`) is ours from now on; without one we look every 0.25 s.
        """
        if process in self._watched or process in self._past:
            if pidfd is not None:
                os.close(pidfd)
            return
        watched = self._watched[process] = _Watched(process, child, pidfd=pidfd)
        loop = asyncio.get_running_loop()
        if pidfd is not None:
            loop.add_reader(pidfd, self._ended, watched)
        else:
            watched.poller = loop.create_task(self._poll(watched))

    async def wait(self, process: Process) -> Exit:
        """Return how `process` ended, as soon as it has; for one that is not our child both fields are None."""
        if process not in self._watched and process not in self._past:
            pidfd = await anyio.to_thread.run_sync(open_pidfd, process)
            child = False
            with contextlib.suppress(OSError):  # it cannot be told, and none that we have started gets here
                child = await anyio.to_thread.run_sync(is_child, process)
            self.watch(process, pidfd, child=child)
        if process not in self._past:
            await self._watched[process].done.wait()
        return self._past[process]

    def close(self) -> None:
        """Stop watching; the processes go on."""
        for watched in self._watched.values():
            self._release(watched)
        self._watched.clear()

    def _ended(self, watched: _Watched) -> None:
        process, result = watched.process, Exit()
        if watched.child:
            try:
                pid, status = os.waitpid(process.pid, os.WNOHANG)
            except ChildProcessError:  # somebody ignores SIGCHLD, so the kernel kept no status for us
                pid, status = process.pid, None
            if pid == 0:
                return  # not yet to be reaped: the descriptor stays readable
            if status is not None:
                code = os.waitstatus_to_exitcode(status)
                result = Exit(code=code) if code >= 0 else Exit(signal=-code)
        self._release(watched)
        del self._watched[process]
        self._past[process] = result
        while len(self._past) > _REMEMBERED:
            self._past.popitem(last=False)
        watched.done.set()

    async def _poll(self, watched: _Watched) -> None:
        while await anyio.to_thread.run_sync(_may_live, watched.process):  # noqa: ASYNC110 - nothing tells us
            await anyio.sleep(POLL_SECONDS)
        watched.poller = None
        self._ended(watched)

    def _release(self, watched: _Watched) -> None:
        if watched.pidfd is not None:
            asyncio.get_running_loop().remove_reader(watched.pidfd)
            os.close(watched.pidfd)
            watched.pidfd = None
        if watched.poller is not None:
            watched.poller.cancel()


def _may_live(process: Process) -> bool:
    """Return whether a process runs, or that cannot be told now."""
    try:
        return alive(process)
    except OSError:
        return True


def open_pidfd(process: Process) -> int | None:
    """Return a descriptor that becomes readable when exactly `process` ends; None if there is none. Blocking."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        pidfd: int = os.pidfd_open(process.pid)
    except OSError:
        return None
    # Checked after opening: now the descriptor cannot come to mean another process any more.
    stat = None
    with contextlib.suppress(OSError):  # it cannot be told: what it means stays unknown, too
        stat = read_stat(process.pid)
    if stat is None or stat.started != process.started:
        os.close(pidfd)
        return None
    return pidfd


def is_child(process: Process) -> bool:
    """Return whether `process` is (alive or a zombie) our own child. Blocking (one small read).

    Raises OSError while nothing can be opened.
    """
    stat = read_stat(process.pid)
    return stat is not None and stat.started == process.started and stat.parent == os.getpid()


def reap_orphan(process: Process) -> None:
    """Reap a dead `process` that became our child because its parent died (we are pid 1 of a container).

    Not for what `Exits` watches. Blocking only for one system call.
    """
    if is_child(process):
        with contextlib.suppress(ChildProcessError):
            os.waitpid(process.pid, os.WNOHANG)
