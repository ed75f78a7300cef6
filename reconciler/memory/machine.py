"""Which probe reads this machine's memory, and the plain one for systems that have none of their own."""

import platform
from collections.abc import Collection, Mapping, Sequence

import psutil

from reconciler.core.memory import Memory, Swap
from reconciler.memory.commands import Run, no_commands
from reconciler.memory.probe import Held, MachineProbe


def open_machine(run: Run = no_commands) -> MachineProbe:
    """Return the probe for this operating system. Blocks for a few small reads.

    `run` starts a command and returns what it printed. macOS states its memory through commands only: without `run`
    it is unknown there, with a reason. Elsewhere it only helps to ask some GPU drivers.
    """
    # Imported here: each system needs only its own.
    system = platform.system()
    if system == "Darwin":
        from reconciler.memory.macos.machine import MacMachine

        return MacMachine(run)
    if system == "Linux":
        from reconciler.memory.devices import find_devices
        from reconciler.memory.linux import LinuxMachine

        return LinuxMachine(devices=find_devices(run=run))
    return PsutilMachine()


class PsutilMachine:
    """What psutil says, for systems without a probe of their own: no limits, no pressure, no drivers."""

    pace = 1.0

    def read(self, now: float) -> Memory:
        """Return total, available and swap in use, in bytes. Blocks briefly."""
        del now
        source = f"psutil on {platform.system()}"
        try:
            memory, swap = psutil.virtual_memory(), psutil.swap_memory()
        except (psutil.Error, OSError, RuntimeError) as error:
            problem = f"{source} cannot read the memory: {error}"
            return Memory(None, None, problem, problems=(problem,))
        return Memory(memory.total or None, memory.available, source, Swap(swap.total, swap.used))

    def glance(self, now: float) -> int | None:
        """Return the bytes available."""
        return self.read(now).available

    def held(
        self, trees: Mapping[str, Sequence[int]], now: float, *, walk: Collection[str] = ()
    ) -> Mapping[str, Held]:
        """Return the unique set size of each tree: mapped pages that nobody else maps are in it, so warm is 0.

        A process that has ended counts 0, one that may not be read makes its tree unknown.
        """
        del now, walk
        return {key: Held(_unique(trees[key]), warm=0) for key in sorted(trees)}


def _unique(pids: Sequence[int]) -> int | None:
    total = 0
    for pid in sorted(set(pids)):
        try:
            total += int(psutil.Process(pid).memory_full_info().uss)
        except psutil.NoSuchProcess:
            continue
        except (psutil.Error, OSError, ValueError, OverflowError):
            return None
    return total
