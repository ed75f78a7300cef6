"""What is known of a machine that is only described: its memory, and what models take there."""

import os

from reconciler.core.launch import LaunchSpec
from reconciler.core.memory import GpuPool, Memory
from reconciler.core.types import Preflight, Reason
from reconciler.engines import registry
from reconciler.engines.elsewhere import elsewhere
from reconciler.manifest.applied import Applied
from reconciler.manifest.machine_file import DescribedMachine


def memory_of(machine: DescribedMachine, held: int = 0) -> Memory:
    """Return the memory of a described machine on which models hold `held` bytes."""
    return Memory(
        total=machine.memory,
        available=max(0, machine.memory - machine.in_use - held),
        source="as described",
        gpu=GpuPool(machine.gpu, source="as described") if machine.gpu is not None else None,
    )


def preflights(applied: Applied, machine: DescribedMachine) -> tuple[Preflight, ...]:
    """Return what is known of each model's size there, by name. Reads the files that are here. Blocks."""
    return tuple(
        preflight(launch, machine.sizes.get(name)) for name, launch in sorted(applied.launches.items())
    )


def preflight(launch: LaunchSpec, stated: int | None) -> Preflight:
    """Return what is known of a model's size there: programs need not be here, nor its files if a size is stated."""
    with elsewhere():
        found = registry.get(launch.engine).foreseen(launch)
    if stated is not None:
        return Preflight(launch.model, steady=stated, notes=found.notes)
    if found.reason is Reason.NOT_STARTABLE and not _is_here(launch):
        text = (
            "its files are not here: give memory.steady, or its size under `sizes` of the described machine"
        )
        return Preflight(launch.model, message=text)
    return found


def _is_here(launch: LaunchSpec) -> bool:
    files = (launch.weights, launch.projector, launch.draft, *(a.path for a in launch.adapters))
    return all(os.path.exists(file) for file in files if file is not None)
