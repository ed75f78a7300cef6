"""Worlds for the planner: an everyday one, and those that are hardest for it. Same size, same world."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from reconciler.core.memory import Memory
from reconciler.core.types import (
    Demand,
    Instance,
    LedgerEntry,
    Manifest,
    MayPreempt,
    ModelSpec,
    Observation,
    Preflight,
    Residency,
    World,
)

MIB: Final = 1 << 20
NOW: Final = 100_000.0
_PRIORITIES: Final = (0, 250, 500, 750, 1000)


@dataclass
class Builder:
    """Collects models and what is known of them; `build` makes the manifest and the world."""

    models: list[ModelSpec] = field(default_factory=list)
    instances: list[Instance] = field(default_factory=list)
    demands: list[Demand] = field(default_factory=list)
    preflights: list[Preflight] = field(default_factory=list)
    ledger: list[LedgerEntry] = field(default_factory=list)

    def model(self, spec: ModelSpec) -> None:
        """Add a model whose files are there."""
        self.models.append(spec)
        self.preflights.append(Preflight(spec.name, steady=spec.steady))

    def resident(
        self, spec: ModelSpec, mib: int, *, idle: float, digest: str = "", loaded_at: float = 0
    ) -> None:
        """Add its process, which holds so many MiB."""
        started = len(self.instances) + 1
        self.instances.append(
            Instance(
                model=spec.name,
                digest=digest or spec.digest,
                pid=1000 + started,
                started=started,
                port=18100,
                ready=True,
                committed=mib * MIB // 4,
                warm=mib * MIB - mib * MIB // 4,
                loaded_at=loaded_at,
                last_used=NOW - idle,
                served=1,
            )
        )

    def build(self, budget_mib: int) -> tuple[Manifest, World]:
        """Return manifest and world; the machine itself has room to spare, so the budget is what binds."""
        models = tuple(sorted(self.models, key=lambda m: m.name))
        manifest = Manifest(models, 1, budget_mib * MIB, 0)
        memory = Memory(4 * budget_mib * MIB, 4 * budget_mib * MIB)
        seen = Observation(
            1,
            NOW,
            memory,
            tuple(self.instances),
            tuple(sorted(self.demands, key=lambda d: d.model)),
            tuple(sorted(self.preflights, key=lambda p: p.model)),
        )
        return manifest, World(seen, tuple(sorted(self.ledger, key=lambda e: (e.model, e.digest))))


def everyday(count: int) -> tuple[Manifest, World]:
    """A third of the models run, some of them with old settings; a tenth of all is asked for; some cannot start."""
    dice, out, held = random.Random(count), Builder(), 0
    for number in range(count):
        mib = dice.choice((256, 1024, 4096, 16384))
        residency = dice.choices(tuple(Residency), (1, 4, 94, 1))[0]
        spec = ModelSpec(
            f"model-{number:05d}",
            f"digest-{number}",
            priority=dice.choice(_PRIORITIES),
            residency=residency,
            steady=mib * MIB,
            idle_ttl=dice.choice((None, None, 300.0)),
            may_preempt=dice.choices(tuple(MayPreempt), (1, 2, 7))[0],
        )
        out.model(spec)
        place = dice.random()
        if place < 0.33:
            stale = "old" if dice.random() < 0.05 else ""
            out.resident(spec, mib, idle=dice.uniform(0, 310), digest=stale)
            held += mib
        elif place < 0.36:
            out.preflights[-1] = Preflight(spec.name, "NotStartable", "its weights do not exist")
        elif place < 0.39:
            out.ledger.append(
                LedgerEntry(spec.name, spec.digest, failures=3, retry_at=NOW + 8, last_error="it died")
            )
        _ask(dice, out, spec.name, running=place < 0.33)
    return out.build(held + 2048)


def _ask(dice: random.Random, out: Builder, name: str, *, running: bool) -> None:
    if dice.random() >= 0.1:
        return
    if running:
        out.demands.append(Demand(name, active=dice.randint(1, 4)))
    else:
        out.demands.append(
            Demand(name, waiting=dice.randint(1, 8), oldest=NOW - round(dice.uniform(0, 20), 3))
        )


def _half_and_half(count: int, victim: Mapping[str, object], *, loaded_at: float = 0.0) -> Builder:
    """Half of the models run idle and fill the budget; each of the others is asked for and lacks all its room."""
    out = Builder()
    for number in range(count // 2):
        spec = ModelSpec(f"victim-{number:05d}", f"v{number}", steady=512 * MIB, **victim)  # type: ignore[arg-type]
        out.model(spec)
        out.resident(spec, 512, idle=float(number + 60), loaded_at=loaded_at)
        name = f"claimant-{number:05d}"
        out.model(ModelSpec(name, f"c{number}", priority=750, steady=512 * MIB))
        out.demands.append(Demand(name, waiting=1, oldest=NOW - 1 - number / count))
    return out


def displacing(count: int) -> tuple[Manifest, World]:
    """Every second model must displace one of the others: as many evicts and loads as can be."""
    return _half_and_half(count, {"priority": 250}).build(count // 2 * 512)


def guarded(count: int) -> tuple[Manifest, World]:
    """As before, but every victim was loaded just now and is safe for a while: each search finds nobody."""
    fresh = {"priority": 250, "min_resident": 600.0}
    return _half_and_half(count, fresh, loaded_at=NOW - 1).build(count // 2 * 512)


def crumbs(count: int) -> tuple[Manifest, World]:
    """One model needs the room of all the others, which are small, and then more are asked for in vain."""
    out = Builder()
    small = count * 9 // 10
    for number in range(small):
        spec = ModelSpec(f"small-{number:05d}", f"s{number}", priority=250, steady=(64 + number % 7) * MIB)
        out.model(spec)
        out.resident(spec, 64 + number % 7, idle=float(number + 60))
    for number in range(count - small):
        name = f"large-{number:05d}"
        out.model(ModelSpec(name, f"l{number}", priority=750, steady=small * 63 * MIB))
        out.demands.append(Demand(name, waiting=1, oldest=NOW - 2 + number / count))
    return out.build(small * 70)


def ranks(count: int) -> tuple[Manifest, World]:
    """Every model has a priority of its own, and those asked for may displace only some of the others."""
    out = Builder()
    for number in range(count // 2):
        spec = ModelSpec(f"victim-{number:05d}", f"v{number}", priority=2 * number, steady=512 * MIB)
        out.model(spec)
        out.resident(spec, 512, idle=float(number + 60))
        name = f"claimant-{number:05d}"
        out.model(ModelSpec(name, f"c{number}", priority=2 * number + 1, steady=512 * MIB))
        out.demands.append(Demand(name, waiting=1, oldest=NOW - 1 - number / count))
    return out.build(count // 2 * 512)


WORLDS: Final[Mapping[str, Callable[[int], tuple[Manifest, World]]]] = {
    "everyday": everyday,
    "displacing": displacing,
    "guarded": guarded,
    "crumbs": crumbs,
    "ranks": ranks,
}
