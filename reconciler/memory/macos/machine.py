"""`MacMachine`: the memory of a Mac and what processes hold of it, from one `vm_stat` and one `sysctl` a look."""

import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from reconciler.core.memory import Basis, GpuPool, HostUse, Memory, Stall, Swap
from reconciler.memory.commands import Run, ask
from reconciler.memory.macos import gpu
from reconciler.memory.macos.libproc import Charge, Rusage, read_charge, system_rusage
from reconciler.memory.macos.pressure import LEVEL, likely_level, stated_level
from reconciler.memory.macos.sysctl import number, parse_sysctl, swap_usage, sysctl_command
from reconciler.memory.macos.vm_stat import COMMAND, VmStat, parse_vm_stat
from reconciler.memory.probe import Held

_TOTAL: Final = "hw.memsize"
_SYSCTL: Final = sysctl_command((_TOTAL, "vm.swapusage", LEVEL, gpu.WIRED_LIMIT, gpu.ARM64))
#: Seconds for which a reading is handed out again instead of running the commands anew.
FRESH: Final = 0.4


@dataclass(frozen=True, slots=True)
class _Asked:
    """The answers of one look; None = that command said nothing, and `problems` says why."""

    stat: VmStat | None
    values: Mapping[str, str] | None
    problems: tuple[str, ...]


class MacMachine:
    """What macOS says of its memory. One look runs two commands, about 10-20 ms, at most once in 0.4 s."""

    #: Each look starts two programs.
    pace = 5.0

    def __init__(
        self, run: Run, rusage: Rusage = system_rusage, working_set: gpu.WorkingSet = gpu.metal_working_set
    ) -> None:
        """Take how to run a command; the other two ask the system's libraries and are replaced in tests."""
        self._run = run
        self._rusage = rusage
        self._working_set = functools.cache(working_set)
        #: Least bytes ever seen wired: what the kernel itself needs, see `_host`.
        self._least_wired: int | None = None
        self._total: int | None = None
        self._pool: GpuPool | None = None
        self._last: tuple[float, Memory] | None = None

    def read(self, now: float) -> Memory:
        """Return the memory of the machine, in bytes. Blocks for the two commands, or 2 s each where they hang.

        available = (free + file-backed + purgeable) x page size: see `VmStat.available` for why neither psutil's
        figure nor the percentage of `memory_pressure` will do.
        """
        if self._last and 0 <= now - self._last[0] < FRESH:
            return self._last[1]
        memory = self._look()
        self._last = (now, memory)
        return memory

    def glance(self, now: float) -> int | None:
        """Return the bytes available: there is nothing cheaper than to look."""
        return self.read(now).available

    def held(
        self, trees: Mapping[str, Sequence[int]], now: float, *, walk: Collection[str] = ()
    ) -> Mapping[str, Held]:
        """Return what each tree is charged: the sum of `phys_footprint`. About 10 us a process.

        A process that has ended counts 0, one that may not be read makes its tree unknown. Nothing tells cheaply
        which mapped pages a process has resident: `warm` is 0 and called estimated, and the caller adds the weights
        that the engine said it mapped, which are in no footprint. `peak` is the sum of the largest footprints so far,
        which the kernel keeps: too high where the processes were not at their largest together.
        """
        del now, walk
        charges = {key: self._charge(trees[key]) for key in sorted(trees)}
        return {
            key: Held(
                charge.footprint if charge else None,
                warm=0,
                warm_basis=Basis.ESTIMATED,
                peak=charge.largest if charge else None,
            )
            for key, charge in charges.items()
        }

    def _charge(self, pids: Sequence[int]) -> Charge | None:
        total = Charge(0, 0)
        for pid in sorted(set(pids)):
            charge = read_charge(self._rusage, pid)
            if charge is None:
                return None
            total = Charge(total.footprint + charge.footprint, total.largest + charge.largest)
        return total

    def _look(self) -> Memory:
        asked = self._ask()
        stat, values = asked.stat, asked.values
        problems = [*asked.problems, *_missing(asked)]
        # What never changes is remembered: a command that hangs once does not make the whole machine unknown.
        self._total = (number(values, _TOTAL) if values else None) or self._total
        if stat and not (self._total and _plausible(stat, self._total)):
            problems.append("vm_stat is not used: its pages do not add up to the machine's memory")
            stat = None
        if values and self._total:
            self._pool = gpu.gpu_pool(values, self._total, self._working_set)
        available = stat.available if stat else None
        level = stated_level(values) if values else None
        return Memory(
            self._total,
            available,
            "vm_stat, sysctl" if available is not None else "; ".join(problems),
            _swap(stat, values),
            Stall(
                level=likely_level(stat) if level is None and stat else level,
                compressed=stat.compressed if stat else None,
            ),
            self._host(stat, self._total),
            self._pool,
            tuple(problems),
        )

    def _ask(self) -> _Asked:
        pages, pages_problem = ask(self._run, COMMAND)
        stat = None if pages is None else parse_vm_stat(pages)
        if pages is not None and stat is None:
            pages_problem = "vm_stat does not state the size of a page"
        answer, problem = ask(self._run, _SYSCTL)
        values = None if answer is None else parse_sysctl(answer)
        return _Asked(stat, values, tuple(said for said in (pages_problem, problem) if said))

    def _host(self, stat: VmStat | None, total: int | None) -> HostUse | None:
        """Divide what is in use between programs and the kernel, so that both together are total - available.

        Wired pages are the kernel's and those the GPU works on, and nothing tells them apart. The kernel's hardly
        change, the GPU's come and go with a model: so the least ever seen wired is called the kernel's, with what
        it took at boot, and the rest is called the programs'. A first look while the GPU is busy calls too much the
        kernel's, until it is idle once. Compressed memory counts by what it occupies, while the footprints in `held`
        count it at its full size: under pressure they may add up to more than `programs`.
        """
        if stat is None or total is None:
            return None
        available, wired, managed = stat.available, stat.wired, stat.managed
        if available is None or wired is None or managed is None:
            return None
        self._least_wired = wired if self._least_wired is None else min(wired, self._least_wired)
        in_use = total - available
        kernel = min(in_use, self._least_wired + total - managed)
        return HostUse(total, available, programs=in_use - kernel, kernel=kernel)


def _plausible(stat: VmStat, total: int) -> bool:
    """Tell whether the pages can be those of a machine with `total` bytes; real ones add up to 97-99 % of it.

    A page size read wrongly, or an output that changed its meaning, is thus unknown and not a full machine.
    """
    available, managed = stat.available, stat.managed
    return available is not None and managed is not None and available <= managed <= total <= 2 * managed


def _missing(asked: _Asked) -> list[str]:
    """Return a sentence for each thing that a command which answered does not say, or says in an unknown shape."""
    stat, values = asked.stat, asked.values
    problems: list[str] = []
    if stat and (stat.swapped_in is None or stat.swapped_out is None):
        problems.append("vm_stat does not state swapins and swapouts")
    if values is None:
        return problems
    if not number(values, _TOTAL):
        problems.append(f"sysctl does not state {_TOTAL}")
    if swap_usage(values) is None:
        problems.append("sysctl does not state vm.swapusage")
    if stated_level(values) is None:
        problems.append(f"sysctl does not state {LEVEL}: the level is worked out from the compressor")
    if gpu.WIRED_LIMIT in values and number(values, gpu.WIRED_LIMIT) is None:
        problems.append(f"sysctl states no number as {gpu.WIRED_LIMIT}: the default is assumed")
    return problems


def _swap(stat: VmStat | None, values: Mapping[str, str] | None) -> Swap:
    usage = swap_usage(values) if values else None
    return Swap(
        total=usage.total if usage else None,
        used=usage.used if usage else None,
        read=stat.swapped_in if stat else None,
        written=stat.swapped_out if stat else None,
    )
