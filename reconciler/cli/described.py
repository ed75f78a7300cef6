"""The world on a machine that is only described: what a manifest would do there, planned with the same code."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from reconciler.core.memory import GpuPool, Memory
from reconciler.core.types import Demand, Instance, ModelSpec, Observation, Preflight, Reason, World

if TYPE_CHECKING:
    from reconciler.core.launch import LaunchSpec
    from reconciler.manifest.applied import Applied
    from reconciler.manifest.machine_file import DescribedMachine

#: The time of the description. Long after the clock began, so that a day of idle time is no negative one.
NOW: Final = 1_000_000_000.0


def read_machine(path: Path, applied: "Applied") -> "DescribedMachine":
    """Return the machine described in a file. Raises ManifestRefusedError with every fault."""
    from reconciler.cli.manifests import ManifestRefusedError
    from reconciler.manifest.diagnostics import ManifestError
    from reconciler.manifest.machine_file import load_machine

    try:
        return load_machine(path, applied.launches, os.environ)
    except ManifestError as error:
        raise ManifestRefusedError(error.render()) from error


def world(applied: "Applied", machine: "DescribedMachine") -> World:
    """Return the described world at `NOW`. Reads the files that models name, where they are here. Blocks."""
    found = {
        name: preflight(launch, machine.sizes.get(name)) for name, launch in sorted(applied.launches.items())
    }
    specs = {spec.name: spec for spec in applied.manifest.models}
    instances = tuple(
        _instance(number, specs[name], found[name], NOW - there.idle)
        for number, (name, there) in enumerate(sorted(machine.loaded.items()))
    )
    held = sum(i.committed or 0 for i in instances)
    memory = Memory(
        total=machine.memory,
        available=max(0, machine.memory - machine.in_use - held),
        source="as described",
        gpu=GpuPool(machine.gpu, source="as described") if machine.gpu is not None else None,
    )
    demands = tuple(_demand(name, machine) for name in sorted({*machine.loaded, *machine.waiting}))
    return World(Observation(1, NOW, memory, instances, demands, tuple(found.values())))


def preflight(launch: "LaunchSpec", stated: int | None) -> Preflight:
    """Return what is known of a model's size there: programs need not be here, nor its files if a size is stated."""
    from reconciler.engines import registry

    found = registry.get(launch.engine).sized(launch)
    if stated is not None:
        return Preflight(launch.model, steady=stated, notes=found.notes)
    if found.reason is Reason.NOT_STARTABLE and not _is_here(launch):
        text = (
            "its files are not here: give memory.steady, or its size under `sizes` of the described machine"
        )
        return Preflight(launch.model, message=text)
    return found


def _is_here(launch: "LaunchSpec") -> bool:
    files = (launch.weights, launch.projector, launch.draft, *(a.path for a in launch.adapters))
    return all(os.path.exists(file) for file in files if file is not None)


def _instance(number: int, spec: ModelSpec, found: Preflight, last_used: float) -> Instance:
    from reconciler.core import book

    size = book.size(spec, found, None)
    # Process ids that nobody mistakes for real ones.
    return Instance(
        spec.name,
        spec.digest,
        pid=-1 - number,
        started=0,
        port=0,
        ready=True,
        committed=size,
        warm=0,
        loaded_at=min(last_used, NOW),
        last_used=last_used,
        served=1,
        admitted=size or 0,
    )


def _demand(name: str, machine: "DescribedMachine") -> Demand:
    there, wait = machine.loaded.get(name), machine.waiting.get(name)
    return Demand(
        name,
        active=there.requests if there else 0,
        waiting=wait.requests if wait else 0,
        oldest=NOW - wait.oldest if wait else None,
    )
