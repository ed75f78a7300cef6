"""The world on a machine that is only described: what is in memory there, who waits, and how full it is."""

from typing import Final

from reconciler.core import book, pressure
from reconciler.core.memory import Memory, Watermarks
from reconciler.core.pressure import Pressure
from reconciler.core.types import Demand, Instance, ModelSpec, Observation, Preflight, World
from reconciler.manifest import described
from reconciler.manifest.applied import Applied
from reconciler.manifest.machine_file import DescribedMachine, InMemory

#: The time of the description. Long after the clock began, so that a day of idle time is no negative one.
NOW: Final = 1_000_000_000.0


def world(applied: Applied, machine: DescribedMachine) -> World:
    """Return the described world at `NOW`. Reads the files that models name, where they are here. Blocks."""
    found = {p.model: p for p in described.preflights(applied, machine)}
    specs = {spec.name: spec for spec in applied.manifest.models}
    # What is in memory was there before anybody came who waits.
    came = NOW - max((wait.oldest for wait in machine.waiting.values()), default=0.0)
    instances = tuple(
        _instance(number, specs[name], found[name], there, came)
        for number, (name, there) in enumerate(sorted(machine.loaded.items()))
    )
    held = sum(i.committed or 0 for i in instances)
    memory = described.memory_of(machine, held)
    demands = tuple(_demand(name, machine) for name in sorted({*machine.loaded, *machine.waiting}))
    judged = lasting(memory, applied.manifest.watermarks)
    return World(Observation(1, NOW, memory, instances, demands, tuple(found.values()), judged))


def lasting(memory: Memory, marks: Watermarks | None) -> Pressure:
    """Return the loop's judgement of a machine that has been as it is for a whole window: it is described for good."""
    if marks is None:
        return Pressure()
    first = pressure.observe(Pressure(), memory, 0, marks, None, NOW - marks.window)
    return pressure.observe(first, memory, 0, marks, None, NOW)


def _instance(number: int, spec: ModelSpec, found: Preflight, there: InMemory, before: float) -> Instance:
    size = book.size(spec, found, None)
    last_used = NOW - there.idle
    # Process ids that nobody mistakes for real ones.
    return Instance(
        spec.name,
        spec.digest,
        pid=-1 - number,
        started=0,
        port=0,
        ready=not there.asleep,
        committed=size if there.holds is None else there.holds,
        warm=0,
        loaded_at=min(last_used, before),
        last_used=last_used,
        served=1,
        admitted=size or 0,
        asleep=there.asleep,
    )


def _demand(name: str, machine: DescribedMachine) -> Demand:
    there, wait = machine.loaded.get(name), machine.waiting.get(name)
    # Who waits for a model that is there waits at its gate, or for one of its own places.
    at_its_gate = there is not None and not there.asleep
    count = wait.requests if wait else 0
    return Demand(
        name,
        active=there.requests if there else 0,
        waiting=0 if at_its_gate else count,
        oldest=NOW - wait.oldest if wait and not at_its_gate else None,
        gated=count if at_its_gate else 0,
    )
