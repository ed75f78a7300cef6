"""What must hold of every load that nobody waits for: when it is begun, how often, and who goes for it."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.core import prewarms
from reconciler.core.plan import plan
from reconciler.core.types import (
    Chance,
    Demand,
    Evict,
    Instance,
    LedgerEntry,
    Load,
    Manifest,
    ModelSpec,
    Plan,
    Policy,
    Prewarm,
    Prewarms,
    Reason,
    Residency,
    World,
)
from worlds import MIB, NOW, manifest, model, perform, running, waiting, warm, world

NAMES = "abcde"
BUDGET = 100
MINUTE, HOUR = 60.0, 3600.0


def desk(
    *models: ModelSpec, mode: Prewarm = Prewarm.FULL, per_hour: int = 20, policy: Policy = Policy.COST
) -> Manifest:
    return replace(manifest(*models, mib=BUDGET), prewarm=mode, prewarm_per_hour=per_hour, policy=policy)


def seen(
    *instances: Instance,
    demands: tuple[Demand, ...] = (),
    ago: tuple[float, ...] = (),
    again_in: float | None = None,
    **returns: float,
) -> World:
    """A world in which each model of `returns` is used again as soon as that says.

    Loads in advance were begun so many seconds `ago`; `a` is not loaded so for another `again_in` seconds.
    """
    chances = tuple(Chance(name, chance) for name, chance in sorted(returns.items()))
    until = () if again_in is None else (("a", NOW + again_in),)
    known = Prewarms(tuple(NOW - seconds for seconds in ago), until)
    return replace(world(*instances, demands=demands), chances=chances, prewarms=known)


def ahead(made: Plan) -> Load | None:
    """Return the load in advance of a plan."""
    found = [s for s in made.steps if isinstance(s, Load) and s.reason is Reason.PREWARM]
    assert len(found) <= 1
    return found[0] if found else None


# -- in any world ------------------------------------------------------------------------------------------------------


@st.composite
def specs(draw: st.DrawFn, name: str) -> ModelSpec:
    return model(
        name,
        draw(st.sampled_from([30, 40, 50])),
        priority=draw(st.sampled_from([250, 500, 500, 500, 750])),
        residency=draw(st.sampled_from([Residency.ON_DEMAND] * 30 + list(Residency))),
        min_resident=draw(st.sampled_from([0.0, 0.0, 0.0, 4000.0])),
    )


def asking(name: str) -> st.SearchStrategy[Demand]:
    """Mostly nobody; else one who is served or holds it, or, more rarely, who waits."""
    kinds = [Demand(name)] * 30 + [
        *[Demand(name, active=1), Demand(name, held=1), Demand(name, jobs=1)] * 2,
        Demand(name, gated=1),
        Demand(name, wanted=True),
        Demand(name, dismissed=True),
        waiting(name),
        waiting(name, since=20.0),
    ]
    return st.sampled_from(kinds)


@st.composite
def lately(draw: st.DrawFn) -> Prewarms:
    ago = draw(
        st.sampled_from([(), (), (60.0,), (59.0,), (3601.0, 3600.5), (3599.0, 60.0), (300.0, 200.0, 61.0)])
    )
    until = draw(st.sampled_from([(), (), (("a", NOW + 1),), (("a", NOW - 1), ("b", NOW + 9))]))
    return Prewarms(tuple(NOW - seconds for seconds in ago), until)


@st.composite
def situations(draw: st.DrawFn) -> tuple[Manifest, World]:
    """A desk and its world; three in four have leisure: nothing was begun lately, and one model at most is used."""
    models = tuple(draw(specs(name)) for name in NAMES)
    instances: list[Instance] = []
    room = BUDGET
    for spec in draw(st.permutations(models)):
        size = (spec.steady or 0) // MIB
        if size <= room and draw(st.integers(0, 3)):
            room -= size
            idle = draw(st.sampled_from([60.0, 400.0, 3000.0, 0.0, 59.0]))
            instances.append(running(spec.name, size, idle))
    chances = st.sampled_from([0.0, 0.04, 0.2, 0.5, 0.9])
    likely = tuple(Chance(name, draw(chances)) for name in NAMES if draw(st.integers(0, 5)))
    leisure = draw(st.integers(0, 3)) > 0
    busy = {draw(st.sampled_from(NAMES))} if leisure else set(NAMES)
    asked = tuple(draw(asking(name)) if name in busy else Demand(name) for name in NAMES)
    if leisure:
        wanted, known = desk(*models, mode=draw(st.sampled_from([Prewarm.FULL, Prewarm.FREE]))), Prewarms()
    else:
        known = draw(lately())
        wanted = desk(
            *models,
            mode=draw(st.sampled_from(list(Prewarm))),
            per_hour=draw(st.sampled_from([20, 1, 2, 0])),
            policy=draw(st.sampled_from(list(Policy))),
        )
    there = replace(seen(*instances, demands=asked), chances=likely, prewarms=known)
    return wanted, there


@given(situations())
def test_it_is_begun_only_while_nobody_waits_and_not_too_often(situation: tuple[Manifest, World]) -> None:
    wanted, there = situation
    made = plan(wanted, there, NOW)
    load = ahead(made)
    if load is None:
        return
    assert wanted.prewarm is not Prewarm.OFF
    assert made.steps[-1] is load
    assert not any(d.waiting or d.wanted or d.gated for d in there.observation.demands)
    begun = there.prewarms.begun
    assert not begun or NOW - begun[-1] >= MINUTE
    assert sum(NOW - at < HOUR for at in begun) < wanted.prewarm_per_hour
    assert dict(there.prewarms.until).get(load.model, 0.0) <= NOW
    assert load.model in {c.model for c in there.chances}
    assert not any(d.dismissed for d in there.observation.demands if d.model == load.model)


@given(situations())
def test_free_evicts_nobody_and_full_nobody_who_is_used_or_kept(situation: tuple[Manifest, World]) -> None:
    wanted, there = situation
    made = plan(wanted, there, NOW)
    load, specs_by_name = ahead(made), {m.name: m for m in wanted.models}
    demanded = {d.model: d for d in there.observation.demands}
    gone = [s for s in made.steps if isinstance(s, Evict)]
    for step in gone:
        if step.reason is not Reason.LESS_LIKELY:
            assert load is None or step.for_model is None
            continue
        assert wanted.prewarm is Prewarm.FULL
        assert load is not None
        assert step.for_model == load.model
        spec, victim = specs_by_name[step.model], demanded[step.model]
        assert NOW - step.last_used >= MINUTE
        assert spec.residency not in (Residency.PINNED, Residency.WARM)
        assert spec.priority <= specs_by_name[load.model].priority
        assert not victim.in_use
        assert victim.waiting == 0
        assert not step.drain
    if load is not None and wanted.prewarm is Prewarm.FREE:
        assert gone == []


@given(situations())
def test_what_goes_for_it_goes_for_a_load_that_is_begun_next(situation: tuple[Manifest, World]) -> None:
    wanted, there = situation
    load = ahead(plan(wanted, there, NOW))
    for _ in range(2 * len(NAMES)):
        made = plan(wanted, there, NOW)
        assert (found := ahead(made)) is None or load is None or found.model == load.model
        if load is None or isinstance(made.head, Load):
            break
        assert made.head is not None
        there = perform(made.head, wanted, there)
    assert load is None or made.head == ahead(made)


# -- over hours --------------------------------------------------------------------------------------------------------


# At most 52: a look each ten seconds, and the newest model counts as used for a minute, so that each takes 70 s.
@pytest.mark.parametrize(("per_hour", "most"), [(20, 20), (3, 3), (60, 52), (0, 0)])
def test_however_habits_change_it_keeps_its_pace(per_hour: int, most: int) -> None:
    wanted = desk(*(model(name, 60) for name in "abc"), per_hour=per_hour)
    there, known, begun = seen(), Prewarms(), list[float]()
    # Three hours, a look each ten seconds, and each time another model is the likeliest.
    for turn in range(1080):
        now = NOW + 10.0 * turn
        returns = {name: 0.9 if turn % 3 == place else 0.05 for place, name in enumerate("abc")}
        chances = tuple(Chance(name, chance) for name, chance in sorted(returns.items()))
        there = replace(
            there, observation=replace(there.observation, at=now), chances=chances, prewarms=known
        )
        while (step := plan(wanted, there, now).head) is not None:
            if isinstance(step, Load):
                known = prewarms.begun(known, now)
                begun.append(now)
            there = replace(perform(step, wanted, there), prewarms=known)
    gaps = [later - earlier for earlier, later in pairwise(begun)]
    assert min(gaps, default=MINUTE) >= MINUTE
    hours = [sum(at <= other < at + HOUR for other in begun) for at in begun]
    assert max(hours, default=0) == most


# -- in plain cases ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "there", "steps"),
    [
        (Prewarm.FREE, seen(a=0.5), ["load a"]),
        (Prewarm.OFF, seen(a=0.5), []),
        (Prewarm.FREE, seen(a=0.01), []),  # hardly likely
        (Prewarm.FREE, seen(), []),  # nothing is known
        (Prewarm.FREE, seen(a=0.5, ago=(61.0, 60.0)), ["load a"]),
        (Prewarm.FREE, seen(a=0.5, ago=(61.0, 59.0)), []),  # at most one a minute
        (Prewarm.FREE, seen(a=0.5, ago=tuple(3599.0 - n for n in range(20))), []),  # and twenty an hour
        (Prewarm.FREE, seen(a=0.5, ago=(3601.0, *(3599.0 - n for n in range(19)))), ["load a"]),
        (Prewarm.FREE, seen(a=0.5, again_in=1.0), []),  # it was in vain
        (Prewarm.FREE, seen(a=0.5, again_in=-1.0), ["load a"]),
        (Prewarm.FREE, seen(running("b", 60, 900), demands=(Demand("b", gated=1),), a=0.5), []),
        (Prewarm.FREE, seen(demands=(Demand("a", dismissed=True),), a=0.5), []),
        (Prewarm.FREE, seen(running("b", 30, 900), demands=(waiting("p"),), a=0.5), ["load p"]),
        (Prewarm.FREE, seen(running("b", 60, 900), a=0.9, b=0.01), []),  # no room
        (Prewarm.FULL, seen(running("b", 60, 900), a=0.9, b=0.01), ["evict b for a", "load a"]),
        (Prewarm.FULL, seen(running("b", 60, 59), a=0.9, b=0.01), []),  # used a moment ago
        (Prewarm.FULL, seen(running("b", 60, 900), a=0.5, b=0.4), []),  # not clearly better
        (Prewarm.FULL, seen(running("w", 60, 900), a=0.9, w=0.0), []),  # it is warm
        (Prewarm.FULL, seen(running("v", 60, 900), a=0.9, v=0.0), []),  # of a higher priority
        (Prewarm.FULL, seen(running("b", 60, 900), demands=(Demand("b", held=1),), a=0.9, b=0.0), []),
        (Prewarm.FULL, seen(running("b", 60, 900), demands=(Demand("b", active=1),), a=0.9, b=0.0), []),
    ],
)
def test_who_comes_and_who_goes(mode: Prewarm, there: World, steps: list[str]) -> None:
    """`a` and `b` take 60 of 100 MiB each, `p` 40; of the others one is there where a case says so."""
    models = [model("a", 60), model("b", 60), model("p", 40), model("v", 60, priority=501), warm("w", 60)]
    there_is = {i.model for i in there.observation.instances}
    wanted = desk(*(m for m in models if m.name in "abp" or m.name in there_is), mode=mode)
    told = [
        f"load {s.model}" if isinstance(s, Load) else f"evict {s.model} for {s.for_model}"
        for s in plan(wanted, there, NOW).steps
    ]
    assert told == steps


@pytest.mark.parametrize(
    ("mode", "idle", "ago", "looks"),
    [
        (Prewarm.FULL, 59.0, (), 1.0),
        (Prewarm.FULL, 20.3, (), 39.7),
        (Prewarm.FULL, 59.0, (10.0,), 50.0),  # at most one a minute
        (Prewarm.FULL, 900.0, (), 60.0),
        (Prewarm.FREE, 59.0, (), None),  # nobody ever makes way
    ],
)
def test_it_is_looked_at_when_a_model_comes_to_rest(
    mode: Prewarm, idle: float, ago: tuple[float, ...], looks: float | None
) -> None:
    wanted = desk(model("a", 60), model("b", 60), mode=mode)
    b = running("b", 60, idle)
    at = plan(wanted, seen(b, ago=ago, a=0.9, b=0.5 if idle > 60.0 else 0.01), NOW).changes_at
    assert at == (None if looks is None else pytest.approx(NOW + looks))
    if at is not None and idle < 60.0 and not ago:
        assert ahead(plan(wanted, seen(b, a=0.9, b=0.01), at)) is not None


def asleep(name: str, mib: int, idle: float) -> Instance:
    return running(name, mib, idle, ready=False, asleep=True)


def told(wanted: Manifest, there: World) -> list[str]:
    """The steps of a plan: who is loaded, and who sleeps, or is stopped, for whom."""
    return [
        f"load {s.model}" if isinstance(s, Load) else f"{'sleep' if s.sleep else 'stop'} {s.model}"
        for s in plan(wanted, there, NOW).steps
    ]


def test_who_can_give_its_memory_back_sleeps_for_it_and_is_stopped_only_if_that_was_not_enough() -> None:
    wanted = desk(model("a", 60), model("b", 60, sleeps=True))
    assert told(wanted, seen(running("b", 60, 900), a=0.9, b=0.01)) == ["sleep b", "load a"]
    assert told(wanted, seen(asleep("b", 40, 900), a=0.9, b=0.01)) == ["load a"]
    assert told(wanted, seen(asleep("b", 41, 900), a=0.9, b=0.01)) == ["stop b", "load a"]
    # It is likelier to be used than that: what it holds lets it wake quickly.
    assert told(wanted, seen(asleep("b", 41, 900), a=0.5, b=0.4)) == []


@pytest.mark.parametrize("policy", list(Policy))
def test_what_sleeps_goes_for_it_before_any_that_serves(policy: Policy) -> None:
    """`c` is of less use than `b` and would do, but `b` serves nobody."""
    wanted = desk(model("a", 60), model("b", 40, sleeps=True), model("c", 40), policy=policy)
    there = seen(asleep("b", 40, 900), running("c", 40, 900), a=0.9, b=0.05, c=0.01)
    assert told(wanted, there) == ["stop b", "load a"]
    serving = seen(running("b", 40, 900), running("c", 40, 900), a=0.9, b=0.05, c=0.01)
    assert told(wanted, serving) == ["stop c", "load a"]


@pytest.mark.parametrize(("failures", "comes"), [(0, "a"), (1, "b")])
def test_what_failed_to_load_is_left_for_whoever_asks_for_it(failures: int, comes: str) -> None:
    failed = LedgerEntry("a", "a-v1", failures=failures, retry_at=NOW - 1)
    there = replace(seen(a=0.9, b=0.5), ledger=(failed,))
    found = ahead(plan(desk(model("a", 60), model("b", 60)), there, NOW))
    assert found is not None
    assert found.model == comes


def test_what_is_warm_comes_before_what_is_only_likely() -> None:
    """`w` lacks room and displaces nobody: what went for `a` would be taken by `w`."""
    wanted = desk(model("a", 30), model("e", 50), model("b", 30), warm("w", 30))
    there = seen(running("b", 30, 900), running("e", 50, 900), a=0.9, b=0.0, e=0.0)
    assert plan(wanted, there, NOW).steps == ()
