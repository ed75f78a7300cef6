"""What a model that waits is told: who really has the room it lacks."""

from dataclasses import replace

import pytest

from reconciler.core.machine import Evicting, Idle, Settling, State
from reconciler.core.plan import plan
from reconciler.core.types import Demand, Evict, Instance, Manifest, Plan, Reason, Verdict, World
from reconciler.core.underway import told
from worlds import NOW, manifest, model, perform, pinned, running, waiting, warm, world


def blocked(name: str, wanted: Manifest, seen: World) -> Verdict:
    found = plan(wanted, seen, NOW).verdict(name)
    assert found is not None
    return found


OTHERS = "pinned models and other programs hold the rest"


@pytest.mark.parametrize(
    ("seen", "detail"),
    [
        # The load of a is the next step of the same plan, or the one after its victim has left.
        (world(demands=[waiting("a", since=9), waiting("b")]), "50 MiB short: a is loaded first"),
        (
            world(running("c", 100), demands=[waiting("a", since=9), waiting("b")]),
            "50 MiB short: a is loaded first",
        ),
        (
            world(demands=[waiting("a", since=9), waiting("b"), waiting("s", since=8)]),
            "90 MiB short: s and a are loaded first",
        ),
        # It is being loaded already.
        (
            world(running("a", 100, ready=False), demands=[waiting("a", since=9), waiting("b")]),
            "50 MiB short: a is loaded first",
        ),
        # Somebody else has it, whoever of ours comes first.
        (world(demands=[waiting("b")], available_mib=30), f"70 MiB short: {OTHERS}"),
        (
            world(running("a", 100, ready=False), demands=[waiting("b")], available_mib=-60),
            f"160 MiB short: {OTHERS}, and a is loaded first",
        ),
    ],
)
def test_a_model_is_told_who_has_the_room_it_lacks(seen: World, detail: str) -> None:
    wanted = manifest(model("a"), model("b"), model("c"), model("s", 40), mib=150)
    verdict = blocked("b", wanted, seen)
    assert (verdict.reason, verdict.detail) == (Reason.INSUFFICIENT_MEMORY, detail)


def test_three_of_many_that_come_first_are_named() -> None:
    names = [f"m{number}" for number in range(6)]
    demands = [waiting(name, since=9 - number) for number, name in enumerate(reversed(names))]
    wanted = Manifest((*(model(name, 10) for name in names), model("z", 100)), memory=100 << 20, reserve=0)
    verdict = blocked("z", wanted, world(demands=[*demands, waiting("z")]))
    assert verdict.detail == "60 MiB short: m5, m4, m3 and 3 more are loaded first"


# -- models that were loaded a moment ago ------------------------------------------------------------------------------


def young(name: str, mib: int, age: float, **fields: object) -> Instance:
    return running(name, mib, loaded_at=NOW - age, **fields)  # type: ignore[arg-type]


KEPT = model("a", 900, min_resident=60.0, cooldown=100.0)


@pytest.mark.parametrize(
    ("there", "detail", "retry_in"),
    [
        (
            young("a", 900, 20.0),
            "800 MiB short until a has been in memory for its min_resident of 60s, another 40s",
            40.0,
        ),
        (
            young("a", 900, 20.0, returned=True),
            "800 MiB short until a has been in memory for its cooldown of 100s, another 80s",
            80.0,
        ),
    ],
)
def test_a_model_is_told_who_stays_because_it_was_just_loaded_and_until_when(
    there: Instance, detail: str, retry_in: float
) -> None:
    wanted, seen = manifest(KEPT, model("b", 900)), world(there, demands=[waiting("b")])
    verdict = blocked("b", wanted, seen)
    assert (verdict.reason, verdict.detail, verdict.retry_in) == (Reason.VICTIMS_KEPT, detail, retry_in)
    # Nothing else happens before then, and then it does: that is when the loop looks.
    at = NOW + retry_in
    assert (
        plan(
            wanted,
            replace(seen, observation=replace(seen.observation, demands=(Demand("b", wanted=True),))),
            NOW,
        ).changes_at
        == at
    )
    assert plan(wanted, seen, at - 0.01).head is None
    head = plan(wanted, seen, at).head
    assert isinstance(head, Evict)
    assert head.model == "a"


def test_it_waits_for_the_one_that_may_go_first_and_is_enough() -> None:
    """`c` may go before `a`, but is not enough; with `d`, which may go later than `a`, nobody has to wait."""
    wanted = manifest(
        KEPT, model("b", 500), model("c", 50, min_resident=30.0), model("d", 50, min_resident=90.0)
    )
    there = [young("a", 900, 20.0), young("c", 50, 20.0), young("d", 50, 20.0)]
    verdict = blocked("b", wanted, world(*there, demands=[waiting("b")]))
    assert (verdict.reason, verdict.retry_in) == (Reason.VICTIMS_KEPT, 40.0)
    assert "until a has" in verdict.detail


def test_one_that_is_in_use_longer_than_it_is_kept_is_waited_for_as_ever() -> None:
    wanted = manifest(model("a", 900, min_resident=12.0), model("b", 900))
    for age, reason in ((9.0, Reason.VICTIMS_BUSY), (1.0, Reason.VICTIMS_KEPT)):
        seen = world(young("a", 900, age), demands=[Demand("a", active=1), waiting("b", since=4.0)])
        assert blocked("b", wanted, seen).reason is reason


# -- of two who exclude each other -------------------------------------------------------------------------------------


def test_of_two_models_that_a_person_asks_for_at_once_the_second_does_not_take_the_place_of_the_first() -> (
    None
):
    wanted = manifest(model("a", 900), model("b", 900))
    wishes = [Demand("a", wanted=True, wished=NOW - 2), Demand("b", wanted=True, wished=NOW - 1)]
    first = world(demands=wishes)
    made = plan(wanted, first, NOW)
    assert [s.model for s in made.steps] == ["a"]
    assert blocked("b", wanted, first).detail == "800 MiB short: a is loaded first"
    assert made.head is not None
    after = perform(made.head, wanted, first)
    verdict = blocked("b", wanted, after)
    assert verdict.reason is Reason.VICTIMS_KEPT
    assert verdict.detail == (
        "800 MiB short and a was loaded after somebody asked for this one: `reconcile load b` again to have it instead"
    )
    # Who asks again, now that it is there, or has a request wait, means it.
    for again in (
        Demand("b", wanted=True, wished=NOW + 1),
        replace(waiting("b"), wanted=True, wished=NOW - 1),
    ):
        seen = replace(after, observation=replace(after.observation, demands=(again,)))
        assert [s.model for s in plan(wanted, seen, NOW + 2).steps] == ["a", "b"]


def test_one_that_was_loaded_while_another_waited_is_not_drained_for_it_at_once() -> None:
    wanted = manifest(model("a", 900), model("b", 900))
    demands = [Demand("a", active=1), waiting("b", since=30.0)]
    seen = world(young("a", 900, 4.0), demands=demands)
    assert blocked("b", wanted, seen).reason is Reason.VICTIMS_BUSY
    assert plan(wanted, seen, NOW).changes_at == NOW + 6.0
    steps = plan(wanted, seen, NOW + 6.0).steps
    assert [(s.model, isinstance(s, Evict) and s.drain) for s in steps] == [("a", True), ("b", False)]


# -- what is replaced --------------------------------------------------------------------------------------------------


def test_a_pinned_model_is_not_stopped_for_its_new_settings_if_another_one_would_take_its_place() -> None:
    """Without its process it would have to stand back behind `a`, and they do not fit together."""
    wanted = manifest(pinned("a", 600, priority=750), pinned("b", 500, digest="b-v2"))
    seen = world(running("b", 800))
    assert plan(wanted, seen, NOW).steps == ()
    verdict = blocked("b", wanted, seen)
    assert verdict.reason is Reason.NEVER_FITS
    beside = manifest(pinned("a", 200, priority=750), pinned("b", 500, digest="b-v2"))
    assert [s.model for s in plan(beside, seen, NOW).steps] == ["a", "b", "b"]


def test_who_is_displaced_by_a_load_that_leaves_room_for_it_comes_back_in_the_same_plan() -> None:
    wanted = manifest(model("a", 300, peak=950 << 20), warm("w", 400))
    made = plan(wanted, world(running("w", 400, idle=60.0), demands=[waiting("a")]), NOW)
    assert [(type(s).__name__, s.model) for s in made.steps] == [("Evict", "w"), ("Load", "a"), ("Load", "w")]
    rests = manifest(model("a", 300, peak=950 << 20), warm("w", 400, reload_after=30.0))
    made = plan(rests, world(running("w", 400, idle=60.0), demands=[waiting("a")]), NOW)
    assert [(type(s).__name__, s.model) for s in made.steps] == [("Evict", "w"), ("Load", "a")]


# -- what is being done already ----------------------------------------------------------------------------------------


def during(state: State, reason: Reason = Reason.VICTIMS_BUSY, model_name: str = "b") -> Verdict:
    """What `b` is told by a plan in which it is blocked, in some state of the loop."""
    wanted = manifest(model("a", 900), model("b", 900), model("c", 900))
    seen = world(running("a", 900), demands=[replace(waiting("a"), active=1), waiting("b"), waiting("c")])
    made: Plan = plan(wanted, seen, NOW)
    assert {v.reason for v in made.verdicts if v.model in "bc"} == {reason}
    found = told(made, state).verdict(model_name)
    assert found is not None
    return found


def test_who_waits_for_a_model_that_is_being_stopped_is_told_so() -> None:
    stop = Evict("a", 1, 1, 900, Reason.MAKE_ROOM, for_model="b")
    stopping = during(Evicting(stop, NOW, NOW + 9))
    assert (stopping.reason, stopping.detail) == (Reason.VICTIM_STOPPING, "waiting for a to stop")
    asleep = during(Evicting(replace(stop, sleep=True), NOW, NOW + 9))
    assert asleep.detail == "waiting for a to give its memory back"
    for other in (
        Idle(),
        Settling("a", None, NOW, NOW + 9),
        Evicting(replace(stop, for_model=None), NOW, NOW + 9),
    ):
        assert during(other).reason is Reason.VICTIMS_BUSY
    assert during(Evicting(stop, NOW, NOW + 9), model_name="c").reason is Reason.VICTIMS_BUSY
