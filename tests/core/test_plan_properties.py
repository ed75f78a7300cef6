"""What must hold of every plan, in every world: each test is one law, stated as a sentence."""

import random
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.core import book
from reconciler.core.diff import compare
from reconciler.core.memory import Memory
from reconciler.core.plan import plan
from reconciler.core.select import removal_reason, unstartable
from reconciler.core.types import (
    Demand,
    Evict,
    Instance,
    LedgerEntry,
    Load,
    Manifest,
    MayPreempt,
    ModelSpec,
    Observation,
    Outcome,
    Plan,
    Preflight,
    Reason,
    Residency,
    World,
)
from reconciler.core.victims import may_displace
from worlds import MIB, NOW, perform

NAMES = ["a", "b", "c", "d", "e", "f"]
SIZES = st.sampled_from([0, 1, 5, 10, 20, 35, 50, 80])
#: `--hypothesis-profile=thorough` (see tests/conftest.py) looks at many more worlds.
LAWS = settings(deadline=None)


@st.composite
def specs(draw: st.DrawFn, name: str) -> ModelSpec:
    steady = draw(st.none() | SIZES)
    return ModelSpec(
        name=name,
        digest=f"{name}-v{draw(st.sampled_from([1, 1, 1, 2]))}",
        priority=draw(st.sampled_from([0, 500, 500, 750])),
        residency=draw(st.sampled_from(list(Residency))),
        steady=None if steady is None else steady * MIB,
        peak=draw(st.none() | SIZES.map(lambda s: s * MIB)),
        idle_ttl=draw(st.none() | st.sampled_from([5.0, 60.0])),
        min_resident=draw(st.sampled_from([0.0, 0.0, 30.0])),
        may_preempt=draw(
            st.sampled_from([MayPreempt.EQUAL, MayPreempt.EQUAL, MayPreempt.LOWER, MayPreempt.NONE])
        ),
    )


@st.composite
def instances(draw: st.DrawFn, name: str, pid: int) -> Instance:
    loaded = NOW - draw(st.sampled_from([1.0, 40.0, 500.0]))
    committed = draw(st.sampled_from([0, 1, 5, 10, 20, 35, 50, 80, 80, None]))
    return Instance(
        model=name,
        digest=f"{name}-v1",
        pid=pid,
        started=1,
        port=18100,
        ready=draw(st.sampled_from([True, True, True, True, False])),
        committed=None if committed is None else committed * MIB,
        warm=draw(st.sampled_from([0, 0, 5 * MIB])),
        loaded_at=loaded,
        last_used=min(NOW, loaded + draw(st.sampled_from([0.0, 10.0, 60.0]))),
        served=draw(st.integers(0, 2)),
        broken=draw(st.sampled_from([False] * 7 + [True])),
        admitted=draw(st.sampled_from([0, 0, 20, 80])) * MIB,
    )


@st.composite
def demands(draw: st.DrawFn, name: str, active: int) -> Demand:
    waits = draw(st.sampled_from([0, 0, 1, 3]))
    wanted = draw(st.sampled_from([False, False, False, True]))
    return Demand(
        model=name,
        active=active,
        waiting=waits,
        oldest=NOW - draw(st.sampled_from([0.0, 1.0, 11.0])) if waits else None,
        wanted=wanted,
        # Whoever asks for a model takes the dismissal back, so the two never stand together.
        dismissed=not waits and not wanted and draw(st.sampled_from([False, False, True])),
    )


@st.composite
def cases(draw: st.DrawFn) -> tuple[Manifest, World]:
    named = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=6))
    up = draw(st.lists(st.sampled_from([*NAMES, "stray"]), max_size=6))
    models = tuple(draw(specs(n)) for n in sorted(named))
    processes = tuple(draw(instances(n, 100 + i)) for i, n in enumerate(up))
    wants = tuple(
        draw(demands(n, draw(st.integers(0, 2)) if n in up else 0))
        for n in sorted({*named, *up})
        if draw(st.booleans())
    )
    memory = Memory(
        draw(st.sampled_from([100, 200, 200])) * MIB, draw(st.sampled_from([0, 30, 100, 300])) * MIB
    )
    if draw(st.integers(0, 9)) == 0:
        memory = replace(memory, available=None)
    broken = tuple(Preflight(n, "WeightsMissing", "gone") for n in named if draw(st.integers(0, 7)) == 0)
    ledger = tuple(
        LedgerEntry(
            n,
            f"{n}-v1",
            peak=draw(SIZES) * MIB,
            failures=1,
            retry_at=draw(st.none() | st.sampled_from([NOW - 1, NOW + 9])),
        )
        for n in named
        if draw(st.booleans())
    )
    budget = draw(st.sampled_from([50, 100, 120])) * MIB
    return Manifest(models, 1, budget, draw(st.sampled_from([0, 0.1]))), World(
        Observation(1, NOW, memory, processes, wants, broken), ledger
    )


def charges(manifest: Manifest, world: World) -> int | None:
    """What everything that runs is charged together; None if something could not be read."""
    table = compare(manifest, world, NOW)
    values = [r.charge for r in table.rows if r.instance is not None] + [
        book.stray_charge(s) for s in table.strays
    ]
    return None if any(v is None for v in values) else sum(v or 0 for v in values)


def limit(manifest: Manifest, world: World) -> int:
    seen = world.observation
    return book.capacity(manifest, seen.memory, seen.instances) or 0


@given(cases())
@LAWS
def test_safe_no_load_passes_the_budget_at_any_step(case: tuple[Manifest, World]) -> None:
    manifest, world = case
    for step in plan(manifest, world, NOW).steps:
        if isinstance(step, Load):
            before = charges(manifest, world)
            assert before is not None
            assert before + step.needs <= limit(manifest, world)
        world = perform(step, manifest, world)


@given(cases())
@LAWS
def test_safe_pinned_and_leased_models_are_no_victims(case: tuple[Manifest, World]) -> None:
    manifest, world = case
    rows = {r.name: r for r in compare(manifest, world, NOW).rows}
    serving = {d.model for d in world.observation.demands if d.active > 0}
    for step in plan(manifest, world, NOW).steps:
        row = rows.get(step.model)
        if isinstance(step, Evict) and step.reason is Reason.REMOVED and step.model in serving:
            assert step.drain, "a model that was removed has leases like any other"
        if not isinstance(step, Evict) or row is None or row.instance is None or step.pid != row.instance.pid:
            continue
        if row.pinned:
            assert row.instance.digest != row.spec.digest, "a pinned model leaves only to be replaced"
            assert any(isinstance(s, Load) and s.model == row.name for s in plan(manifest, world, NOW).steps)
        if row.demand.active > 0:
            assert step.drain, "a model with a lease is drained, never just stopped"


@given(cases())
@LAWS
def test_safe_a_busy_model_is_displaced_only_for_one_that_has_waited_long(
    case: tuple[Manifest, World],
) -> None:
    manifest, world = case
    rows = {r.name: r for r in compare(manifest, world, NOW).rows}
    for step in plan(manifest, world, NOW).steps:
        if isinstance(step, Evict) and step.drain and step.reason is Reason.MAKE_ROOM:
            claimant = rows[step.for_model or ""]
            assert claimant.pinned or (
                claimant.demand.oldest is not None and NOW - claimant.demand.oldest >= 10
            )


@given(cases())
@LAWS
def test_no_model_displaces_one_it_may_not(case: tuple[Manifest, World]) -> None:
    manifest, world = case
    rows = {r.name: r for r in compare(manifest, world, NOW).rows}
    for step in plan(manifest, world, NOW).steps:
        if isinstance(step, Evict) and step.reason is Reason.MAKE_ROOM:
            victim, claimant = rows[step.model], rows[step.for_model or ""]
            assert may_displace(claimant, victim.spec.priority)
            assert claimant.demanded


@given(cases(), st.randoms(use_true_random=False))
@LAWS
def test_order_of_input_changes_nothing(case: tuple[Manifest, World], rng: random.Random) -> None:
    manifest, world = case
    seen = world.observation

    def shuffled(items: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(rng.sample(items, len(items)))

    turned = replace(
        world,
        ledger=shuffled(world.ledger),
        observation=replace(
            seen,
            instances=shuffled(seen.instances),
            demands=shuffled(seen.demands),
            preflights=shuffled(seen.preflights),
        ),
    )
    assert plan(manifest, turned, NOW) == plan(manifest, world, NOW)


@given(cases())
@LAWS
def test_converges_in_a_bounded_number_of_steps(case: tuple[Manifest, World]) -> None:
    manifest, world = case
    bound = 2 * len(manifest.models) + len(world.observation.instances)
    for _ in range(bound + 1):
        head = plan(manifest, world, NOW).head
        if head is None:
            return
        world = perform(head, manifest, world)
    raise AssertionError(f"still acting after {bound} steps")


@given(cases())
@LAWS
def test_honest_after_the_head_the_new_plan_is_the_tail(case: tuple[Manifest, World]) -> None:
    manifest, world = case
    first = plan(manifest, world, NOW)
    if first.head is None:
        return
    second = plan(manifest, perform(first.head, manifest, world), NOW)
    assert [_essence(s) for s in second.steps] == [_essence(s) for s in first.steps[1:]]


def _essence(step: Load | Evict) -> tuple[object, ...]:
    """What a step does; a drained model is not busy any more, and its details tell other ages."""
    if isinstance(step, Load):
        return ("load", step.model, step.needs)
    return ("evict", step.model, step.pid, step.frees, step.for_model)


@given(cases())
@LAWS
def test_covers_no_victim_could_be_left_out(case: tuple[Manifest, World]) -> None:
    manifest, world = case
    for victim_at, step in enumerate(plan(manifest, world, NOW).steps):
        if not (isinstance(step, Evict) and step.reason is Reason.MAKE_ROOM):
            continue
        steps = plan(manifest, world, NOW).steps
        spared = [s for i, s in enumerate(steps) if i != victim_at]
        assert not _fits_up_to(step.for_model or "", spared, manifest, world), (
            f"{step.model} went for nothing"
        )


def _fits_up_to(claimant: str, steps: list[Load | Evict], manifest: Manifest, world: World) -> bool:
    for step in steps:
        if isinstance(step, Load) and step.model == claimant:
            before = charges(manifest, world)
            assert before is not None
            return before + step.needs <= limit(manifest, world)
        world = perform(step, manifest, world)
    raise AssertionError(f"victims left for {claimant}, which is not loaded")


@given(cases())
@LAWS
def test_no_priority_inversion_a_blocked_request_could_not_be_served_by_idle_models_it_may_displace(
    case: tuple[Manifest, World],
) -> None:
    """Except where what it would free is owed to a more urgent model that is blocked itself."""
    manifest, world = case
    first = plan(manifest, world, NOW)
    after = world
    for step in first.steps:
        after = perform(step, manifest, after)
    rows = compare(manifest, after, NOW).rows
    blocked = [r for r in rows if r.demanded and _blocked_for_room(first, r.name)]
    if not blocked:
        return
    row = max(blocked, key=lambda r: (r.pinned, r.spec.priority, -(r.demand.oldest or 1e12)))
    held, room = charges(manifest, after), limit(manifest, after)
    assert held is not None
    idle = sum(
        r.charge or 0
        for r in rows
        if r.instance is not None
        and r.instance.ready
        and not r.pinned
        and not r.busy
        and r is not row
        and r.spec.priority < row.spec.priority
        and may_displace(row, r.spec.priority)
        and NOW - r.instance.loaded_at >= r.spec.min_resident
        and r.instance.loaded_at < NOW
    )
    assert (row.need or 0) > room - held + idle


def _blocked_for_room(made: Plan, name: str) -> bool:
    verdict = made.verdict(name)
    return verdict is not None and verdict.reason in {
        Reason.INSUFFICIENT_MEMORY,
        Reason.VICTIMS_BUSY,
        Reason.OUTRANKED,
    }


@given(cases())
@LAWS
def test_every_model_has_one_verdict_and_every_step_a_reason(case: tuple[Manifest, World]) -> None:
    manifest, world = case
    made = plan(manifest, world, NOW)
    known = {m.name for m in manifest.models} | {i.model for i in world.observation.instances}
    assert [v.model for v in made.verdicts] == sorted(known)
    assert all(s.reason in Reason for s in made.steps)
    for verdict in made.verdicts:
        if verdict.outcome in {Outcome.LOAD, Outcome.RELOAD}:
            assert any(isinstance(s, Load) and s.model == verdict.model for s in made.steps)


@given(cases())
@LAWS
def test_nothing_is_stopped_for_a_model_that_cannot_be_started(case: tuple[Manifest, World]) -> None:
    manifest, world = case
    rows = {r.name: r for r in compare(manifest, world, NOW).rows}
    for step in plan(manifest, world, NOW).steps:
        if isinstance(step, Evict) and step.for_model is not None:
            assert unstartable(rows[step.for_model], NOW) is None
        if isinstance(step, Load):
            assert unstartable(rows[step.model], NOW) is None


@given(cases())
@LAWS
def test_unknown_memory_loads_nothing_and_displaces_nobody(case: tuple[Manifest, World]) -> None:
    manifest, world = case
    blind = replace(
        world, observation=replace(world.observation, memory=Memory(world.observation.memory.total, None))
    )
    rows = {r.name: r for r in compare(manifest, blind, NOW).rows}
    for step in plan(manifest, blind, NOW).steps:
        assert isinstance(step, Evict)
        row = rows.get(step.model)
        cleared = step.reason in (Reason.DUPLICATE, Reason.CRASHED)
        assert row is None or cleared or removal_reason(row, NOW) is not None


@given(cases())
@LAWS
def test_free_memory_is_told_and_never_negative(case: tuple[Manifest, World]) -> None:
    manifest, world = case
    made = plan(manifest, world, NOW)
    held = charges(manifest, world)
    if held is None:
        assert made.account.free is None
    elif made.account.free is not None:
        assert made.account.free == max(0, limit(manifest, world) - held)
