"""What the NVIDIA driver can be asked, by whatever way, and which of its GPUs share the machine's memory."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from reconciler.memory.procfs import read_text

#: Names of GPUs that are part of the processor. Some drivers state the machine's memory as theirs.
_INTEGRATED: Final = re.compile(r"\b(GB10|Thor|Orin|Xavier|Tegra|Jetson)\b", re.IGNORECASE)
_MODEL: Final = re.compile(r"^Model:[ \t]*(\S.*?)[ \t]*$", re.MULTILINE)


class DriverError(Exception):
    """The driver could not be asked, or its answer not understood; the text is a sentence for people."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU of the machine."""

    #: What `Driver.processes` knows it by.
    key: str
    name: str
    #: Bytes of memory of its own; None = it shares the machine's.
    own: int | None


class Driver(Protocol):
    """One way to ask the driver. Both methods may hang with it: call them through `Bounded`."""

    def gpus(self) -> tuple[Gpu, ...]:
        """Return all GPUs. Raises DriverError."""
        ...

    def processes(self, keys: Collection[str]) -> Mapping[int, int | None]:
        """Return the bytes that processes hold on the named GPUs together, by pid; None = it does not say.

        Raises DriverError.
        """
        ...


def is_integrated(name: str) -> bool:
    """Return whether a GPU of this name is part of the processor and has no memory of its own.

    >>> is_integrated("NVIDIA GB10"), is_integrated("NVIDIA GB100"), is_integrated("NVIDIA GeForce RTX 5090")
    (True, False, False)
    """
    return _INTEGRATED.search(name) is not None


def model_names(root: Path) -> tuple[str, ...]:
    """Return the names of the GPUs as the kernel module states them, which works while the driver answers nobody."""
    files = sorted((root / "proc/driver/nvidia/gpus").glob("*/information"))
    return tuple(name for path in files for name in _MODEL.findall(read_text(path) or ""))


def own_memory(name: str, total: int | None) -> int | None:
    """Return the bytes of memory that a GPU has of its own, given what the driver states; None = it shares.

    A total as large as the machine's memory is no evidence for sharing: there are such cards.
    """
    return None if not total or is_integrated(name) else total


def add_up(readings: Iterable[Mapping[int, int | None]]) -> dict[int, int | None]:
    """Return the sum by pid over several GPUs; unknown on one of them is unknown in all.

    >>> add_up([{7: 1, 8: None}, {7: 2, 8: 3}])
    {7: 3, 8: None}
    """
    total: dict[int, int | None] = {}
    for reading in readings:
        for pid, size in reading.items():
            before = total.get(pid, 0)
            total[pid] = None if before is None or size is None else before + size
    return total
