"""What must hold of every plan, in every world: each test is one law, stated as a sentence."""

import random
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.core import book
from reconciler.core.diff import Fitness, Row, compare
from reconciler.core.leaving import removal_reason, unstartable
from reconciler.core.memory import Estimate, GpuPool, MappedFile, Memory, Said, Watermarks
from reconciler.core.plan import plan
from reconciler.core.pressure import Level, Pressure
from reconciler.core.reach import Pinned
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
from reconciler.core.victims import may_displace, rank
from worlds import MIB, NOW, perform

NAMES = ["a", "b", "c", "d", "e", "f"]
SIZES = st.sampled_from([0, 1, 5, 10, 20, 35, 50, 80])
#: `--hypothesis-profile=thorough` (see tests/conftest.py) looks at many more worlds.
LAWS = settings(deadline=None)


_DRAINS = [Reason.MAKE_ROOM, Reason.DISMISSED, Reason.DRIFTED, Reason.REMOVED]


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
        reload_after=draw(st.sampled_from([0.0, 0.0, 30.0])),
        min_resident=draw(st.sampled_from([0.0, 0.0, 30.0])),
        may_preempt=draw(
            st.sampled_from([MayPreempt.EQUAL, MayPreempt.EQUAL, MayPreempt.LOWER, MayPreempt.NONE])
        ),
        sleeps=draw(st.booleans()),
        restart_after=draw(st.sampled_from([None, None, None, 100.0])),
        restart_growth=draw(st.sampled_from([None, None, 10 * MIB])),
    )


@st.composite
def mapped(draw: st.DrawFn, *, whole: bool) -> tuple[MappedFile, ...]:
    """Some of three files; several models may name the same one, and not all of it need be resident."""
    keys = draw(st.sampled_from(["", "", "x", "x", "y", "z", "xy"]))
    part = 1 if whole else draw(st.sampled_from([1, 1, 2]))
    return tuple(MappedFile(k, {"x": 10, "y": 30, "z": 2}[k] * MIB // part) for k in keys)


@st.composite
def instances(draw: st.DrawFn, name: str, pid: int) -> Instance:
    age, used = draw(st.sampled_from([(1.0, 0.0), (40.0, 10.0), (40.0, 40.0), (500.0, 60.0), (500.0, 0.0)]))
    committed = draw(st.sampled_from([0, 1, 5, 10, 20, 35, 50, 80, 80, None]))
    files = draw(mapped(whole=False))
    # Some of them are out of the ordinary.
    odd = draw(st.integers(0, 15))
    asleep = draw(st.integers(0, 3)) == 0
    return Instance(
        model=name,
        digest=f"{name}-v1",
        pid=pid,
        started=1,
        port=18100,
        ready=odd not in (0, 1) and not asleep,
        asleep=asleep,
        sleepless=odd == 5,
        weights=draw(st.sampled_from(["", "w1", "w1"])),
        committed_at_ready=draw(st.none() | st.just(MIB)),
        committed=None if committed is None else committed * MIB,
        warm=sum(f.size for f in files) + (5 * MIB if odd > 10 else 0),
        loaded_at=NOW - age,
        last_used=min(NOW, NOW - age + used),
        served=draw(st.integers(0, 1)),
        broken=odd == 2,
        hung="it hangs" if odd == 6 and not asleep else "",
        admitted=draw(st.sampled_from([0, 0, 20, 80])) * MIB,
        files=files,
        device=(committed or 0) * MIB // 2 if odd in (3, 4) else 0,
    )


@st.composite
def preflights(draw: st.DrawFn, name: str) -> Preflight:
    if draw(st.integers(0, 7)) == 0:
        return Preflight(name, "WeightsMissing", "gone")
    files = draw(mapped(whole=True))
    build = draw(st.sampled_from(["", "b1", "b2"]))
    weights = draw(st.sampled_from(["", "w1", "w1", "w2"]))
    known = draw(st.sampled_from([None, (20, 5), (0, 0), (50, None), (None, 5)]))
    if known is None:
        return Preflight(name, files=files, build=build, weights=weights)
    context, compute = (None if part is None else part * MIB for part in known)
    parts = Estimate(sum(f.size for f in files), context, compute, loading=10 * MIB if build else 0)
    return Preflight(
        name, steady=parts.steady, peak=parts.peak, parts=parts, files=files, build=build, weights=weights
    )


@st.composite
def entries(draw: st.DrawFn, name: str) -> LedgerEntry:
    return LedgerEntry(
        name,
        f"{name}-v1",
        peak=draw(SIZES) * MIB,
        failures=1,
        retry_at=draw(st.none() | st.sampled_from([NOW - 1, NOW + 9])),
        build=draw(st.sampled_from(["", "b1"])),
        said=draw(st.none() | st.just(Said(context=20 * MIB)) | st.just(Said(context=MIB, compute=MIB))),
    )


CALM = Pressure()


@st.composite
def pressures(draw: st.DrawFn) -> Pressure:
    level = draw(st.sampled_from(list(Level)))
    relieving, evident = draw(st.sampled_from([(False, False), (True, False), (True, True)]))
    excess = draw(st.sampled_from([0, 1, 20, 60, 500])) * MIB
    return Pressure(level, 0.9, relieving, evident, excess=excess, cause="memory is in use")


@st.composite
def memories(draw: st.DrawFn) -> Memory:
    gpu = draw(st.none() | st.none() | st.builds(GpuPool, st.sampled_from([90 * MIB]), st.just(60 * MIB)))
    available = draw(st.sampled_from([0, 30, 100, 300, 300])) * MIB
    if draw(st.integers(0, 9)) == 0:
        return Memory(draw(st.sampled_from([None, 200 * MIB])), None)
    return Memory(draw(st.sampled_from([100, 200, 200])) * MIB, available, gpu=gpu)


@st.composite
def demands(draw: st.DrawFn, name: str, active: int, runs: bool) -> Demand:
    waits = draw(st.sampled_from([0, 0, 1, 3]))
    wanted = draw(st.sampled_from([False, False, False, True]))
    # Who is let wait at the gate, or holds, does so with a model that runs.
    kinds = [(0, 0, 0), (0, 0, 0), (0, 0, 0), (2, 0, 0), (0, 1, 0), (0, 0, 1)]
    gated, held, jobs = draw(st.sampled_from(kinds)) if runs else (0, 0, 0)
    return Demand(
        model=name,
        active=active,
        waiting=waits,
        oldest=NOW - draw(st.sampled_from([0.0, 1.0, 11.0])) if waits else None,
        wanted=wanted,
        wished=NOW - draw(st.sampled_from([0.0, 1.0, 40.0])) if wanted else None,
        # Whoever asks for a model takes the dismissal back, so the two never stand together.
        dismissed=not waits and not wanted and draw(st.sampled_from([False, False, True])),
        gated=gated,
        away=tuple(draw(st.lists(st.just("quick"), max_size=2))),
        held=held,
        jobs=jobs,
        # A drain was called off a moment ago: what the plan promises holds all the same.
        spared=draw(st.none() | st.sampled_from(_DRAINS)),
        closed=draw(st.none() | st.sampled_from([NOW - 5, NOW - 40])),
    )


@st.composite
def cases(draw: st.DrawFn, pressed: bool = False) -> tuple[Manifest, World]:
    named = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=6))
    up = draw(st.lists(st.sampled_from([*NAMES, "stray"]), max_size=6))
    models = tuple(draw(specs(n)) for n in sorted(named))
    processes = tuple(draw(instances(n, 100 + i)) for i, n in enumerate(up))
    awake = {p.model for p in processes if not p.asleep}
    wants = tuple(
        draw(demands(n, draw(st.integers(0, 2)) if n in awake else 0, n in awake))
        for n in sorted({*named, *up})
        if draw(st.booleans())
    )
    files = tuple(draw(preflights(n)) for n in named if draw(st.integers(0, 3)))
    ledger = _measured([draw(entries(n)) for n in named if draw(st.booleans())], processes)
    pressure = draw(pressures()) if pressed else CALM
    observation = Observation(1, NOW, draw(memories()), processes, wants, files, pressure=pressure)
    marks = draw(
        st.none() | st.just(Watermarks(0.5, 0.8, 0.95, 0.5)) | st.just(Watermarks(1.0, 1.0, 1.0, 1.0))
    )
    budget, kept = draw(st.sampled_from([50, 100, 120])) * MIB, draw(st.sampled_from([0, 0.1]))
    return Manifest(models, 1, budget, kept, watermarks=marks), World(observation, ledger)


def _measured(ledger: list[LedgerEntry], processes: tuple[Instance, ...]) -> tuple[LedgerEntry, ...]:
    """The ledger knows of every process the most it was seen to hold, and that with the present engine.

    One that sleeps held at least as much while it was awake.
    """
    known = {(e.model, e.digest): e for e in ledger}
    for process in processes:
        key = (process.model, process.digest)
        entry = known.get(key) or LedgerEntry(*key)
        known[key] = replace(
            book.measured(entry, replace(process, ready=process.ready or process.asleep)), build=""
        )
    return tuple(known.values())


Held = tuple[int, tuple[MappedFile, ...]]


def holders(manifest: Manifest, world: World) -> list[Held] | None:
    """What everything that runs is charged, and the files it maps; None if something could not be read."""
    table = compare(manifest, world, NOW)
    found = [(r.charge, r.held_files) for r in table.rows if r.instance is not None]
    found += [(r.sleeper.charge, r.sleeper.held_files) for r in table.rows if r.sleeper is not None]
    found += [(book.stray_charge(s), s.files) for s in table.strays]
    known = [(charge, files) for charge, files in found if charge is not None]
    return known if len(known) == len(found) else None


def together(held: list[Held]) -> int:
    """The account, worked out anew: the part each holds alone, and the largest opinion on each file, once."""
    whole: dict[str, int] = {}
    alone = 0
    for charge, files in held:
        left = charge
        for f in files:
            # Whoever states a smaller size than its files have is believed.
            size = min(f.size, left)
            whole[f.key] = max(size, whole.get(f.key, 0))
            left -= size
        alone += left
    return alone + sum(whole.values())


def charges(manifest: Manifest, world: World) -> int | None:
    """What everything that runs is charged together; None if something could not be read."""
    held = holders(manifest, world)
    return None if held is None else together(held)


def loading(name: str, manifest: Manifest, world: World) -> int | None:
    """What everything is charged together while one more model loads beside it; its own that sleeps becomes it."""
    rows = {r.name: r for r in compare(manifest, world, NOW).rows}
    row = rows[name]
    if row.sleeper is not None and row.sleeper.charge is not None:
        seen = world.observation
        others = tuple(i for i in seen.instances if i is not row.sleeper.instance)
        world = replace(world, observation=replace(seen, instances=others))
    held = holders(manifest, world)
    assert row.need is not None
    return None if held is None else together([*held, (row.need, row.files)])


def limit(manifest: Manifest, world: World) -> int:
    seen = world.observation
    return book.capacity(manifest, seen.memory, seen.instances) or 0


@given(cases() | cases(pressed=True))
@LAWS
def test_safe_no_load_passes_the_budget_at_any_step(case: tuple[Manifest, World]) -> None:
    manifest, world = case
    for step in plan(manifest, world, NOW).steps:
        if isinstance(step, Load):
            before, within = charges(manifest, world), loading(step.model, manifest, world)
            assert before is not None
            assert within is not None
            assert within <= limit(manifest, world)
            assert step.needs == max(0, within - before)
        world = perform(step, manifest, world)


@given(cases() | cases(pressed=True))
@LAWS
def test_a_step_frees_and_leaves_what_it_says(case: tuple[Manifest, World]) -> None:
    """A file that another process maps too does not come back, and is not needed twice."""
    manifest, world = case
    made = plan(manifest, world, NOW)
    for step in made.steps:
        before = charges(manifest, world)
        world = perform(step, manifest, world)
        after = charges(manifest, world)
        if before is None or after is None:
            continue
        if isinstance(step, Evict):
            assert step.frees == before - after
        if made.account.free is not None:
            assert step.free == max(0, limit(manifest, world) - after)


@given(cases())
@LAWS
def test_what_nobody_waits_for_is_loaded_only_below_the_soft_mark(case: tuple[Manifest, World]) -> None:
    manifest, world = case
    seen, marks = world.observation, manifest.watermarks
    soft = book.capacity(manifest, seen.memory, seen.instances, marks.soft if marks else 1.0)
    rows = {r.name: r for r in compare(manifest, world, NOW).rows}
    for step in plan(manifest, world, NOW).steps:
        if isinstance(step, Load) and step.reason is Reason.WARM and rows[step.model].instance is None:
            used = loading(step.model, manifest, world)
            assert used is not None
            assert step.needs == 0 or used <= (soft or 0)
        world = perform(step, manifest, world)


@given(cases(pressed=True))
@LAWS
def test_under_pressure_the_least_of_those_that_may_go_goes_first_and_nothing_is_loaded(
    case: tuple[Manifest, World],
) -> None:
    manifest, world = case
    pressure = world.observation.pressure
    rows = [r for r in compare(manifest, world, NOW).rows if r.instance is not None and r.instance.ready]
    critical = pressure.level is Level.CRITICAL
    may_go = [r for r in rows if not r.pinned and removal_reason(r, NOW) is None and (critical or not r.busy)]
    steps = plan(manifest, world, NOW).steps
    relief = [s.model for s in steps if s.reason is Reason.MEMORY_PRESSURE]
    reasons = [s.reason for s in steps if isinstance(s, Evict)]
    asleep = _may_be_displaced_asleep(manifest, world)
    order = [*(r.name for r in asleep), *(r.name for r in sorted(may_go, key=rank))]
    assert relief == order[: len(relief)]
    may_go = [*asleep, *may_go]
    if pressure.level >= Level.HARD or (pressure.relieving and may_go):
        assert not any(isinstance(s, Load) for s in steps)
    if pressure.level >= Level.SOFT:
        assert not any(
            isinstance(s, Load) and s.reason is Reason.WARM and _grows(s, manifest, world) for s in steps
        )
    if not (pressure.relieving and pressure.evident):
        assert not relief
    elif (
        may_go and world.observation.memory.available is not None and set(reasons) <= {Reason.MEMORY_PRESSURE}
    ):
        assert relief, "memory is short, and somebody could go"
    freed = [s.frees for s in steps if isinstance(s, Evict) and s.reason is Reason.MEMORY_PRESSURE]
    assert sum(freed[:-1]) < max(1, pressure.excess), "no more are named than what is known asks for"


def _may_be_displaced_asleep(manifest: Manifest, world: World) -> list[Row]:
    """Those that sleep and could be woken, the cheapest loss first; they are nobody's whom the manifest pins."""
    rows = [r.sleeper for r in compare(manifest, world, NOW).rows if r.sleeper is not None and not r.pinned]
    kept = [
        r
        for r in rows
        if r.fitness is Fitness.FRESH
        and r.spec.sleeps
        and not (r.demand.dismissed and not r.demand.waiting and not r.demand.wanted)
    ]
    return sorted(kept, key=lambda r: (r.spec.priority, r.demanded, _used(r), r.name))


def _used(row: Row) -> float:
    assert row.instance is not None
    return row.instance.last_used


def _grows(step: Load, manifest: Manifest, world: World) -> bool:
    """Whether it takes memory that no process of its own gives back for it."""
    row = next(r for r in compare(manifest, world, NOW).rows if r.name == step.model)
    return step.needs > 0 and row.instance is None


@given(cases(pressed=True))
@LAWS
def test_after_one_has_gone_for_pressure_there_must_be_new_evidence(case: tuple[Manifest, World]) -> None:
    manifest, world = case
    head = plan(manifest, world, NOW).head
    if head is not None and head.reason is Reason.MEMORY_PRESSURE:
        after = plan(manifest, perform(head, manifest, world), NOW)
        assert not any(s.reason is Reason.MEMORY_PRESSURE for s in after.steps)


@given(cases() | cases(pressed=True))
@LAWS
def test_safe_pinned_and_leased_models_are_no_victims(case: tuple[Manifest, World]) -> None:
    manifest, world = case
    rows = {r.name: r for r in compare(manifest, world, NOW).rows}
    serving = {d.model for d in world.observation.demands if d.in_use}
    for step in plan(manifest, world, NOW).steps:
        row = rows.get(step.model)
        if isinstance(step, Evict) and step.reason is Reason.REMOVED and step.model in serving:
            assert step.drain, "a model that was removed has leases like any other"
        if not isinstance(step, Evict) or row is None or row.instance is None or step.pid != row.instance.pid:
            continue
        if row.pinned:
            aged = step.reason is Reason.RESTART_DUE and not row.busy
            assert row.fitness is Fitness.DRIFTED or aged, "a pinned model leaves only to be replaced"
            assert any(isinstance(s, Load) and s.model == row.name for s in plan(manifest, world, NOW).steps)
        if row.demand.in_use:
            assert step.drain, "a model with a lease is drained, never just stopped"
        if row.demand.held:
            allowed = {Reason.DISMISSED, Reason.DRIFTED, Reason.MEMORY_PRESSURE}
            assert step.reason in allowed, "a model that is held makes room for nobody, and does not expire"


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


@given(cases() | cases(pressed=True))
@LAWS
def test_no_model_displaces_one_it_may_not(case: tuple[Manifest, World]) -> None:
    manifest, world = case
    rows = {r.name: r for r in compare(manifest, world, NOW).rows}
    for step in plan(manifest, world, NOW).steps:
        if isinstance(step, Evict) and step.reason is Reason.MAKE_ROOM:
            victim, claimant = rows[step.model], rows[step.for_model or ""]
            assert may_displace(claimant, victim.spec.priority)
            assert claimant.demanded


@given(cases() | cases(pressed=True), st.randoms(use_true_random=False))
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


@given(cases() | cases(pressed=True))
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
            within = loading(claimant, manifest, world)
            assert within is not None
            return within <= limit(manifest, world)
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
    # One whose own old process is in use has its turn after all others.
    row = max(
        blocked,
        key=lambda r: (not r.demand.in_use, r.pinned, r.spec.priority, -(r.demand.oldest or 1e12)),
    )
    if row.instance is not None and row.demand.in_use:
        return
    idle = {
        (r.instance.pid, r.instance.started)
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
    }
    stays = tuple(i for i in after.observation.instances if (i.pid, i.started) not in idle)
    without = replace(after, observation=replace(after.observation, instances=stays))
    within = loading(row.name, manifest, without)
    assert within is not None
    assert within > limit(manifest, after)


def _blocked_for_room(made: Plan, name: str) -> bool:
    verdict = made.verdict(name)
    return verdict is not None and verdict.reason in {
        Reason.INSUFFICIENT_MEMORY,
        Reason.VICTIMS_BUSY,
        Reason.OUTRANKED,
    }


@given(cases() | cases(pressed=True))
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


@given(cases() | cases(pressed=True))
@LAWS
def test_nothing_is_stopped_for_a_model_that_cannot_be_started(case: tuple[Manifest, World]) -> None:
    manifest, world = case
    rows = {r.name: r for r in compare(manifest, world, NOW).rows}
    for step in plan(manifest, world, NOW).steps:
        if isinstance(step, Evict) and step.for_model is not None:
            assert unstartable(rows[step.for_model], NOW) is None
        if isinstance(step, Load):
            assert unstartable(rows[step.model], NOW) is None


@given(cases() | cases(pressed=True))
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
        cleared = step.reason in (Reason.DUPLICATE, Reason.CRASHED, Reason.HUNG)
        if row is not None and row.sleeper is not None:  # it serves nobody, and cannot be woken any more
            cleared = cleared or step.reason in (Reason.DRIFTED, Reason.DISMISSED)
        assert row is None or cleared or removal_reason(row, NOW) is not None


@given(cases() | cases(pressed=True))
@LAWS
def test_free_memory_is_told_and_never_negative(case: tuple[Manifest, World]) -> None:
    manifest, world = case
    made = plan(manifest, world, NOW)
    held = charges(manifest, world)
    if held is None:
        assert made.account.free is None
    elif made.account.free is not None:
        assert made.account.free == max(0, limit(manifest, world) - held)


@given(cases() | cases(pressed=True))
@LAWS
def test_who_can_never_be_loaded_takes_the_hope_of_nobody(case: tuple[Manifest, World]) -> None:
    """A law: with a pinned model that can never be loaded taken out, all others are judged as with it."""
    wanted, seen = case
    table = compare(wanted, seen, NOW)
    budget = 100 * MIB
    reach = Pinned(table, budget, NOW)
    hopeless = {r.name for r in table.rows if r.pinned and r.instance is None and reach.short(r) > 0}
    rest = compare(Manifest(tuple(m for m in wanted.models if m.name not in hopeless)), seen, NOW)
    without = Pinned(rest, budget, NOW)
    for row in rest.rows:
        assert without.short(row) == reach.short(row)
