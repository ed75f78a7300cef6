"""`reconcile` whose memory probe goes wrong on command: the first line of the file $BLIND says how.

Arguments are those of `reconcile`. Without the file, or with an unknown word in it, the probe is this machine's own.
"""

import os
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import reconciler.app
from reconciler.cli import main
from reconciler.core.memory import Memory
from reconciler.memory.commands import Run, no_commands
from reconciler.memory.linux import LinuxMachine
from reconciler.memory.machine import open_machine
from reconciler.memory.probe import Held, MachineProbe

BLIND = Path(os.environ["BLIND"])
GARBAGE = "MemTotal: lots kB\nMemAvailable: \x00\x7f -3 kB\nVmRSS:\t99999999999999999999 kB\nState:\tR\n"


class Blindable:
    """A probe that can be taken the sight of."""

    def __init__(self, machine: MachineProbe) -> None:
        self.pace = machine.pace
        self._machine = machine
        #: Machines of which nothing can be understood, and of which only what processes hold cannot.
        self._nothing, self._no_process = BLIND.with_name("nothing"), BLIND.with_name("no-process")
        self._garbage = LinuxMachine(self._nothing)
        self._half = LinuxMachine(self._no_process)
        write(self._nothing, "meminfo")
        (self._no_process / "proc").mkdir(parents=True)
        (self._no_process / "sys").symlink_to("/sys")
        for name in ("meminfo", "vmstat", "self", "mounts"):
            (self._no_process / "proc" / name).symlink_to(f"/proc/{name}")

    def read(self, now: float) -> Memory:
        """Return the machine's memory, or what is left of it."""
        match mode():
            case "unknown":
                return Memory(None, None, "the figures were taken away")
            case "garbage":
                return self._garbage.read(now)
            case "half garbage":
                return self._half.read(now)
            case "raises":
                raise PermissionError(13, "Permission denied", "/proc/meminfo")
            case _:
                return self._machine.read(now)

    def glance(self, now: float) -> int | None:
        """Return what is available, as far as it can be seen."""
        return self.read(now).available

    def held(
        self, trees: Mapping[str, Sequence[int]], now: float, *, walk: Collection[str] = ()
    ) -> Mapping[str, Held]:
        """Return what trees hold, or what is left of it."""
        match mode():
            case "unknown":
                return {key: Held(None, None) for key in trees}
            case "garbage":
                return self._garbage.held(garbled(self._nothing, trees), now, walk=walk)
            case "half garbage":
                return self._half.held(garbled(self._no_process, trees), now, walk=walk)
            case "raises" | "half raises":
                raise ZeroDivisionError("a fault of ours")
            case _:
                return self._machine.held(trees, now, walk=walk)


def garbled(root: Path, trees: Mapping[str, Sequence[int]]) -> Mapping[str, Sequence[int]]:
    """Return the trees as they are, after making garbage of what their processes say."""
    for pids in trees.values():
        for pid in pids:
            write(root, f"{pid}/status")
    return trees


def write(root: Path, name: str) -> None:
    """Write garbage into a file of `proc`."""
    file = root / "proc" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(GARBAGE)


def mode() -> str:
    """Return what the file says."""
    try:
        return BLIND.read_text().strip()
    except OSError:
        return ""


def open_blindable(run: Run = no_commands) -> MachineProbe:
    """Stand in for `open_machine`."""
    return Blindable(open_machine(run))


if __name__ == "__main__":
    reconciler.app.open_machine = open_blindable  # type: ignore[attr-defined]
    sys.exit(main())
