"""The small interfaces behind which all platforms look alike. All methods block briefly and raise nothing."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from reconciler.core.memory import Basis, GpuPool, MappedFile, Memory


@dataclass(frozen=True, slots=True)
class Held:
    """Bytes held by the processes of one model together; None = unknown, which is never the same as 0."""

    #: Anonymous, shared, swapped out, locked, huge and driver pages: only these processes can give them back.
    committed: int | None
    #: Resident pages of the files below; the kernel may drop them, the model then crawls.
    warm: int | None
    #: The mapped files that `warm` consists of, sorted by key.
    files: tuple[MappedFile, ...] = ()
    #: Of `committed`: what drivers hold for these processes.
    device: int = 0
    #: How `warm` is known, and when (monotonic seconds) it was read.
    warm_basis: Basis = Basis.MEASURED
    warm_at: float | None = None
    #: Most bytes committed so far, where the system itself remembers it.
    peak: int | None = None


class DeviceProbe(Protocol):
    """Memory that a GPU driver holds for processes, in no resident set and in no control group."""

    #: For people: "amdgpu", "nvidia".
    name: str

    def pool(self) -> GpuPool | None:
        """Return what the GPU may use of the machine's memory; None = no such limit is known."""
        ...

    def held(self, pids: Collection[int]) -> Mapping[int, int] | None:
        """Return the bytes the driver holds for each of `pids` that has any; None = it cannot be told.

        Bytes that several processes share are given to the smallest of their pids only.
        """
        ...

    def problems(self) -> tuple[str, ...]:
        """Return one sentence for each thing that the last calls could not understand."""
        ...


class MachineProbe(Protocol):
    """What the loop asks of the machine. Keeps what makes the next look cheap; used by one thread at a time."""

    #: Seconds between two calls of `glance` that together cost next to nothing.
    pace: float

    def read(self, now: float) -> Memory:
        """Return the memory of the machine."""
        ...

    def glance(self, now: float) -> int | None:
        """Return the bytes available, as cheaply as it can be had; it may be a little less than `read` finds."""
        ...

    def held(
        self, trees: Mapping[str, Sequence[int]], now: float, *, walk: Collection[str] = ()
    ) -> Mapping[str, Held]:
        """Return what each tree of processes holds; `trees` gives the pids of each by a key that names it for good.

        Cheap figures are read each time. Warm pages cost a walk of the page tables: they are read again for the keys
        in `walk`, and otherwise only when they seem to have changed.
        """
        ...
