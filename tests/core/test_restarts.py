"""Processes that are replaced although nothing is wrong: for their age, for their growth, for new weights."""

from dataclasses import replace
from textwrap import dedent

import pytest

from reconciler.core.machine import CannotBegin, Evicting, Idle, begin
from reconciler.core.memory import Watermarks
from reconciler.core.plan import plan
from reconciler.core.pressure import Level, Pressure
from reconciler.core.restarts import GROWTH_PACE
from reconciler.core.types import (
    Demand,
    Evict,
    Instance,
    LedgerEntry,
    Manifest,
    ModelSpec,
    Preflight,
    Reason,
    World,
)
from worlds import MIB, NOW, manifest, model, perform, pinned, running, text, waiting, warm, world


def expect(wanted: Manifest, seen: World, lines: str) -> None:
    assert text(plan(wanted, seen, NOW)) == dedent(lines).strip()


#: Loaded an hour ago, and grown by 300 MiB since.
OLD = running("a", 400, 60, served=50, committed_at_ready=100 * MIB)
LIMITS = (
    ({"restart_after": 3600.0}, "restart due: loaded 60m ago"),
    ({"restart_requests": 50}, "restart due: served 50 requests"),
    ({"restart_growth": 299 * MIB}, "restart due: grew by 300 MiB since it was ready"),
)
SHORT_OF_IT = ({"restart_after": 3601.0}, {"restart_requests": 51}, {"restart_growth": 300 * MIB})


@pytest.mark.parametrize(("limit", "detail"), LIMITS)
@pytest.mark.parametrize("kind", [warm, pinned])
def test_one_that_is_wanted_is_replaced_in_one_plan(
    kind: type, limit: dict[str, object], detail: str
) -> None:
    wanted = manifest(kind("a", 400, **limit))
    reason = "Warm" if kind is warm else "Pinned"
    expect(wanted, world(OLD), f"- a frees 400 (RestartDue) -> 1000\n+ a needs 400 ({reason}) -> 600")
    verdict = plan(wanted, world(OLD), NOW).verdict("a")
    assert verdict is not None
    assert (verdict.outcome.value, verdict.reason, verdict.detail) == ("-/+", "RestartDue", detail)


@pytest.mark.parametrize(("limit", "detail"), LIMITS)
def test_one_that_nobody_asks_for_just_goes(limit: dict[str, object], detail: str) -> None:
    wanted = manifest(model("a", 400, **limit))
    expect(wanted, world(OLD), "- a frees 400 (RestartDue) -> 1000")
    step = plan(wanted, world(OLD), NOW).head
    assert isinstance(step, Evict)
    assert (step.detail, step.drain, step.sleep) == (detail, False, False)


@pytest.mark.parametrize(
    ("limit", "detail"),
    [
        ({"restart_after": 7200.0}, "restart due: loaded 2h ago"),
        ({"restart_requests": 51}, "restart due: served 51 requests"),
        ({"restart_growth": 299 * MIB}, "restart due: grew by 300 MiB since it was ready"),
    ],
)
def test_neither_sleep_nor_a_new_manager_makes_a_process_younger(
    limit: dict[str, object], detail: str
) -> None:
    woken = replace(OLD, loaded_at=NOW - 1, began=NOW - 7200, served=1, served_before=50)
    verdict = plan(manifest(warm("a", 400, **limit)), world(woken), NOW).verdict("a")
    assert verdict is not None
    assert verdict.detail == detail
    first = replace(woken, began=None, served_before=0)
    assert plan(manifest(warm("a", 400, **limit)), world(first), NOW).steps == ()


@pytest.mark.parametrize("limit", SHORT_OF_IT)
def test_nothing_is_due_before_its_limit(limit: dict[str, object]) -> None:
    assert plan(manifest(warm("a", 400, **limit)), world(OLD), NOW).steps == ()


@pytest.mark.parametrize(
    "use",
    [
        Demand("a", active=1),
        Demand("a", gated=1),
        Demand("a", held=1),
        Demand("a", jobs=1),
        Demand("a", away=("s",)),
        Demand("a", waiting=1, oldest=NOW),
    ],
    ids=["served", "at the gate", "held", "job", "away", "waiting"],
)
@pytest.mark.parametrize("kind", [warm, model, pinned])
def test_nothing_is_replaced_while_somebody_uses_it(kind: type, use: Demand) -> None:
    wanted = manifest(kind("a", 400, restart_after=9.0))
    assert plan(wanted, world(OLD, demands=[use]), NOW).steps == ()


@pytest.mark.parametrize(
    "hindrance",
    [
        {"preflights": [Preflight("a", "WeightsMissing", "gone")]},
        {"ledger": [LedgerEntry("a", "a-v1", failures=1, retry_at=NOW + 60)]},
        {"pressure": Pressure(Level.SOFT, 0.8, cause="80 % is in use")},
        {"available_mib": None},
    ],
    ids=["weights", "backing off", "pressure", "blind"],
)
@pytest.mark.parametrize("kind", [warm, pinned])
def test_what_could_not_be_started_again_serves_on(kind: type, hindrance: dict[str, object]) -> None:
    wanted = manifest(kind("a", 400, restart_after=9.0), marks=Watermarks())
    made = plan(wanted, world(OLD, **hindrance), NOW)  # type: ignore[arg-type]
    assert made.steps == ()
    assert made.verdict("a").outcome.value == "="  # type: ignore[union-attr]


def test_a_restart_displaces_nobody_and_takes_nothing_that_somebody_waits_for() -> None:
    peak = manifest(warm("a", 400, peak=700 * MIB, restart_after=9.0), model("b", 500))
    expect(peak, world(OLD, running("b", 500)), "= a (Warm)\n= b (Resident)")
    blocked = manifest(warm("a", 400, priority=900, restart_after=9.0), model("b", 700))
    expect(blocked, world(OLD, demands=[waiting("b")]), "= a (Warm)\n! b (Outranked)")


def test_when_a_restart_is_due_is_known_before() -> None:
    seen = world(running("a", 400, loaded_at=NOW - 100, committed_at_ready=0))
    assert plan(manifest(warm("a", restart_after=500.0)), seen, NOW).changes_at == NOW + 400
    grown = manifest(warm("a", restart_growth=MIB))
    assert plan(grown, seen, NOW).changes_at == NOW - 100 + GROWTH_PACE
    assert plan(manifest(warm("a", restart_requests=1)), world(), NOW).changes_at is None


def test_one_that_grows_right_after_its_load_is_not_loaded_and_stopped_in_turns() -> None:
    wanted = manifest(warm("a", restart_growth=MIB))
    for age, steps in ((GROWTH_PACE - 1, 0), (GROWTH_PACE, 2)):
        seen = world(running("a", 400, loaded_at=NOW - age, committed_at_ready=0))
        assert len(plan(wanted, seen, NOW).steps) == steps


def test_growth_that_cannot_be_known_replaces_nothing() -> None:
    wanted = manifest(warm("a", restart_growth=0))
    assert plan(wanted, world(running("a", 400)), NOW).steps == ()
    assert not any(
        s.reason is Reason.RESTART_DUE
        for s in plan(wanted, world(running("a", None, committed_at_ready=0)), NOW).steps
    )


@pytest.mark.parametrize(
    ("was", "is_now", "replaced"),
    [("w1", "w2", True), ("w1", "w1", False), ("", "w2", False), ("w1", "", False)],
)
@pytest.mark.parametrize("kind", [warm, pinned])
def test_replaced_weights_are_drift_once_they_are_known(
    kind: type, was: str, is_now: str, replaced: bool
) -> None:
    seen = world(running("a", 400, weights=was), preflights=[Preflight("a", weights=is_now)])
    made = plan(manifest(kind("a", 400)), seen, NOW)
    assert bool(made.steps) is replaced
    if replaced:
        verdict = made.verdict("a")
        assert verdict is not None
        assert (verdict.outcome.value, verdict.reason) == ("-/+", "Drifted")
        assert verdict.detail == "its weights were replaced"


@pytest.mark.parametrize(
    ("was", "is_now", "detail"),
    [
        ("+c1", "+c2", "its class was edited"),
        ("w1+c1", "w1+c2", "its class was edited"),
        ("w1+c1", "w2+c2", "its weights were replaced"),
        ("+c1", "+c1", None),
        ("w1", "w1+c1", None),
    ],
)
def test_an_edited_class_is_drift_like_replaced_weights(was: str, is_now: str, detail: str | None) -> None:
    seen = world(running("a", 400, weights=was), preflights=[Preflight("a", weights=is_now)])
    made = plan(manifest(warm("a", 400)), seen, NOW)
    assert bool(made.steps) is (detail is not None)
    verdict = made.verdict("a")
    assert verdict is not None
    assert detail is None or verdict.detail == detail


def test_weights_that_cannot_be_loaded_replace_nothing() -> None:
    broken = Preflight("a", "WeightsBroken", "half a file", weights="w2")
    made = plan(manifest(warm("a", 400)), world(running("a", 400, weights="w1"), preflights=[broken]), NOW)
    assert made.steps == ()
    assert made.verdict("a").outcome.value == "="  # type: ignore[union-attr]


def test_what_was_measured_with_other_weights_says_nothing_of_these() -> None:
    known = [LedgerEntry("a", "a-v1", peak=900 * MIB, weights="w1")]
    old = world(demands=[waiting("a")], ledger=known, preflights=[Preflight("a", weights="w1")])
    new = world(demands=[waiting("a")], ledger=known, preflights=[Preflight("a", weights="w2")])
    expect(manifest(model("a", 400)), old, "+ a needs 900 (Demanded) -> 100")
    expect(manifest(model("a", 400)), new, "+ a needs 400 (Demanded) -> 600")


def due(spec: ModelSpec, instance: Instance, preflight: Preflight) -> None:
    wanted, seen = manifest(spec), world(instance, preflights=[preflight])
    made = plan(wanted, seen, NOW)
    assert isinstance(begin(Idle(), made, seen, {"a": spec}, NOW), Evicting)
    after = perform(made.steps[0], wanted, seen)
    assert [s.model for s in plan(wanted, after, NOW).steps] == ["a"]


def test_a_pinned_model_may_be_stopped_for_either_and_for_nothing_else() -> None:
    due(pinned("a", 400, restart_after=9.0), OLD, Preflight("a"))
    due(pinned("a", 400), running("a", 400, weights="w1"), Preflight("a", weights="w2"))
    spec = pinned("a", 400)
    seen = world(OLD)
    room = plan(manifest(model("a", 400), model("b", 900)), world(OLD, demands=[waiting("b")]), NOW)
    with pytest.raises(CannotBegin, match="a is pinned"):
        begin(Idle(), room, seen, {"a": spec}, NOW)


def test_jobs_are_told_and_keep_a_model() -> None:
    wanted = manifest(model("a", 800, idle_ttl=9.0), model("b", 900))
    seen = world(running("a", 800, 60), demands=[Demand("a", jobs=1), waiting("b")])
    made = plan(wanted, seen, NOW)
    assert made.steps == ()
    assert made.verdict("a").detail == "1 job being worked on"  # type: ignore[union-attr]
    patient = world(running("a", 800, 60), demands=[Demand("a", jobs=2, active=1), waiting("b", since=11.0)])
    step = plan(wanted, patient, NOW).head
    assert isinstance(step, Evict)
    assert step.drain
