"""Whether this machine has what a launch asks for: CPUs, GPUs, locked memory. The same for all engines."""

import os
import platform
import resource
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Final

from reconciler.core.launch import LaunchSpec, LoadMode
from reconciler.core.words import size as size_text
from reconciler.memory.gpus import count_gpus
from reconciler.memory.procfs import read_text

#: More CPUs than any kernel is built for.
_MOST_CPUS: Final = 8192
#: The right to lock any amount of memory, as a bit of a set of capabilities.
_IPC_LOCK: Final = 1 << 14
_RAISE: Final = "raise it: LimitMEMLOCK=infinity in the unit, or memlock in /etc/security/limits.conf"


@dataclass(frozen=True, slots=True)
class Machine:
    """What there is for models here."""

    system: str = "Linux"
    #: CPUs a process of ours may be put on, sorted; None = they cannot be chosen here.
    cpus: tuple[int, ...] | None = None
    #: GPUs of all makers together; None = it cannot be told.
    gpus: int | None = None
    #: Most bytes one process may lock; None = any.
    lockable: int | None = None


def machine_for(spec: LaunchSpec, root: Path = Path("/")) -> Machine:
    """Return this machine, as far as the launch asks for any of it. Blocks briefly."""
    system = platform.system()
    return Machine(
        system,
        cpus=reachable_cpus() if spec.device.cpus else None,
        gpus=count_gpus(root) if spec.device.gpus and system == "Linux" else None,
        lockable=lockable_bytes(root) if spec.load_mode is LoadMode.MLOCK else None,
    )


def reachable_cpus() -> tuple[int, ...] | None:
    """Return the CPUs that a process of ours may be put on, sorted; None where they cannot be chosen (macOS).

    More than those we run on ourselves: we may have been put on one to leave the others to models. The kernel leaves
    those that the control group or cpuset allows; that is tried on a thread that ends with it.
    """
    if not hasattr(os, "sched_setaffinity"):
        return None
    future: Future[tuple[int, ...]] = Future()
    thread = Thread(target=_widen, args=(future,), name="cpus", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # the limit of processes is reached: at least those that we run on
        return tuple(sorted(os.sched_getaffinity(0)))
    thread.join()
    return future.result()


def _widen(future: "Future[tuple[int, ...]]") -> None:
    with suppress(OSError, ValueError):  # then it is what we have
        os.sched_setaffinity(0, range(_MOST_CPUS))
    future.set_result(tuple(sorted(os.sched_getaffinity(0))))


def lockable_bytes(root: Path = Path("/")) -> int | None:
    """Return how many bytes a process of ours may lock once its limit is raised as far as it goes; None = any."""
    if _has_the_right(
        read_text(root / "proc/self/status") or "", read_text(root / "proc/self/uid_map") or ""
    ):
        return None
    hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    return None if hard == resource.RLIM_INFINITY else hard


def _has_the_right(status: str, uid_map: str) -> bool:
    """Return whether what we start may lock any amount: it is root of the machine itself, or was handed the right."""
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    root = fields.get("Uid", "").split()[1:2] == ["0"]
    kept = fields.get("CapEff" if root else "CapAmb", "0").strip()
    # The root of a user namespace has all rights there, and not this one outside.
    outermost = uid_map.split() == ["0", "0", "4294967295"]
    return outermost and bool(int(kept or "0", 16) & _IPC_LOCK)


def why_not(spec: LaunchSpec, machine: Machine) -> str | None:
    """Return why a process could not be placed as the launch says, in a sentence, or None."""
    lacking = sorted(set(spec.device.cpus) - set(machine.cpus)) if machine.cpus is not None else []
    if lacking:
        named = f"CPU {lacking[0]}" if len(lacking) == 1 else f"CPUs {ranges(lacking)}"
        return f"device.cpus names {named}, and what may be used here is {ranges(machine.cpus or ())}"
    most = machine.gpus
    beyond = [gpu for gpu in spec.device.gpus or () if most and gpu.isdecimal() and int(gpu) >= most]
    if most and beyond:
        there = (
            "there is one GPU here, number 0" if most == 1 else f"there are {most} GPUs here, 0 to {most - 1}"
        )
        return f"device.gpus names {', '.join(beyond)}, and {there}"
    return None


def notes(spec: LaunchSpec, machine: Machine, weights: int | None, *, limited: bool) -> Iterator[str]:
    """Yield what of a launch has no effect here, or less than was meant, a sentence each.

    `weights` are the bytes it would lock; `limited` says whether `memory.limit` may reach its allocator.
    """
    gpus, mac = spec.device.gpus, machine.system == "Darwin"
    if spec.device.cpus and machine.cpus is None:
        yield f"device.cpus has no effect: {machine.system} lets no program choose its CPUs; device.nice has"
    if gpus and mac and gpus != ("0",):
        yield f"device.gpus: {', '.join(gpus)} has no effect: a Mac has one GPU for models, number 0"
    if gpus == () and mac:
        yield "device.gpus: none hides no GPU of a Mac: the engine's own settings decide whether it is used"
    if gpus and not mac and machine.gpus == 0:
        yield f"device.gpus: {', '.join(gpus)}, but no GPU is seen here: it will compute on the CPU, or not start"
    if gpus and not mac and not all(gpu.isdecimal() for gpu in gpus):
        yield "device.gpus: names are understood by CUDA and HIP only; Vulkan and Level Zero need numbers"
    most = machine.lockable
    if spec.load_mode is LoadMode.MLOCK and most is not None and weights is not None and most < weights:
        yield f"it is to lock {size_text(weights)} of weights, and {size_text(most)} may be locked: {_RAISE}"
    if spec.allocator_limit is not None and not limited:
        yield "memory.limit has no effect here: only PyTorch on the GPU of a Mac can be told a limit from outside"


def ranges(numbers: Sequence[int]) -> str:
    """Return sorted numbers as people write them.

    >>> ranges([0, 1, 2, 3, 8, 10, 11])
    '0-3, 8, 10-11'
    """
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
