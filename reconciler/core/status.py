"""Conditions: what is true of the manifest and of each model, derived once, at the end of a pass, from facts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from reconciler.core import book
from reconciler.core.account import breakdown, doubtful
from reconciler.core.machine import Evicting, Loading, Settling, State
from reconciler.core.regrets import Regret
from reconciler.core.types import (
    Instance,
    LedgerEntry,
    Manifest,
    ModelSpec,
    Plan,
    Preflight,
    Residency,
    World,
)
from reconciler.core.words import size as size_text


class Truth(StrEnum):
    """The three values a condition can have."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class Condition:
    """One statement about one thing. `changed_at` (monotonic seconds) moves only when `status` really changes."""

    type: str
    status: Truth
    reason: str
    message: str
    generation: int
    changed_at: float


@dataclass(frozen=True, slots=True)
class Facts:
    """What conditions are derived from."""

    manifest: Manifest
    world: World
    plan: Plan
    state: State
    #: Models that answer requests now.
    serving: frozenset[str]
    #: Rendered diagnostics of a newer manifest that was refused.
    refused: tuple[str, ...] = ()
    #: Why the ledger cannot be written; None = it can.
    trouble: str | None = None
    #: Models that are wanted again at once when they go.
    regrets: tuple[Regret, ...] = ()
    #: Why only pinned models are loaded; "" = all are.
    safe_mode: str = ""


Conditions = Mapping[str, tuple[Condition, ...]]


def of_manifest(facts: Facts, previous: Iterable[Condition], now: float) -> tuple[Condition, ...]:
    """Return the manifest's conditions: ManifestValid and Ready always, the others only while true."""
    generation = facts.manifest.generation
    made = [_valid(facts), _all_pinned_ready(facts), *_progressing(facts, None), *_impaired(facts)]
    return _stamp(made, previous, generation, now)


def of_models(facts: Facts, previous: Conditions, now: float) -> dict[str, tuple[Condition, ...]]:
    """Return each model's conditions: Ready always; Progressing, Degraded and the others only while true."""
    entries = {(e.model, e.digest): e for e in facts.world.ledger}
    instances = {i.model: i for i in facts.world.observation.instances}
    preflights = {p.model: p for p in facts.world.observation.preflights}
    rued = {
        r.model: ("EvictedThenWanted", Truth.TRUE, str(r.reasons[0][0]), r.message) for r in facts.regrets
    }
    out = {}
    for spec in facts.manifest.models:
        made = [_ready(facts, spec), *_progressing(facts, spec.name)]
        made += _degraded(
            spec,
            instances.get(spec.name),
            preflights.get(spec.name),
            entries.get((spec.name, spec.digest)),
        )
        made += [rued[spec.name]] if spec.name in rued else []
        made += _suspect(instances.get(spec.name))
        out[spec.name] = _stamp(made, previous.get(spec.name, ()), facts.manifest.generation, now)
    return out


Statement = tuple[str, Truth, str, str]


def _stamp(
    made: Iterable[Statement], previous: Iterable[Condition], generation: int, now: float
) -> tuple[Condition, ...]:
    """Give each statement its generation and the time it last changed."""
    before = {c.type: c for c in previous}
    out = []
    for kind, status, reason, message in made:
        old = before.get(kind)
        since = old.changed_at if old is not None and old.status is status else now
        out.append(Condition(kind, status, reason, message, generation, since))
    return tuple(out)


def _valid(facts: Facts) -> Statement:
    if not facts.refused:
        return ("ManifestValid", Truth.TRUE, "Applied", "the newest manifest is in force")
    count = f"{len(facts.refused)} error{'s' if len(facts.refused) > 1 else ''}"
    text = f"{count}, generation {facts.manifest.generation} stays in force: " + "; ".join(facts.refused)
    return ("ManifestValid", Truth.FALSE, "Refused", text)


def _all_pinned_ready(facts: Facts) -> Statement:
    pinned = [m.name for m in facts.manifest.models if m.residency is Residency.PINNED]
    out = [name for name in pinned if name not in facts.serving]
    if out:
        return ("Ready", Truth.FALSE, "PinnedNotReady", f"not ready: {', '.join(out)}")
    return ("Ready", Truth.TRUE, "PinnedReady", f"{len(pinned)} of {len(pinned)} pinned models are ready")


def _progressing(facts: Facts, model: str | None) -> list[Statement]:
    state = facts.state
    if isinstance(state, Loading | Evicting):
        name, doing = state.action.model, "Loading" if isinstance(state, Loading) else "Evicting"
        text = f"{doing.lower()} {name} ({state.action.reason})"
    elif isinstance(state, Settling):
        name, doing, text = state.model, "Settling", f"waiting for the memory of {state.model} to come back"
    else:
        return []
    return [("Progressing", Truth.TRUE, doing, text)] if model in (None, name) else []


def _impaired(facts: Facts) -> list[Statement]:
    """Say what is wrong with the account, all of it in one condition, and separately that memory is short."""
    seen = facts.world.observation
    memory, troubles = seen.memory, []
    if facts.trouble is not None:
        troubles.append(("LedgerUnwritable", facts.trouble))
    if memory.available is None or memory.total is None:
        troubles.append(("MemoryUnknown", memory.source or "the machine's memory could not be read"))
    troubles += [("ProbeUnreadable", problem) for problem in memory.problems]
    grown = doubtful(breakdown(memory, seen.instances), seen.least_unattributed)
    if grown is not None:
        text = f"{size_text(grown)} more than before are in use by nobody known: a driver, or a probe that is missing"
        troubles.append(("Unattributed", text))
    made = []
    if facts.safe_mode:
        made.append(("SafeMode", Truth.TRUE, "MachineWentDown", facts.safe_mode))
    if troubles:
        made.append(("Degraded", Truth.TRUE, troubles[0][0], "; ".join(text for _, text in troubles)))
    if seen.pressure.cause:
        reason = seen.pressure.level.name.capitalize() if seen.pressure.level else "Relieving"
        made.append(("MemoryPressure", Truth.TRUE, reason, seen.pressure.cause))
    return made


def _ready(facts: Facts, spec: ModelSpec) -> Statement:
    if spec.name in facts.serving:
        return ("Ready", Truth.TRUE, "Serving", "answers requests")
    verdict = facts.plan.verdict(spec.name)
    if verdict is None:
        return ("Ready", Truth.UNKNOWN, "NotPlanned", "not looked at yet")
    return ("Ready", Truth.FALSE, str(verdict.reason), verdict.detail)


#: A model is over its estimate when it holds more than this share of it, and this many bytes, on top.
_OVER_SHARE: Final = 0.05
_OVER_BYTES: Final = 32 << 20


def _degraded(
    spec: ModelSpec, instance: Instance | None, preflight: Preflight | None, entry: LedgerEntry | None
) -> list[Statement]:
    if text := _over_estimate(spec, instance, preflight):
        return [("Degraded", Truth.TRUE, "OverEstimate", text)]
    if instance is not None and (text := _cut_short(preflight, entry)):
        return [("Degraded", Truth.TRUE, "ContextShrunk", text)]
    if entry is not None and entry.failures > 0:
        return [("Degraded", Truth.TRUE, "Failing", f"{book.mishap(entry)}: {book.cause(entry)}")]
    return []


def _suspect(instance: Instance | None) -> list[Statement]:
    """Say why a model that is ready may hang, or that it does."""
    if instance is None or not instance.ready or not (instance.hung or instance.suspect):
        return []
    if instance.hung:
        return [("Suspect", Truth.TRUE, "Hung", instance.hung)]
    return [("Suspect", Truth.TRUE, instance.suspected_for or "Suspected", instance.suspect)]


def _over_estimate(spec: ModelSpec, instance: Instance | None, preflight: Preflight | None) -> str:
    holds = book.held(instance) if instance is not None else None
    if holds is None:
        return ""
    if spec.steady is not None:
        over = holds - spec.steady
        return f"holds {size_text(holds)}, {size_text(over)} more than memory.steady says" if over > 0 else ""
    estimate = preflight.steady if preflight is not None else None
    if estimate is None or holds <= max(estimate * (1 + _OVER_SHARE), estimate + _OVER_BYTES):
        return ""
    return f"holds {size_text(holds)}, {size_text(holds - estimate)} more than was estimated"


def _cut_short(preflight: Preflight | None, entry: LedgerEntry | None) -> str:
    """Say so where the engine took less context than it was asked for."""
    asked = preflight.context_tokens if preflight is not None else None
    took = entry.said.context_tokens if entry is not None and entry.said is not None else None
    if asked is None or took is None or took >= asked:
        return ""
    return f"the engine set up {took} tokens of context, {asked} were asked for"
