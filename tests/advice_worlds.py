"""Random desks for tests of advice, described by what people set: a change is made there, and the world built anew.

So what advice takes for the effect of a change is not what the tests take for it.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass, replace

from reconciler.core.advice_types import Change, ChangeKind
from reconciler.core.memory import Estimate, Memory, Watermarks
from reconciler.core.types import (
    Chance,
    Demand,
    Instance,
    LedgerEntry,
    Manifest,
    MayPreempt,
    ModelSpec,
    Observation,
    Preflight,
    Residency,
    Swap,
    World,
)
from worlds import MIB, NOW

#: Tokens that an engine hands out at once, and the bytes they take.
BLOCK = 256
BLOCK_BYTES = 700_001


@dataclass(frozen=True)
class Desk:
    """One model of a desk; sizes in MiB, times in seconds."""

    name: str
    weights: int
    context: int
    #: Size stated in the manifest instead of estimated.
    stated: bool = False
    #: What it was measured to hold beyond that, and takes beyond that while it loads.
    grown: int = 0
    loading: int = 0
    priority: int = 500
    residency: Residency = Residency.ON_DEMAND
    may_preempt: MayPreempt = MayPreempt.EQUAL
    idle_ttl: float | None = None
    min_resident: float = 0.0
    reload_after: float = 0.0
    #: Seconds since its last use and its load; None = it does not run.
    idle: float | None = None
    age: float = 3600.0
    active: int = 0
    held: int = 0
    #: Seconds for which somebody waits; None = nobody does.
    waits: float | None = None
    wanted: bool = False
    retry_in: float | None = None
    closed: float | None = None
    returns: float | None = None
    #: Tokens asked for of an engine that hands its context out in blocks of `BLOCK`; None = `context` is to the MiB.
    asked: int | None = None

    @property
    def context_bytes(self) -> int:
        """Bytes of its context, with what the engine makes of the number of tokens."""
        return self.context * MIB if self.asked is None else -(-self.asked // BLOCK) * BLOCK_BYTES

    @property
    def bytes(self) -> int:
        """Bytes it is charged."""
        return (self.weights + self.grown) * MIB + self.context_bytes

    @property
    def size(self) -> int:
        """The same in whole MiB."""
        return -(-self.bytes // MIB)


@dataclass(frozen=True)
class Machine:
    """A machine and what runs on it; sizes in MiB."""

    models: tuple[Desk, ...]
    total: int = 200
    memory: int = 100
    reserve: int = 0
    others: int = 0
    hard: float | None = None
    at: float = NOW
    #: How many tokens are in one MiB of context.
    tokens: int = 1000
    #: Who went for whom in the last minutes, the newest last.
    swaps: tuple[tuple[str, str], ...] = ()

    def edit(self, name: str, **fields: object) -> "Machine":
        """The same machine with one of its models set otherwise."""
        models = tuple(replace(m, **fields) if m.name == name else m for m in self.models)  # type: ignore[arg-type]
        return replace(self, models=models)

    def get(self, name: str) -> Desk:
        """One of its models."""
        return next(m for m in self.models if m.name == name)

    def asked(self, name: str) -> "Machine":
        """The same machine with a request waiting for a model."""
        return self.edit(name, waits=self.get(name).waits or 0.0)

    def built(self) -> tuple[Manifest, World]:
        """The manifest and the world, as the core sees them."""
        marks = None if self.hard is None else Watermarks(0.5, self.hard, 0.95, 0.5)
        specs = tuple(_spec(m) for m in self.models)
        manifest = Manifest(specs, 1, self.memory * MIB, self.reserve * MIB, watermarks=marks)
        instances = tuple(_instance(m, 100 + n) for n, m in enumerate(self.models) if m.idle is not None)
        ours = sum(i.committed or 0 for i in instances)
        available = (self.total - self.others) * MIB - ours
        seen = Observation(
            1,
            NOW,
            Memory(self.total * MIB, max(0, available)),
            instances,
            tuple(_demand(m) for m in self.models),
            tuple(_preflight(m, self.tokens) for m in self.models),
        )
        chances = tuple(Chance(m.name, m.returns) for m in self.models if m.returns is not None)
        swaps = tuple(Swap(*pair, NOW - 300 + n) for n, pair in enumerate(self.swaps))
        return manifest, World(seen, tuple(_entries(self.models)), chances, swaps=swaps)


def _spec(m: Desk) -> ModelSpec:
    return ModelSpec(
        m.name,
        f"{m.name}-v1",
        m.priority,
        m.residency,
        steady=(m.weights + m.context) * MIB if m.stated else None,
        peak=(m.weights + m.context + m.loading) * MIB if m.stated and m.loading else None,
        idle_ttl=m.idle_ttl,
        min_resident=m.min_resident,
        may_preempt=m.may_preempt,
        reload_after=m.reload_after,
    )


def _instance(m: Desk, pid: int) -> Instance:
    assert m.idle is not None
    loaded = NOW - m.age
    committed = m.bytes
    return Instance(
        m.name, f"{m.name}-v1", pid, 1, 18100, True, committed, 0, loaded, NOW - m.idle, 1, admitted=committed
    )


def _demand(m: Desk) -> Demand:
    runs = m.idle is not None
    return Demand(
        m.name,
        active=m.active if runs else 0,
        held=m.held if runs else 0,
        waiting=0 if m.waits is None else 1,
        oldest=None if m.waits is None else NOW - m.waits,
        wanted=m.wanted,
        closed=None if m.closed is None else NOW - m.closed,
    )


def _preflight(m: Desk, tokens: int) -> Preflight:
    if m.stated:
        return Preflight(m.name)
    parts = Estimate(m.weights * MIB, m.context_bytes, 0, loading=m.loading * MIB)
    known = Preflight(m.name, steady=parts.steady, peak=parts.peak, parts=parts)
    if m.asked is None:
        return replace(known, context_tokens=m.context * tokens)
    return replace(known, context_tokens=m.asked, context_step=BLOCK, context_step_bytes=BLOCK_BYTES)


def _entries(models: Iterable[Desk]) -> Iterable[LedgerEntry]:
    for m in models:
        peak = m.bytes if m.idle is not None or m.grown else 0
        retry = None if m.retry_in is None else NOW + m.retry_in
        yield LedgerEntry(m.name, f"{m.name}-v1", peak, failures=int(retry is not None), retry_at=retry)


def random_machine(seed: int) -> Machine:
    """A machine on which something is likely not to fit; the same for the same seed."""
    rng = random.Random(seed)
    count = rng.randint(2, 6)
    total = rng.choice([100, 160, 200])
    memory = rng.choice([60, 80, 100, 100])
    room = memory
    models = []
    for name in "abcdef"[:count]:
        m = _random_model(rng, name)
        # What runs fitted when it was let in, more or less.
        runs = m.size <= room + 10 and rng.random() < 0.7
        if runs:
            room -= m.size
            m = replace(m, idle=rng.choice([0.0, 3.0, 70.0, 300.0]), active=rng.choice([0, 0, 0, 1]))
            m = replace(
                m, age=max(m.idle or 0.0, rng.choice([5.0, 40.0, 3600.0])), held=rng.choice([0] * 9 + [1])
            )
        else:
            m = replace(
                m,
                waits=rng.choice([None, None, 1.0, 11.0]),
                wanted=rng.random() < 0.1,
                retry_in=rng.choice([None] * 8 + [7.0]),
                closed=rng.choice([None, 5.0]),
            )
        models.append(m)
    return Machine(
        tuple(models),
        total=total,
        memory=memory,
        reserve=rng.choice([0, 0, 10, 30]),
        others=min(rng.choice([0, 0, 20, 60]), total - sum(m.size for m in models if m.idle is not None)),
        hard=rng.choice([None, None, 0.5, 0.8]),
    )


def _random_model(rng: random.Random, name: str) -> Desk:
    kinds = [Residency.ON_DEMAND] * 4 + [Residency.WARM, Residency.PINNED, Residency.TRANSIENT]
    stated = rng.random() < 0.3
    return Desk(
        name,
        weights=rng.choice([0, 5, 10, 30, 50]),
        context=rng.choice([2, 8, 20, 40]),
        asked=None if stated else rng.choice([None, 4096, 5000, 8000, 14_000]),
        stated=stated,
        grown=rng.choice([0, 0, 3]),
        loading=rng.choice([0, 0, 6]),
        priority=rng.choice([250, 500, 500, 500, 750]),
        residency=rng.choice(kinds),
        may_preempt=rng.choice([MayPreempt.EQUAL] * 3 + [MayPreempt.LOWER, MayPreempt.NONE]),
        idle_ttl=rng.choice([None, None, None, 400.0]),
        min_resident=rng.choice([0.0, 0.0, 30.0]),
        reload_after=rng.choice([0.0, 0.0, 30.0]),
        returns=rng.choice([None, 0.05, 0.3, 0.8]),
    )


def followed(machine: Machine, change: Change) -> Machine:
    """The machine once somebody has done what is advised."""
    if change.model is not None:
        return machine.edit(change.model, **_of_model(machine, change))
    count = change.bytes // MIB
    match change.kind:
        case ChangeKind.WAIT:
            return replace(machine, at=machine.at + (change.seconds or 0.0))
        case ChangeKind.MEMORY:
            return replace(machine, memory=machine.memory + count)
        case ChangeKind.RESERVE:
            return replace(machine, reserve=machine.reserve - count)
        case ChangeKind.HARD_MARK:
            return replace(machine, hard=change.mark)
        case ChangeKind.OTHERS:
            return replace(machine, others=machine.others - count)
    raise AssertionError(f"{change} is about no model")


def _of_model(machine: Machine, change: Change) -> dict[str, object]:
    match change.kind:
        case ChangeKind.ASK:
            return {"wanted": True, "retry_in": None}
        case ChangeKind.MAY_PREEMPT:
            return {"may_preempt": change.may_preempt}
        case ChangeKind.PRIORITY:
            return {"priority": change.priority}
        case ChangeKind.CONTEXT:
            desk = machine.get(change.model or "")
            if desk.asked is None:
                return {"context": desk.context - change.bytes // MIB}
            # As people follow it: they write the number of tokens that are left.
            return {"asked": desk.asked - (change.tokens or 0)}
        case ChangeKind.RELEASE:
            return {"held": 0}
        case ChangeKind.UNPIN:
            return {"residency": Residency.WARM}
    raise AssertionError(f"{change} is about the machine")


def a_step_less(change: Change) -> Change | None:
    """The next smaller change of the same kind; None = that would be none at all."""
    match change.kind:
        case ChangeKind.WAIT:
            return replace(change, seconds=(change.seconds or 0.0) - 0.01)
        case ChangeKind.MAY_PREEMPT if change.may_preempt is MayPreempt.EQUAL:
            return replace(change, may_preempt=MayPreempt.LOWER)
        case ChangeKind.PRIORITY:
            return replace(change, priority=(change.priority or 0) - 1)
        case ChangeKind.HARD_MARK:
            return replace(change, mark=round((change.mark or 0.0) - 0.01, 2))
        case ChangeKind.CONTEXT if change.tokens is not None:
            return replace(change, bytes=change.bytes - MIB, tokens=change.tokens - 1)
        case ChangeKind.MEMORY | ChangeKind.CONTEXT | ChangeKind.RESERVE | ChangeKind.OTHERS:
            return replace(change, bytes=change.bytes - MIB)
    return None
