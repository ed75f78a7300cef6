"""What the system says of a model's processes between two looks at the memory: do they run, compute, read, listen?"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import psutil

from reconciler.host import Host, PortOwner
from reconciler.host.identity import LINUX
from reconciler.host.listeners import listening
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


class VitalSigns:
    """Reads them; remembers which socket each launch listened on last. Blocks: it belongs in a worker thread."""

    def __init__(self, host: Host) -> None:
        self._host = host
        #: The kernel's numbers of the sockets that were proved to be a launch's own.
        self._sockets: dict[str, frozenset[int]] = {}

    def read(self, launches: Iterable[tuple[Launch, bool]]) -> dict[str, Vitals]:
        """Return launch id -> what is seen of it; with True, also whether it works."""
        wanted = list(launches)
        open_ports = listening() if wanted else {}
        self._sockets = {x.id: self._sockets[x.id] for x, _ in wanted if x.id in self._sockets}
        return {x.id: self._of(x, works, open_ports) for x, works in wanted}

    def _of(self, launch: Launch, works: bool, ports: dict[int, frozenset[int]] | None) -> Vitals:
        pids = sorted({launch.process.pid, *launch.pids})
        listens = None if ports is None else self._listens(launch, ports.get(launch.port, frozenset()))
        seen = [found for pid in pids if (found := _process(pid)) is not None]
        stopped = next(((pid, state) for pid, state, _ in seen if state in (_STOPPED, _TRACED)), None)
        traced = any(state == _TRACED for _, state, _ in seen)
        pid = stopped[0] if stopped is not None else None
        if not works:
            return Vitals(pid, traced, listens)
        reads = [count for pid, _, _ in seen if (count := disk_reads(pid)) is not None]
        cpu = sum(seconds for _, _, seconds in seen)
        return Vitals(pid, traced, listens, cpu, _on_gpu(pids), sum(reads) if reads else None)

    def _listens(self, launch: Launch, sockets: frozenset[int]) -> bool:
        """Whether one of the launch's own processes listens on its port; another's socket would get its requests."""
        if not sockets:
            return False
        if self._sockets.get(launch.id) != sockets:
            proof = self._host.owns_port(launch.process, launch.id, launch.port)
            if proof.owner is not PortOwner.OURS:
                return False
            self._sockets[launch.id] = sockets
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
