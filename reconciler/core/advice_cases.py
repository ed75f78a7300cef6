"""What if: copies of a manifest and a world in which one thing is otherwise."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from reconciler.core import book
from reconciler.core.advice_types import Change, ChangeKind
from reconciler.core.diff import Row, compare
from reconciler.core.memory import GpuPool, Memory
from reconciler.core.plan import plan
from reconciler.core.select import select
from reconciler.core.types import (
    Demand,
    Instance,
    LedgerEntry,
    Load,
    Manifest,
    ModelSpec,
    Plan,
    Preflight,
    Reason,
    Residency,
    World,
)


@dataclass(frozen=True, slots=True)
class Case:
    """All that a plan is made from."""

    manifest: Manifest
    world: World
    now: float

    def plan(self) -> Plan:
        """Return the plan."""
        return plan(self.manifest, self.world, self.now)

    def fate(self, model: str) -> Reason | None:
        """Return why a model is not loaded or would not be, None = it is loaded: a plan without its words."""
        table = compare(self.manifest, self.world, self.now)
        chosen = select(self.manifest, self.world, table, self.now)
        if any(coming.row.name == model for coming in chosen.coming):
            return None
        block = chosen.blocked.get(model) or chosen.hopeless.get(model)
        return Reason.NOT_WANTED if block is None else block.reason

    def row(self, model: str) -> Row | None:
        """Return all that is known of a model, or None if the manifest does not name it."""
        return next((r for r in compare(self.manifest, self.world, self.now).rows if r.name == model), None)


def loads(made: Plan, model: str) -> bool:
    """Return whether a plan loads a model."""
    return any(isinstance(step, Load) and step.model == model for step in made.steps)


def asked(case: Case, model: str) -> Case:
    """Return the case with a request waiting for a model; one that comes now, where none waits already."""

    def ask(demand: Demand) -> Demand:
        oldest = case.now if demand.oldest is None else demand.oldest
        return replace(demand, waiting=max(1, demand.waiting), oldest=oldest, dismissed=False)

    return _demanded(case, model, ask)


def changed(case: Case, change: Change) -> Case:
    """Return the case after one change has been made, and nothing else has happened.

    Less context of a model that runs means: as if it had been started with so much less.
    """
    match change.kind:
        case ChangeKind.WAIT:
            return replace(case, now=case.now + (change.seconds or 0.0))
        case ChangeKind.ASK:
            return _wished(case, change.model or "")
        case ChangeKind.RELEASE:
            return _demanded(case, change.model or "", lambda demand: replace(demand, held=0))
        case ChangeKind.CONTEXT:
            return lighter(case, change.model or "", change.bytes)
        case ChangeKind.OTHERS:
            return _given_back(case, change.bytes)
        case ChangeKind.MEMORY | ChangeKind.RESERVE | ChangeKind.HARD_MARK:
            return replace(case, manifest=_roomier(case, change))
        case ChangeKind.PRIORITY | ChangeKind.MAY_PREEMPT | ChangeKind.UNPIN:
            return _respecified(case, change)


def _respecified(case: Case, change: Change) -> Case:
    def edit(spec: ModelSpec) -> ModelSpec:
        if change.kind is ChangeKind.UNPIN:
            return replace(spec, residency=Residency.WARM)
        if change.kind is ChangeKind.PRIORITY:
            return replace(spec, priority=spec.priority if change.priority is None else change.priority)
        return replace(spec, may_preempt=change.may_preempt or spec.may_preempt)

    return replace(case, manifest=_edited(case.manifest, change.model or "", edit))


def _edited(manifest: Manifest, model: str, edit: Callable[[ModelSpec], ModelSpec]) -> Manifest:
    return replace(manifest, models=tuple(edit(m) if m.name == model else m for m in manifest.models))


def _roomier(case: Case, change: Change) -> Manifest:
    manifest, memory = case.manifest, case.world.observation.memory
    if change.kind is ChangeKind.MEMORY:
        return replace(manifest, memory=(manifest.memory or 0) + change.bytes)
    if change.kind is ChangeKind.RESERVE:
        return replace(manifest, reserve=(book.reserve(manifest, memory) or 0) - change.bytes)
    assert manifest.watermarks is not None, "there is a mark to be raised"
    return replace(
        manifest, watermarks=replace(manifest.watermarks, hard=change.mark or manifest.watermarks.hard)
    )


def _wished(case: Case, model: str) -> Case:
    asks = _demanded(
        case, model, lambda demand: replace(demand, wanted=True, wished=case.now, dismissed=False)
    )
    ledger = tuple(book.wished(e) if e.model == model else e for e in asks.world.ledger)
    return replace(asks, world=replace(asks.world, ledger=ledger))


def _demanded(case: Case, model: str, edit: Callable[[Demand], Demand]) -> Case:
    seen = case.world.observation
    demand = next((d for d in seen.demands if d.model == model), Demand(model))
    others = [d for d in seen.demands if d.model != model]
    demands = tuple(sorted([*others, edit(demand)], key=lambda d: d.model))
    return replace(case, world=replace(case.world, observation=replace(seen, demands=demands)))


def _given_back(case: Case, count: int) -> Case:
    seen = case.world.observation
    memory = replace(seen.memory, available=(seen.memory.available or 0) + count)
    return replace(case, world=replace(case.world, observation=replace(seen, memory=memory)))


def lighter(case: Case, model: str, count: int) -> Case:
    """Return the case with a model that takes `count` bytes less, and its process as if it had been started so."""
    seen, row = case.world.observation, case.row(model)
    process = row.instance if row is not None else None
    slim = process
    if process is not None and row is not None and row.charge is not None:
        slim = _slim(process, row.charge, count)
    freed = 0 if process is None or slim is None else (process.committed or 0) - (slim.committed or 0)
    of_gpu = 0 if process is None or slim is None else process.device - slim.device
    observation = replace(
        seen,
        memory=_freed(seen.memory, freed, of_gpu),
        instances=tuple(slim if i is process and slim is not None else i for i in seen.instances),
        preflights=tuple(_light_files(p, count) if p.model == model else p for p in seen.preflights),
    )
    ledger = tuple(_light_entry(e, count) if e.model == model else e for e in case.world.ledger)
    return Case(
        _edited(case.manifest, model, lambda spec: _light_spec(spec, count)),
        replace(case.world, observation=observation, ledger=ledger),
        case.now,
    )


def _slim(process: Instance, charge: int, count: int) -> Instance:
    """Return a process as if it were charged so much less: what it has not yet taken gives nothing back."""
    holds = book.held(process) or 0
    over = max(0, holds - max(0, charge - count))
    committed = max(0, (process.committed or 0) - over)
    device = max(0, process.device - over)
    grown = process.committed_at_ready
    return replace(
        process,
        committed=committed,
        device=device,
        admitted=max(0, process.admitted - count),
        most=None if process.most is None else max(0, process.most - over),
        committed_at_ready=None if grown is None else grown - ((process.committed or 0) - committed),
    )


def _freed(memory: Memory, freed: int, of_gpu: int) -> Memory:
    gpu = memory.gpu
    if gpu is not None and gpu.used is not None:
        gpu = GpuPool(gpu.ceiling, gpu.used - of_gpu, gpu.source)
    available = None if memory.available is None else memory.available + freed
    return replace(memory, available=available, gpu=gpu)


def _light_spec(spec: ModelSpec, count: int) -> ModelSpec:
    return replace(spec, steady=_less(spec.steady, count), peak=_less(spec.peak, count))


def _light_files(known: Preflight, count: int) -> Preflight:
    parts = known.parts
    if parts is not None:
        parts = replace(parts, context=_less(parts.context, count))
    return replace(known, steady=_less(known.steady, count), peak=_less(known.peak, count), parts=parts)


def _light_entry(entry: LedgerEntry, count: int) -> LedgerEntry:
    said = entry.said
    if said is not None:
        said = replace(said, context=_less(said.context, count))
    return replace(entry, peak=max(0, entry.peak - count), said=said)


def _less(known: int | None, count: int) -> int | None:
    return None if known is None else max(0, known - count)
