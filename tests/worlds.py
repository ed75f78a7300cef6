"""Small worlds for tests of the core: built in a line, performed perfectly, printed as text."""

from collections.abc import Iterable
from dataclasses import replace

from reconciler.core import book
from reconciler.core.leaving import RESTING
from reconciler.core.memory import MappedFile, Memory, Watermarks
from reconciler.core.pressure import Pressure, evicted
from reconciler.core.shares import Files, own, within
from reconciler.core.types import (
    Demand,
    Evict,
    Instance,
    LedgerEntry,
    Load,
    Manifest,
    ModelSpec,
    Observation,
    Plan,
    Preflight,
    Reason,
    Residency,
    Step,
    World,
)

MIB = 1 << 20
GIB = 1 << 30
NOW = 10_000.0


def model(name: str, mib: int | None = 100, **fields: object) -> ModelSpec:
    """A model of so many MiB; `digest` defaults to one that its default instance shares."""
    fields.setdefault("digest", f"{name}-v1")
    steady = None if mib is None else mib * MIB
    return ModelSpec(name=name, steady=steady, **fields)  # type: ignore[arg-type]


def manifest(
    *models: ModelSpec,
    mib: int = 1000,
    reserve: float | int = 0,
    generation: int = 1,
    marks: Watermarks | None = None,
) -> Manifest:
    """A manifest with a budget of so many MiB and nothing kept back."""
    ordered = tuple(sorted(models, key=lambda m: m.name))
    return Manifest(ordered, generation, mib * MIB, reserve, watermarks=marks)


def file(key: str, mib: int) -> MappedFile:
    """A mapped file of so many MiB."""
    return MappedFile(key, mib * MIB)


def mapping(name: str, *files: MappedFile, **fields: object) -> Preflight:
    """What is known of a model that can be started and maps these files."""
    return Preflight(name, files=files, **fields)  # type: ignore[arg-type]


def running(
    name: str, mib: int | None, idle: float = 0.0, pid: int | None = None, **fields: object
) -> Instance:
    """A ready process that holds so many MiB and was last used `idle` seconds ago."""
    values: dict[str, object] = {
        "model": name,
        "digest": f"{name}-v1",
        "pid": pid if pid is not None else 1000 + sum(name.encode()),
        "started": 1,
        "port": 18100,
        "ready": True,
        "committed": None if mib is None else mib * MIB,
        "warm": 0,
        "loaded_at": NOW - 3600,
        "last_used": NOW - idle,
        "served": 1,
    }
    return Instance(**(values | fields))  # type: ignore[arg-type]


def world(
    *instances: Instance,
    demands: Iterable[Demand] = (),
    preflights: Iterable[Preflight] = (),
    ledger: Iterable[LedgerEntry] = (),
    total_mib: int | None = 100_000,
    available_mib: int | None = 100_000,
    pressure: Pressure | None = None,
) -> World:
    """A look at a machine with plenty of memory, so that only the manifest's budget binds."""
    memory = Memory(
        None if total_mib is None else total_mib * MIB, None if available_mib is None else available_mib * MIB
    )
    judged = pressure or Pressure()
    observation = Observation(
        1, NOW, memory, tuple(instances), tuple(demands), tuple(preflights), pressure=judged
    )
    return World(observation, tuple(ledger))


def waiting(name: str, count: int = 1, since: float = 1.0) -> Demand:
    """So many requests waiting, the oldest for `since` seconds."""
    return Demand(name, waiting=count, oldest=NOW - since)


def perform(step: Step, manifest: Manifest, world: World) -> World:
    """Return the world after one step, had everything gone as planned."""
    seen = world.observation
    if isinstance(step, Evict):
        gone = next(i for i in seen.instances if (i.pid, i.started) == (step.pid, step.started))
        rest = tuple(i for i in seen.instances if i is not gone)
        demands = seen.demands
        if not any(i.model == step.model for i in rest):
            known = {d.model: d for d in demands} | {step.model: _closed(step, gone, seen)}
            demands = tuple(known[name] for name in sorted(known))
        if step.sleep:  # it gave all of it back
            rest = (*rest, replace(gone, ready=False, asleep=True, committed=0, warm=0, files=(), device=0))
        # Its warm pages counted as available all along; only what it had committed comes back.
        after = _look(seen, rest, demands, gone.committed or 0, gone.device)
        return replace(world, observation=replace(after, pressure=evicted(seen.pressure)))
    return replace(world, observation=_loaded(step, manifest, world))


def _closed(step: Evict, gone: Instance, seen: Observation) -> Demand:
    """What is asked of a model whose process has gone: it rests, unless it was only replaced while it served."""
    demand = next((d for d in seen.demands if d.model == step.model), Demand(step.model))
    closed = demand.closed
    if step.reason in RESTING:
        closed = seen.at
    elif step.reason in (Reason.DRIFTED, Reason.RESTART_DUE) and not gone.asleep:
        closed = None
    return replace(demand, active=0, gated=0, held=0, jobs=0, closed=closed)


def _loaded(step: Load, manifest: Manifest, world: World) -> Observation:
    seen = world.observation
    spec = next(m for m in manifest.models if m.name == step.model)
    entry = next((e for e in world.ledger if (e.model, e.digest) == (spec.name, spec.digest)), None)
    preflight = next((p for p in seen.preflights if p.model == spec.name), None)
    size = book.size(spec, preflight, entry)
    assert size is not None, "a model of unknown size was loaded"
    slept = [i for i in seen.instances if (i.pid, i.started) == (step.pid, step.started)]
    had = sum(i.committed or 0 for i in slept)
    pid = max((i.pid for i in seen.instances), default=0) + 1
    files: Files = within(preflight.files, size) if preflight is not None else ()
    alone = own(size, files)
    new = Instance(
        spec.name,
        spec.digest,
        pid,
        1,
        18100,
        True,
        alone,
        size - alone,
        seen.at,
        seen.at,
        admitted=size,
        files=files,
        weights=preflight.weights if preflight is not None else "",
    )
    demands = tuple(
        replace(d, active=d.active + d.waiting, waiting=0, oldest=None, wanted=False, wished=None)
        if d.model == step.model
        else d
        for d in seen.demands
    )
    rest = tuple(i for i in seen.instances if i not in slept)
    return _look(seen, (*rest, new), demands, had - alone, sum(i.device for i in slept))


def _look(
    seen: Observation,
    instances: tuple[Instance, ...],
    demands: tuple[Demand, ...],
    freed: int,
    of_gpu: int = 0,
) -> Observation:
    memory = seen.memory
    if memory.available is not None:
        memory = replace(memory, available=memory.available + freed)
    if memory.gpu is not None and memory.gpu.used is not None:
        memory = replace(memory, gpu=replace(memory.gpu, used=memory.gpu.used - of_gpu))
    return replace(seen, seq=seen.seq + 1, memory=memory, instances=instances, demands=demands)


def text(plan: Plan) -> str:
    """The plan in short lines: steps first, then the verdicts of models without a step."""
    lines = [_step(s) for s in plan.steps]
    stepped = {s.model for s in plan.steps}
    lines += [f"{v.outcome.value} {v.model} ({v.reason})" for v in plan.verdicts if v.model not in stepped]
    return "\n".join(lines)


def _step(step: Step) -> str:
    if isinstance(step, Load):
        return f"+ {step.model} needs {step.needs // MIB} ({step.reason}) -> {step.free // MIB}"
    target = f" for {step.for_model}" if step.for_model else ""
    drain = ", drain" if step.drain else ""
    return f"- {step.model} frees {step.frees // MIB} ({step.reason}{target}{drain}) -> {step.free // MIB}"


def pinned(name: str, mib: int | None = 100, **fields: object) -> ModelSpec:
    return model(name, mib, residency=Residency.PINNED, **fields)


def warm(name: str, mib: int | None = 100, **fields: object) -> ModelSpec:
    return model(name, mib, residency=Residency.WARM, **fields)
