"""NVIDIA GPUs that share the machine's memory (GB10, Thor): what the driver holds for each process.

This memory is in no resident set and in no control group, and the driver states no total for it. What a program can
still get is `MemAvailable`; the free memory that CUDA names is `MemFree`, which calls all cache used, and is not read.
A card has memory of its own, which is not the machine's: nothing of it is counted here.
"""

import os
import platform
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from reconciler.core.memory import GpuPool
from reconciler.memory.bounded import Bounded
from reconciler.memory.nvidia_driver import Driver, DriverError, Gpu, is_integrated, model_names

#: Seconds for one look. The first takes longest: without a persistent driver the GPU is woken up for it.
PATIENCE: Final = 5.0
#: Processors that have come with no NVIDIA GPU inside so far.
_CARDS_ONLY: Final = frozenset({"x86_64", "amd64"})
#: What `/proc/self/ns/pid` of the machine itself is, by definition of the kernel.
_FIRST_NAMESPACE: Final = "pid:[4026531836]"


class Nvidia:
    """`DeviceProbe` of NVIDIA GPUs: asks the first of `drivers` that answers, and keeps to it.

    `root` is where `proc/` is looked for; `patience` is the longest wait for one look, in seconds; `machine` is the
    kind of processor.
    """

    name = "nvidia"

    def __init__(
        self,
        drivers: Sequence[Driver],
        root: Path = Path("/"),
        *,
        patience: float = PATIENCE,
        machine: str | None = None,
    ) -> None:
        self._drivers = tuple(drivers)
        self._root = root
        self._patience = patience
        self._bounded = Bounded(patience)
        self._machine = platform.machine() if machine is None else machine
        self._driver: Driver | None = None
        #: Empty until the driver has named them: right after boot it may not know them yet.
        self._gpus: tuple[Gpu, ...] = ()
        self._problems: dict[str, tuple[str, ...]] = {}

    def pool(self) -> GpuPool | None:
        """Return what all processes hold together on GPUs that share memory, in bytes; these have no ceiling.

        None if there is none of these, or if it cannot be told.
        """
        processes, self._problems["pool"] = self._look()
        if processes is None or not self._shared():
            return None
        sizes = [size for size in processes.values() if size is not None]
        used = sum(sizes) if len(sizes) == len(processes) else None
        return GpuPool(None, used, "nvidia: sum over its processes")

    def held(self, pids: Collection[int]) -> Mapping[int, int] | None:
        """Return the bytes of the machine's memory that the driver holds for each of `pids`.

        Always {} where all GPUs are cards. None if it cannot be told: the driver does not answer, does not say for
        one of them, or names the processes of another pid namespace.
        """
        self._problems["held"] = ()
        if not pids:
            return {}
        processes, self._problems["held"] = self._look()
        if processes is None:
            return None
        ours = sorted(set(pids) & processes.keys())
        if not ours and self._shared() and self._in_container():
            self._problems["held"] = (
                "nvidia: in this container the driver does not name our processes (needs the host's, --pid=host)",
            )
            return None
        found = {pid: size for pid in ours if (size := processes[pid]) is not None}
        if len(found) < len(ours):
            silent = next(pid for pid in ours if pid not in found)
            self._problems["held"] = (f"nvidia: the driver does not say what process {silent} holds",)
            return None
        return {pid: size for pid, size in found.items() if size}

    def problems(self) -> tuple[str, ...]:
        """Return one sentence for each thing that the last calls could not tell."""
        return tuple(dict.fromkeys(line for key in sorted(self._problems) for line in self._problems[key]))

    def notes(self) -> tuple[str, ...]:
        """Return one sentence for each GPU known so far, for people: whose memory it uses."""
        return tuple(
            f"nvidia: {gpu.name} shares the machine's memory"
            if gpu.own is None
            else f"nvidia: {gpu.name} is a card with {gpu.own / 1024**2:.0f} MiB of its own, not counted as memory here"
            for gpu in self._gpus
        )

    def _shared(self) -> tuple[str, ...]:
        return tuple(gpu.key for gpu in self._gpus if gpu.own is None)

    def _look(self) -> tuple[Mapping[int, int | None] | None, tuple[str, ...]]:
        """Return the bytes by pid and no problem, or None and the problem."""
        if self._gpus and not self._shared():
            return {}, ()  # cards only: nothing changes any more, so the driver is left in peace
        try:
            return self._bounded.call(self._ask), ()
        except TimeoutError:
            problem = f"nvidia: the driver has not answered for {self._patience:g} s"
        except DriverError as error:
            problem = f"nvidia: {error}"
        return ({}, ()) if self._can_only_be_cards() else (None, (problem,))

    def _can_only_be_cards(self) -> bool:
        """Tell without the driver: it often answers nobody after an update, until the machine is started again."""
        if self._gpus or self._machine.lower() not in _CARDS_ONLY:
            return False
        models = model_names(self._root)
        return bool(models) and not any(is_integrated(model) for model in models)

    def _ask(self) -> Mapping[int, int | None]:
        if self._driver is None or not self._gpus:
            self._driver, self._gpus = self._first_that_answers()
        shared = self._shared()
        return self._driver.processes(shared) if shared else {}

    def _first_that_answers(self) -> tuple[Driver, tuple[Gpu, ...]]:
        problems: list[str] = []
        for driver in self._drivers:
            try:
                return driver, driver.gpus()
            except DriverError as error:
                problems.append(str(error))
        raise DriverError("; ".join(problems) or "there is no way to ask the driver")

    def _in_container(self) -> bool:
        try:
            return os.readlink(self._root / "proc/self/ns/pid") != _FIRST_NAMESPACE
        except OSError:
            return False
