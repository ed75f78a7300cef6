"""What the loop knows, as a JSON document."""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from reconciler.core import book
from reconciler.core.machine import Evicting, Halted, Idle, Loading, Settling
from reconciler.core.status import Condition
from reconciler.core.types import (
    Demand,
    Instance,
)
from reconciler.render.advice_document import hint_documents
from reconciler.render.health_document import health_document
from reconciler.render.memory_document import (
    breakdown_document,
    marks_document,
    model_memory,
    pressure_document,
    sum_known,
)
from reconciler.render.model_facts import ModelFacts, model_facts, model_state
from reconciler.render.plan_document import as_json, git_document, verdict_document
from reconciler.render.prewarm_document import model_prewarm, prewarm_document
from reconciler.render.shapes import (
    ActionDocument,
    ConditionDocument,
    Doing,
    ManifestDocument,
    MemoryDocument,
    ModelDocument,
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
    facts = model_facts(snapshot)
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


def model_document(snapshot: "Snapshot", name: str, now: float) -> ModelDocument:
    """Return one model as it stands in the status. Raises KeyError for a model that nobody knows."""
    for fact in model_facts(snapshot):
        if fact.name == name:
            return _model(snapshot, fact, now)
    raise KeyError(name)


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
        reserve=book.reserve(snapshot.applied.manifest, memory),
        marks=marks_document(snapshot.applied.manifest.watermarks),
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


def _model(snapshot: "Snapshot", fact: ModelFacts, now: float) -> ModelDocument:
    spec, instance, entry, demand = fact.spec, fact.instance, fact.entry, fact.demand
    launch, oldest = snapshot.applied.launches.get(fact.name), oldest_arrival(snapshot, demand)
    return ModelDocument(
        name=fact.name,
        state=model_state(snapshot, fact),
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


def _retry_in(fact: ModelFacts, now: float) -> float | None:
    if fact.entry and fact.entry.failures and fact.entry.retry_at is not None:
        return max(0.0, fact.entry.retry_at - now)
    return fact.verdict.retry_in if fact.verdict else None
