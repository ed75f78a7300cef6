"""Models that are held by a lease from outside, requests at a gate, and models that rest after they were unloaded."""

from textwrap import dedent

import pytest

from reconciler.core.plan import plan
from reconciler.core.pressure import Level, Pressure
from reconciler.core.types import Demand, Evict, ModelSpec, Outcome, Reason, Residency, Verdict, World
from worlds import MIB, NOW, manifest, model, pinned, running, text, waiting, warm, world


def planned(*models: ModelSpec, seen: World) -> str:
    return text(plan(manifest(*models), seen, NOW))


def verdict(name: str, *models: ModelSpec, seen: World) -> Verdict:
    found = plan(manifest(*models), seen, NOW).verdict(name)
    assert found is not None
    return found


def expect(actual: str, wanted: str) -> None:
    assert actual == dedent(wanted).strip()


GATED, HELD = Demand("a", gated=3), Demand("a", held=1)


@pytest.mark.parametrize("since", [1.0, 9.9, 10.0, 9000.0])
def test_a_held_model_makes_room_for_nobody_however_long_he_waits(since: float) -> None:
    seen = world(running("a", 900), demands=[HELD, waiting("b", since=since)])
    expect(planned(model("a", 900), model("b", 500), seen=seen), "= a (InUse)\n! b (VictimsBusy)")
    blocked = verdict("b", model("a", 900), model("b", 500), seen=seen)
    assert blocked.detail == "400 MiB short until the lease on a ends"


def test_not_even_for_a_pinned_one_but_others_that_suffice_go_instead() -> None:
    seen = world(running("a", 500), running("c", 400), demands=[HELD])
    expect(
        planned(model("a", 500), model("c", 400), pinned("p", 450), seen=seen),
        """
        - c frees 400 (MakeRoom for p) -> 500
        + p needs 450 (Pinned) -> 50
        = a (InUse)
        """,
    )
    assert "p (VictimsBusy)" in planned(model("a", 500), model("c", 400), pinned("p", 800), seen=seen)


def test_requests_at_the_gate_protect_a_model_as_long_as_patience_lasts() -> None:
    models = (model("a", 900), model("b", 500))
    early = world(running("a", 900), demands=[GATED, waiting("b", since=9.9)])
    expect(planned(*models, seen=early), "= a (InUse)\n! b (VictimsBusy)")
    late = world(running("a", 900), demands=[GATED, waiting("b", since=10.0)])
    assert planned(*models, seen=late).startswith("- a frees 900 (MakeRoom for b, drain)")


@pytest.mark.parametrize("demand", [GATED, HELD])
@pytest.mark.parametrize(
    "spec", [model("a", idle_ttl=60.0), model("a", residency=Residency.TRANSIENT)], ids=["ttl", "transient"]
)
def test_what_is_in_use_does_not_expire(spec: ModelSpec, demand: Demand) -> None:
    seen = world(running("a", 100, idle=9000), demands=[demand])
    expect(planned(spec, seen=seen), "= a (InUse)")
    assert planned(spec, seen=world(running("a", 100, idle=9000))).startswith("- a frees 100")


AWAY = Demand("a", away=("quick", "quick"))


@pytest.mark.parametrize(
    "spec", [model("a", idle_ttl=60.0), model("a", residency=Residency.TRANSIENT)], ids=["ttl", "transient"]
)
def test_a_model_does_not_expire_while_a_request_of_it_waits_for_a_summary(spec: ModelSpec) -> None:
    seen = world(running("a", 100, idle=9000), demands=[AWAY])
    got = plan(manifest(spec), seen, NOW)
    assert got.steps == ()
    assert got.verdicts[0].detail.endswith("; 2 requests wait for a summary by quick")
    # Its end wakes nobody: the loop looks again by itself.
    assert (plan(manifest(spec), seen, NOW).changes_at is not None) == (spec.idle_ttl is not None)


def test_but_it_makes_room_at_once_for_the_model_that_writes_the_summary() -> None:
    models = (model("a", 900), model("quick", 900))
    seen = world(running("a", 900), demands=[AWAY, waiting("quick", since=0.0)])
    assert planned(*models, seen=seen).startswith("- a frees 900 (MakeRoom for quick)")
    # Nor is it loaded for that before the request asks for it again.
    there = world(running("quick", 900), demands=[AWAY, Demand("quick", active=1)])
    got = plan(manifest(*models), there, NOW)
    assert got.steps == ()
    assert "2 requests wait for a summary by quick" in got.verdicts[0].detail


@pytest.mark.parametrize(
    "demand", [Demand("a", gated=3, dismissed=True), Demand("a", held=1, dismissed=True)]
)
def test_a_person_may_dismiss_it_and_it_is_drained(demand: Demand) -> None:
    seen = world(running("a", 100), demands=[demand])
    expect(planned(model("a"), seen=seen), "- a frees 100 (Dismissed, drain) -> 1000")


def test_new_settings_drain_a_held_model() -> None:
    seen = world(running("a", 100), demands=[HELD])
    assert planned(model("a", digest="a-v2"), seen=seen) == "- a frees 100 (Drifted, drain) -> 1000"


def test_a_removed_model_that_is_held_is_drained() -> None:
    seen = world(running("a", 100), demands=[HELD])
    assert planned(seen=seen) == "- a frees 100 (Removed, drain) -> 1000"


@pytest.mark.parametrize(("level", "goes"), [(Level.HARD, False), (Level.CRITICAL, True)])
def test_only_critical_pressure_ends_a_lease(level: Level, goes: bool) -> None:
    short = Pressure(level, 0.9, relieving=True, evident=True, excess=MIB, cause="memory is in use")
    made = plan(manifest(model("a")), world(running("a", 100), demands=[HELD], pressure=short), NOW)
    assert [(s.reason, s.drain) for s in made.steps if isinstance(s, Evict)] == (
        [(Reason.MEMORY_PRESSURE, True)] if goes else []
    )


@pytest.mark.parametrize(
    ("demand", "words"),
    [
        (Demand("a", active=1), "1 request being served"),
        (Demand("a", active=2, gated=1), "2 requests being served, 1 request at the gate"),
        (GATED, "3 requests at the gate"),
        (HELD, "held by 1 lease"),
        (Demand("a", active=1, held=2), "1 request being served, held by 2 leases"),
    ],
)
def test_the_verdict_says_who_uses_it(demand: Demand, words: str) -> None:
    found = verdict("a", model("a"), seen=world(running("a", 100), demands=[demand]))
    assert (found.outcome, found.reason, found.detail) == (Outcome.KEEP, Reason.IN_USE, words)


# -- resting -----------------------------------------------------------------------------------------------------------


def asked(closed: float | None, **fields: object) -> Demand:
    values = {"waiting": 2, "oldest": NOW - 1, "closed": None if closed is None else NOW - closed}
    return Demand("a", **(values | fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("closed", "starts"), [(0.0, False), (29.9, False), (30.0, True), (500.0, True), (None, True)]
)
def test_requests_wait_in_line_for_a_while_after_an_unload(closed: float | None, starts: bool) -> None:
    spec, seen = model("a", reload_after=30.0), world(demands=[asked(closed)])
    expect(planned(spec, seen=seen), "+ a needs 100 (Demanded) -> 900" if starts else "! a (Resting)")
    if closed is None or starts:
        assert plan(manifest(spec), seen, NOW).changes_at in (None, NOW + 9)
        return
    found = verdict("a", spec, seen=seen)
    assert found.retry_in == pytest.approx(30 - closed)
    assert "not loaded again for another" in found.detail
    # Sooner than that the oldest request is old enough to have a busy model drained.
    assert plan(manifest(spec), seen, NOW).changes_at == pytest.approx(NOW + min(9, 30 - closed))


@pytest.mark.parametrize(
    ("spec", "demand"),
    [
        (pinned("a", reload_after=30.0), asked(1.0)),
        (model("a", reload_after=30.0), asked(1.0, wanted=True)),
        (model("a"), asked(0.0)),
    ],
    ids=["pinned", "asked for by a person", "the default"],
)
def test_who_does_not_rest(spec: ModelSpec, demand: Demand) -> None:
    assert planned(spec, seen=world(demands=[demand])).startswith("+ a needs 100")


def test_a_warm_model_rests_too_and_that_is_no_fault() -> None:
    spec, seen = warm("a", reload_after=30.0), world(demands=[Demand("a", closed=NOW - 1)])
    expect(planned(spec, seen=seen), ". a (Resting)")
    assert plan(manifest(spec), seen, NOW).changes_at == NOW + 29


def test_one_that_rests_keeps_no_room_from_others() -> None:
    seen = world(demands=[asked(1.0), waiting("b")])
    expect(
        planned(model("a", 600, reload_after=30.0), model("b", 600), seen=seen),
        "+ b needs 600 (Demanded) -> 400\n! a (Resting)",
    )


def test_a_model_in_memory_does_not_rest() -> None:
    spec, seen = (
        model("a", reload_after=30.0),
        world(running("a", 100), demands=[Demand("a", closed=NOW - 1)]),
    )
    expect(planned(spec, seen=seen), "= a (Resident)")
    assert plan(manifest(spec), seen, NOW).changes_at is None
