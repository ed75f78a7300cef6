"""What the loop knows, as a JSON document."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from reconciler.core.machine import Evicting, Halted, Idle, Loading, Settling
from reconciler.core.status import Condition
from reconciler.core.types import (
    Demand,
    Instance,
    LedgerEntry,
    ModelSpec,
    Outcome,
    Preflight,
    Reason,
    Verdict,
)
from reconciler.render.advice_document import hint_documents
from reconciler.render.health_document import health_document
from reconciler.render.memory_document import breakdown_document, model_memory, pressure_document, sum_known
from reconciler.render.plan_document import as_json, git_document, verdict_document
from reconciler.render.prewarm_document import model_prewarm, prewarm_document
from reconciler.render.shapes import (
    ActionDocument,
    ConditionDocument,
    Doing,
    ManifestDocument,
    MemoryDocument,
    ModelDocument,
    ModelState,
    SavedStateDocument,
    StatusDocument,
    VirtualDocument,
)
from reconciler.render.traffic_document import (
    gate_documents,
    lease_documents,
    oldest_arrival,
    queue_document,
    requests_document,
)

if TYPE_CHECKING:
    from reconciler.board import Snapshot


def status_json(snapshot: "Snapshot", now: float) -> dict[str, Any]:
    """Return the document of `schemas/status.v1.json`; `now` is a reading of the snapshot's clock."""
    facts = _facts(snapshot)
    gateway = snapshot.applied.gateway
    host = f"[{gateway.host}]" if ":" in gateway.host else gateway.host
    return as_json(
        StatusDocument(
            version=snapshot.version,
            pid=snapshot.pid,
            url=f"http://{host}:{gateway.port}",
            halted=snapshot.state.reason if isinstance(snapshot.state, Halted) else None,
            observation=snapshot.world.observation.seq,
            manifest=_manifest(snapshot),
            memory=_memory(snapshot, now),
            action=_action(snapshot, now),
            conditions=_conditions(snapshot.manifest_conditions, now),
            models=tuple(_model(snapshot, fact, now) for fact in facts),
            virtual=tuple(
                VirtualDocument(name, virtual.models)
                for name, virtual in sorted(snapshot.applied.virtual.items())
            ),
            gates=gate_documents(snapshot.traffic),
            leases=lease_documents(snapshot.traffic, now),
            advice=hint_documents(snapshot.applied.manifest, snapshot.world, snapshot.plan, now),
            requests=requests_document(snapshot.traffic),
            policy=snapshot.applied.manifest.policy.value,
            prewarm=prewarm_document(snapshot, now),
        )
    )


@dataclass(frozen=True, slots=True)
class _Facts:
    """Everything the snapshot says of one model."""

    name: str
    spec: ModelSpec | None
    aliases: tuple[str, ...]
    #: The process that counts (ready before starting, fresh before drifted), and all of them.
    instance: Instance | None
    instances: tuple[Instance, ...]
    demand: Demand
    entry: LedgerEntry | None
    verdict: Verdict | None
    preflight: Preflight | None


def _facts(snapshot: "Snapshot") -> list[_Facts]:
    observation = snapshot.world.observation
    specs = {m.name: m for m in snapshot.applied.manifest.models}
    demands = {d.model: d for d in observation.demands}
    verdicts = {v.model: v for v in snapshot.plan.verdicts}
    preflights = {p.model: p for p in observation.preflights}
    entries = {(e.model, e.digest): e for e in snapshot.world.ledger}
    aliases: dict[str, list[str]] = {}
    for alias, model in sorted(snapshot.applied.routes.items()):
        if alias != model:
            aliases.setdefault(model, []).append(alias)
    instances: dict[str, list[Instance]] = {}
    for instance in observation.instances:
        instances.setdefault(instance.model, []).append(instance)
    found = []
    for name in sorted(specs.keys() | instances.keys() | verdicts.keys()):
        spec = specs.get(name)
        digest = spec.digest if spec else ""
        mine = sorted(
            instances.get(name, ()),
            key=lambda i: (i.asleep, not i.ready, i.digest != digest, i.pid),
        )
        first = mine[0] if mine else None
        entry = entries.get((name, digest or (first.digest if first else "")))
        demand = demands.get(name, Demand(name))
        found.append(
            _Facts(
                name,
                spec,
                tuple(aliases.get(name, ())),
                first,
                tuple(mine),
                demand,
                entry,
                verdicts.get(name),
                preflights.get(name),
            )
        )
    return found


def _manifest(snapshot: "Snapshot") -> ManifestDocument:
    applied = snapshot.applied
    return ManifestDocument(
        path=applied.source.path,
        files=applied.source.files,
        generation=snapshot.plan.generation,
        digest=applied.digest,
        git=git_document(applied.source),
        valid=not snapshot.refused,
        refused=snapshot.refused,
        warnings=applied.warnings,
    )


def _memory(snapshot: "Snapshot", now: float) -> MemoryDocument:
    account, seen = snapshot.plan.account, snapshot.world.observation
    memory = seen.memory
    return MemoryDocument(
        budget=account.budget,
        held=account.held,
        reserved=account.reserved,
        free=account.free,
        total=memory.total,
        available=memory.available,
        source=memory.source,
        age=max(0.0, now - seen.at),
        swap_used=memory.swap.used,
        gpu_ceiling=memory.gpu.ceiling if memory.gpu is not None else None,
        breakdown=breakdown_document(seen),
        pressure=pressure_document(seen),
    )


def _action(snapshot: "Snapshot", now: float) -> ActionDocument | None:
    state, progress = snapshot.state, snapshot.progress
    doing: Doing
    match state:
        case Idle() | Halted():
            return None
        case Loading(action):
            doing, model = "loading", action.model
        case Settling(model):
            doing = "settling"
        case Evicting(action):
            doing, model = "draining" if action.drain else "stopping", action.model
            if progress and progress.doing in ("draining", "saving", "stopping"):
                doing = cast("Doing", progress.doing)
    return ActionDocument(
        doing=doing,
        model=model,
        elapsed=max(0.0, now - state.since),
        expected=progress.expected if progress else None,
        deadline_in=max(0.0, state.deadline - now) if math.isfinite(state.deadline) else None,
    )


def _conditions(conditions: Iterable[Condition], now: float) -> tuple[ConditionDocument, ...]:
    return tuple(
        ConditionDocument(
            type=c.type,
            status=c.status.value,
            reason=c.reason,
            message=c.message,
            generation=c.generation,
            age=max(0.0, now - c.changed_at),
        )
        for c in sorted(conditions, key=lambda c: c.type)
    )


def _state(snapshot: "Snapshot", fact: _Facts) -> ModelState:
    state = snapshot.state
    if isinstance(state, Evicting) and state.action.model == fact.name:
        return "evicting"
    if fact.instance and (fact.instance.broken or fact.instance.hung):
        return "failing"
    if fact.instance and fact.instance.ready:
        return "ready"
    asleep = fact.instance is not None and fact.instance.asleep
    if (fact.instance and not asleep) or (isinstance(state, Loading) and state.action.model == fact.name):
        return "loading"
    if fact.verdict and fact.verdict.outcome is Outcome.BLOCKED:
        return "failing" if fact.verdict.reason in (Reason.BACKING_OFF, Reason.GIVEN_UP) else "blocked"
    return "asleep" if asleep else "cold"


def _model(snapshot: "Snapshot", fact: _Facts, now: float) -> ModelDocument:
    spec, instance, entry, demand = fact.spec, fact.instance, fact.entry, fact.demand
    launch, oldest = snapshot.applied.launches.get(fact.name), oldest_arrival(snapshot, demand)
    return ModelDocument(
        name=fact.name,
        state=_state(snapshot, fact),
        residency=spec.residency.value if spec else None,
        priority=spec.priority if spec else None,
        aliases=fact.aliases,
        role=launch.role.value if launch else None,
        engine=launch.engine if launch else None,
        pid=instance.pid if instance else None,
        port=instance.port if instance else None,
        held=sum_known(sum_known((i.committed, i.warm)) for i in fact.instances),
        warm=sum_known(i.warm for i in fact.instances),
        size=fact.verdict.size if fact.verdict else None,
        memory=model_memory(
            fact.instances,
            snapshot.world.observation,
            fact.preflight,
            entry,
            fact.verdict.size if fact.verdict else None,
            now,
        ),
        active=demand.active,
        waiting=demand.waiting,
        gated=demand.gated,
        jobs=demand.jobs,
        leases=demand.held,
        queue=queue_document(snapshot, fact.name, now),
        wanted=demand.wanted,
        dismissed=demand.dismissed,
        oldest_wait=None if oldest is None else max(0.0, now - oldest),
        idle=_idle(instance, demand, now),
        served=sum(i.served for i in fact.instances),
        verdict=verdict_document(fact.verdict) if fact.verdict else None,
        conditions=_conditions(snapshot.model_conditions.get(fact.name, ()), now),
        notes=fact.preflight.notes if fact.preflight else (),
        load_seconds=entry.load_seconds if entry else None,
        failures=entry.failures if entry else 0,
        failure=str(entry.kind) if entry and entry.kind else None,
        last_error=entry.last_error if entry else "",
        retry_in=_retry_in(fact, now),
        log=snapshot.log_paths.get(fact.name),
        saved=_saved(snapshot, fact.name, now),
        prewarm=model_prewarm(snapshot, fact.name, now),
        health=health_document(snapshot.health.get(fact.name), now),
    )


def _saved(snapshot: "Snapshot", name: str, now: float) -> SavedStateDocument | None:
    kept = snapshot.states.get(name)
    if kept is None:
        return None
    age = None if kept.at is None else max(0.0, now - kept.at)
    return SavedStateDocument(kept.tokens, kept.bytes, age, kept.note)


def _idle(instance: Instance | None, demand: Demand, now: float) -> float | None:
    if instance is None or not instance.ready:
        return None
    return 0.0 if demand.in_use else max(0.0, now - instance.last_used)


def _retry_in(fact: _Facts, now: float) -> float | None:
    if fact.entry and fact.entry.failures and fact.entry.retry_at is not None:
        return max(0.0, fact.entry.retry_at - now)
    return fact.verdict.retry_in if fact.verdict else None
