"""What the system says of a model's processes between two looks at the memory: do they run, compute, read, listen?"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from reconciler.host import Host, PortOwner
from reconciler.host.identity import LINUX
from reconciler.host.listeners import Door, door
from reconciler.loop.launches import Launch
from reconciler.loop.signs import disk_reads
from reconciler.loop.suspicion import Vitals
from reconciler.memory.drm import DrmError, read_clients
from reconciler.memory.procfs import read_text

#: Places in /proc/PID/stat, counted from what follows the name: the state, and ticks computed in user and kernel mode.
_STATE: Final = 0
_UTIME: Final = 11
_STIME: Final = 12
_STOPPED: Final = "T"
_TRACED: Final = "t"
_TICK: Final = 1.0 / os.sysconf("SC_CLK_TCK")
_NANOSECOND: Final = 1e-9
_ROOT: Final = Path("/")


@dataclass(frozen=True, slots=True)
class Ask:
    """A launch to look at: also whether it works, and whether its port is not to be taken for open any more."""

    launch: Launch
    works: bool = True
    doubtful: bool = False


class VitalSigns:
    """Reads them; remembers how each launch listened last. Blocks: it belongs in a worker thread."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._doors: dict[str, Door] = {}

    def read(self, asked: Iterable[Ask]) -> dict[str, Vitals]:
        """Return launch id -> what is seen of it."""
        return {ask.launch.id: self._of(ask) for ask in asked}

    def forget(self, launch: Launch) -> None:
        """Forget one that is not looked at any more."""
        self._doors.pop(launch.id, None)

    def _of(self, ask: Ask) -> Vitals:
        pids = sorted({ask.launch.process.pid, *ask.launch.pids})
        listens = self._listens(ask, pids)
        seen = [found for pid in pids if (found := _process(pid)) is not None]
        stopped = next((pid for pid, state, _ in seen if state in (_STOPPED, _TRACED)), None)
        traced = any(state == _TRACED for _, state, _ in seen)
        if not ask.works:
            return Vitals(stopped, traced, listens)
        reads = [count for pid, _, _ in seen if (count := disk_reads(pid)) is not None]
        cpu = sum(seconds for _, _, seconds in seen)
        return Vitals(stopped, traced, listens, cpu, _on_gpu(pids), sum(reads) if reads else None)

    def _listens(self, ask: Ask, pids: list[int]) -> bool | None:
        """Whether one of the launch's own processes listens on its port; another's socket would get its requests."""
        if not LINUX:
            return None
        launch = ask.launch
        known = self._doors.get(launch.id)
        if known is not None and not ask.doubtful and known.is_open():
            return True
        proof = self._host.owns_port(launch.process, launch.id, launch.port)
        if proof.owner is not PortOwner.OURS:
            return False
        if (found := door(pids, launch.port)) is not None:
            self._doors[launch.id] = found
        return True


def _process(pid: int) -> tuple[int, str, float] | None:
    """Return pid, state and seconds computed of a process; None if it is gone."""
    if not LINUX:
        return _from_psutil(pid)
    fields = (read_text(f"/proc/{pid}/stat") or "").rpartition(")")[2].split()
    if len(fields) <= _STIME or fields[_STATE] in ("Z", "X"):
        return None
    return pid, fields[_STATE], (int(fields[_UTIME]) + int(fields[_STIME])) * _TICK


def _from_psutil(pid: int) -> tuple[int, str, float] | None:
    try:
        found = psutil.Process(pid)
        with found.oneshot():
            status, times = found.status(), found.cpu_times()
    except (psutil.Error, OSError):
        return None
    states = {psutil.STATUS_STOPPED: _STOPPED, psutil.STATUS_TRACING_STOP: _TRACED}
    return pid, states.get(status, ""), times.user + times.system


def _on_gpu(pids: Iterable[int]) -> float | None:
    """Return the seconds that a GPU computed for some processes, where its driver tells; None = it does not."""
    if not Path("/dev/dri").exists():
        return None
    engines: dict[tuple[tuple[str, ...], str], float] = {}
    try:
        for pid in pids:
            for client in read_clients(_ROOT, pid):
                for name, text in client.fields.items():
                    number, _, unit = text.partition(" ")
                    if name.startswith("engine-") and unit == "ns" and number.isdigit():
                        engines[client.key, name] = int(number) * _NANOSECOND
    except DrmError:
        return None
    return sum(engines.values()) if engines else None
