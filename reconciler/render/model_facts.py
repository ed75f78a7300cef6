"""What a snapshot says of each model, gathered for whoever tells it: the status, the metrics."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.core.machine import Evicting, Loading
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
from reconciler.render.shapes import ModelState

if TYPE_CHECKING:
    from reconciler.board import Snapshot


@dataclass(frozen=True, slots=True)
class ModelFacts:
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


def model_facts(snapshot: "Snapshot") -> list[ModelFacts]:
    """Return everything that is known of each model of the manifest and of each that runs, sorted by name."""
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
            ModelFacts(
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


def model_state(snapshot: "Snapshot", fact: ModelFacts) -> ModelState:
    """Return the state of a model in one word, as `reconcile status` shows it."""
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
