"""End a whole process tree, politely first, and return only when it is really gone."""

import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import anyio
import anyio.to_thread

from reconciler.host.errors import StopError
from reconciler.host.exits import open_pidfd, reap_orphan
from reconciler.host.identity import Process, alive
from reconciler.host.tree import Mark, members

#: Some servers (llama.cpp's, whisper.cpp's) end at once on a second SIGTERM; this is how long that one gets.
SECOND_TERM_SECONDS: Final = 0.5
#: How long the kernel may take to end what got SIGKILL: a process inside a driver call may be slow to go.
KILL_SECONDS: Final = 10.0
#: What each step gets at most once somebody is in a hurry.
HURRIED_SECONDS: Final = 2.0
_FIRST_PAUSE: Final = 0.005
_LONGEST_PAUSE: Final = 0.05


@dataclass(frozen=True, slots=True)
class StopReport:
    """What a stop took. `signal_used` is the strongest signal sent; None = nothing was left to stop."""

    seconds: float
    signal_used: signal.Signals | None
    #: Every process that was ended, sorted.
    pids: tuple[int, ...]


def send(process: Process, number: signal.Signals) -> bool:
    """Signal exactly `process`; return False if it is gone or its pid belongs to another. Blocking.

    Raises PermissionError for a process that changed its user.
    """
    if not hasattr(os, "pidfd_open"):
        if not alive(process):
            return False
        try:
            os.kill(process.pid, number)
        except ProcessLookupError:
            return False
        return True
    pidfd = open_pidfd(process)
    if pidfd is None:
        return False
    try:
        signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(pidfd)
    return True


class Ladder:
    """One stop: TERM, grace, TERM again, KILL, each over the whole tree."""

    def __init__(
        self,
        process: Process | None,
        mark: Mark,
        on_escalate: Callable[[str], None] | None,
        hurried: Callable[[], bool] | None = None,
    ) -> None:
        self._process = process
        self._mark = mark
        self._on_escalate = on_escalate or (lambda _: None)
        self._hurried = hurried or (lambda: False)
        self._seen: set[Process] = set()
        self._used: signal.Signals | None = None

    async def run(self, grace: float) -> StopReport:
        """Stop everything; a `grace` of 0 seconds kills at once. Raises StopError if something survives."""
        began = time.monotonic()
        if await self._look():
            await self._climb(grace)
            for process in sorted(self._seen - {self._process}):
                await anyio.to_thread.run_sync(reap_orphan, process)
        pids = tuple(sorted({process.pid for process in self._seen}))
        return StopReport(time.monotonic() - began, self._used, pids)

    async def _climb(self, grace: float) -> None:
        began = time.monotonic()
        if grace > 0:
            if await self._signal_and_wait(signal.SIGTERM, grace):
                return
            waited = time.monotonic() - began
            self._on_escalate(f"{await self._left()} still runs {waited:.3g} s after SIGTERM: SIGTERM again")
            if await self._signal_and_wait(signal.SIGTERM, min(SECOND_TERM_SECONDS, grace)):
                return
            self._on_escalate(f"{await self._left()} ignores SIGTERM: SIGKILL")
        deadline = time.monotonic() + KILL_SECONDS
        # Again and again, because something may fork while we kill.
        while not await self._signal_and_wait(signal.SIGKILL, _LONGEST_PAUSE * 4):
            if time.monotonic() > deadline:
                pids = tuple(p.pid for p in await self._look())
                if pids:
                    raise StopError(f"{_name(pids)} survived SIGKILL for {KILL_SECONDS:g} s", pids)
                return

    async def _signal_and_wait(self, number: signal.Signals, seconds: float) -> bool:
        """Signal all that is left and return True once nothing is, False after `seconds`, or soon where it hurries."""
        deadline, hurried = time.monotonic() + seconds, False
        await anyio.to_thread.run_sync(_send_all, await self._look(), number)
        self._used = number
        pause = _FIRST_PAUSE
        while True:
            if not await anyio.to_thread.run_sync(_living, tuple(self._seen)):
                newcomers = await self._look()
                if not newcomers:
                    return True
                await anyio.to_thread.run_sync(_send_all, newcomers, number)
            if not hurried and self._hurried():
                hurried, deadline = True, min(deadline, time.monotonic() + HURRIED_SECONDS)
            if time.monotonic() >= deadline:
                return False
            await anyio.sleep(min(pause, max(0.0, deadline - time.monotonic())))
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def _look(self) -> tuple[Process, ...]:
        """Return what lives: the launch's members now, and those seen before that have left it since."""
        found = await anyio.to_thread.run_sync(lambda: members(self._process, self._mark, thorough=True))
        self._seen.update(found)
        return await anyio.to_thread.run_sync(_living, tuple(self._seen))

    async def _left(self) -> str:
        return _name(p.pid for p in await anyio.to_thread.run_sync(_living, tuple(self._seen)))


def _name(pids: Iterable[int]) -> str:
    names = [str(pid) for pid in pids] or ["(just gone)"]
    return f"pid {names[0]}" if len(names) == 1 else f"pids {', '.join(names)}"


def _living(processes: Iterable[Process]) -> tuple[Process, ...]:
    return tuple(sorted(process for process in processes if alive(process)))


def _send_all(processes: Iterable[Process], number: signal.Signals) -> None:
    for process in processes:
        try:
            send(process, number)
            if number is signal.SIGTERM:
                send(process, signal.SIGCONT)  # a stopped process cannot act on SIGTERM
        except PermissionError:
            continue  # it changed its user; if it stays, the stop ends with an error that names it
