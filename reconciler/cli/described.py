"""The world on a machine that is only described: what a manifest would do there, planned with the same code."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.core.types import World
from reconciler.manifest.sizes import format_size

if TYPE_CHECKING:
    from reconciler.manifest.applied import Applied
    from reconciler.manifest.machine_file import DescribedMachine


def look(applied: "Applied", path: Path) -> World:
    """Return the world on the machine that a file describes; what is odd in it is said on stderr.

    Raises ManifestRefusedError with every fault of the file.
    """
    from reconciler.cli.output import note
    from reconciler.manifest.described_world import world

    machine = read_machine(path, applied.launches)
    there = world(applied, machine)
    for text in oddities(applied, machine, there):
        note(f"warning: {path}: {text}")
    return there


def oddities(applied: "Applied", machine: "DescribedMachine", there: World) -> Iterator[str]:
    """Yield what hinders no plan, and is probably not meant."""
    for spec in applied.manifest.models:
        stated = machine.sizes.get(spec.name)
        if stated is not None and spec.steady is not None and spec.steady != stated:
            sizes = f"{format_size(spec.steady)}, and sizes.{spec.name} {format_size(stated)}"
            yield f"memory.steady of {spec.name} is {sizes}: the manifest is believed, as the loop would"
    for instance in there.observation.instances:
        if instance.committed is None:
            yield (
                f"loaded.{instance.model}: nobody knows what it takes, so nothing can be planned beside it: "
                f"give sizes.{instance.model}, or memory.steady"
            )
    held = sum(i.committed or 0 for i in there.observation.instances)
    if held + machine.in_use > machine.memory:
        sizes = f"{format_size(held)}, and in_use {format_size(machine.in_use)}"
        yield f"what is loaded takes {sizes}: together more than the {format_size(machine.memory)} there are"


def read_machine(path: Path, models: Mapping[str, object]) -> "DescribedMachine":
    """Return the machine described in a file; `models` are those it may name.

    Raises ManifestRefusedError with every fault.
    """
    from reconciler.cli.manifests import ManifestRefusedError
    from reconciler.manifest.diagnostics import ManifestError
    from reconciler.manifest.machine_file import load_machine

    try:
        return load_machine(path, models, os.environ)
    except ManifestError as error:
        raise ManifestRefusedError(error.render()) from error
