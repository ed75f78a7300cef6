"""The machine probe of Linux: everything out of /proc and /sys, and what GPU drivers add to it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from reconciler.core.memory import GpuPool, Memory, Stall
from reconciler.memory.cgroup import ControlGroups
from reconciler.memory.host import PAGE_SIZE, limit, read_available, read_host
from reconciler.memory.probe import DeviceProbe, Held
from reconciler.memory.psi import read_pressure
from reconciler.memory.swap import read_compressed, read_swap
from reconciler.memory.walk import Walks


class LinuxMachine:
    """Implements `MachineProbe`. Used by one thread at a time; a calm look at ten models costs about 0.5 ms of CPU.

    `root` is where `proc/` and `sys/` are looked for. `devices` are the drivers of this machine's GPUs: what they
    hold is added to what processes hold. `page_size` is in bytes, None = this machine's.
    """

    #: Waking an idle virtual machine for a few small files takes it milliseconds.
    pace = 4.0

    def __init__(
        self, root: Path = Path("/"), devices: Sequence[DeviceProbe] = (), *, page_size: int | None = None
    ) -> None:
        self._root = root
        self._devices = tuple(devices)
        self._page_size = page_size or PAGE_SIZE
        self._groups = ControlGroups(root)
        self._walks = Walks(root)
        self._machine: int | None = None
        self._device_problems: tuple[str, ...] = ()

    def read(self, now: float) -> Memory:
        """Return the memory of the machine. `problems` include those of the last `held`. Raises nothing."""
        host = read_host(self._root, unmovable=bool(self._devices), page_size=self._page_size)
        if host.total is None:
            return Memory(None, None, host.source, problems=(host.source, *self._held_problems()))
        self._machine = host.total
        memory = limit(host, self._groups.limits(host.total, now))
        meminfo = host.meminfo or {}
        swap, swap_problems = read_swap(meminfo, self._root, self._page_size)
        stall, stall_problems = self._stall(meminfo, now)
        gpu = self._gpu()
        problems = (*memory.problems, *swap_problems, *stall_problems, *self._held_problems())
        return replace(memory, swap=swap, stall=stall, gpu=gpu, problems=problems)

    def glance(self, now: float) -> int | None:
        """Return MemAvailable, or less where a control group leaves less: two small files and one or two a group."""
        available = read_available(self._root)
        levels = self._groups.limits(self._machine, now).levels
        left = [available, *(level.headroom for level in levels)]
        known = [size for size in left if size is not None]
        return min(known) if len(known) == len(left) else None

    def held(
        self, trees: Mapping[str, Sequence[int]], now: float, *, walk: Collection[str] = ()
    ) -> Mapping[str, Held]:
        """Return what each tree of processes holds. Raises nothing.

        A key in `walk` is always walked. Otherwise a tree is walked when it is new, its processes or its file
        pages changed, or ten minutes passed; at most 1 % of the time goes into that for each tree, and meanwhile
        its warm pages are `STALE`.
        """
        found = self._walks.held(trees, now, walk, self._machine)
        return self._with_devices(trees, found)

    def _stall(self, meminfo: Mapping[str, int], now: float) -> tuple[Stall, tuple[str, ...]]:
        paths = (self._root / "proc/pressure/memory", *self._groups.pressure_files(now))
        pressure = read_pressure(paths)
        compressed, problems = read_compressed(meminfo, self._root)
        stall = Stall(some=pressure.some, full=pressure.full, compressed=compressed)
        return stall, (*pressure.problems, *problems)

    def _gpu(self) -> GpuPool | None:
        """Return the first pool that a driver knows, or one of which nothing is known if a driver cannot tell."""
        pools = [device.pool() for device in self._devices]
        silent = (device.name for device in self._devices if device.problems())
        unknown = (GpuPool(source=f"{name}: the driver does not tell") for name in silent)
        return next((pool for pool in pools if pool is not None), None) or next(unknown, None)

    def _with_devices(self, trees: Mapping[str, Sequence[int]], found: dict[str, Held]) -> Mapping[str, Held]:
        """Add what drivers hold for each tree; unknown figures add nothing and become a problem."""
        problems: list[str] = []
        pids = sorted({pid for tree in trees.values() for pid in tree})
        for device in self._devices:  # asked for nobody, it forgets what it could not understand before
            by_pid = device.held(pids)
            if by_pid is None:
                if pids:
                    text = (
                        f"what {device.name} holds for processes is unknown: it is not charged to any model"
                    )
                    problems.append(text)
                continue
            for key, tree in trees.items():
                size = sum(by_pid.get(pid, 0) for pid in set(tree))
                held = found[key]
                committed = None if held.committed is None else held.committed + size
                found[key] = replace(held, committed=committed, device=held.device + size)
        self._device_problems = tuple(problems)
        return found

    def _held_problems(self) -> tuple[str, ...]:
        of_devices = (problem for device in self._devices for problem in device.problems())
        return (*self._walks.problems, *self._device_problems, *of_devices)
