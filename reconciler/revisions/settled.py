"""Where a manifest leads by itself: its plan performed step by step, as if each step went well."""

from dataclasses import replace

from reconciler.core.plan import plan
from reconciler.core.types import Evict, Instance, Load, Manifest, Step, World
from reconciler.manifest.described_world import lasting


def settled(manifest: Manifest, world: World, now: float) -> World:
    """Return the world in which nothing is left to do, or the one after more steps than any manifest can need."""
    for number in range(4 * len(manifest.models) + 4):
        steps = plan(manifest, world, now).steps
        if not steps:
            break
        world = _performed(steps[0], manifest, world, now, number)
    return world


def _performed(step: Step, manifest: Manifest, world: World, now: float, number: int) -> World:
    """Return the world after one step."""
    seen = world.observation
    if isinstance(step, Evict):
        rest = tuple(i for i in seen.instances if (i.pid, i.started) != (step.pid, step.started))
        freed = sum(i.committed or 0 for i in seen.instances if i not in rest)
        return _with(world, manifest, rest, freed)
    # Process ids that nobody mistakes for real ones, another for each step.
    loaded = _loaded(step, now, -1000 - number)
    rest = tuple(i for i in seen.instances if i.model != step.model)
    return _with(world, manifest, (*rest, loaded), -(loaded.committed or 0))


def _loaded(step: Load, now: float, pid: int) -> Instance:
    return Instance(
        step.model,
        step.digest,
        pid=pid,
        started=0,
        port=0,
        ready=True,
        committed=step.size,
        warm=0,
        loaded_at=now,
        last_used=now,
        admitted=step.size,
    )


def _with(world: World, manifest: Manifest, instances: tuple[Instance, ...], freed: int) -> World:
    seen = world.observation
    available = seen.memory.available
    memory = replace(seen.memory, available=None if available is None else max(0, available + freed))
    judged = lasting(memory, manifest.watermarks)
    ordered = tuple(sorted(instances, key=lambda i: (i.model, i.pid)))
    return replace(
        world, observation=replace(seen, memory=memory, instances=ordered, pressure=judged, seq=seen.seq + 1)
    )
