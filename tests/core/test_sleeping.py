"""Models that sleep: whole plans as text, what is said of them, and what of the memory is theirs."""

from dataclasses import replace
from textwrap import dedent

import pytest

from reconciler.core.memory import Watermarks
from reconciler.core.plan import plan
from reconciler.core.pressure import Level, Pressure
from reconciler.core.types import (
    Demand,
    Evict,
    Instance,
    Load,
    Manifest,
    ModelSpec,
    Preflight,
    Reason,
    Residency,
    World,
)
from worlds import MIB, NOW, file, manifest, mapping, model, pinned, running, text, waiting, warm, world


def asleep(name: str, mib: int | None, idle: float = 60.0, **fields: object) -> Instance:
    """A process that sleeps and holds so many MiB."""
    return running(name, mib, idle, ready=False, asleep=True, **fields)  # type: ignore[arg-type]


def light(name: str, mib: int = 400, **fields: object) -> ModelSpec:
    """A model that can give its memory back without ending."""
    return model(name, mib, sleeps=True, **fields)


def expect(wanted: Manifest, seen: World, lines: str) -> None:
    assert text(plan(wanted, seen, NOW)) == dedent(lines).strip()


def head(wanted: Manifest, seen: World) -> Evict:
    step = plan(wanted, seen, NOW).head
    assert isinstance(step, Evict)
    return step


SHORT = Pressure(Level.HARD, 0.9, relieving=True, evident=True, excess=MIB, cause="90 % is in use")


@pytest.mark.parametrize(
    ("wanted", "seen", "detail"),
    [
        (
            manifest(light("a", 800), model("b", 900)),
            world(running("a", 800, 90), demands=[waiting("b")]),
            "priority 500 = 500, idle 90s, sleeps",
        ),
        (
            manifest(light("a", idle_ttl=60.0)),
            world(running("a", 400, 90)),
            "idle 90s, sleeps",
        ),
        (
            manifest(light("a", residency=Residency.TRANSIENT)),
            world(running("a", 400, 9)),
            "idle 9.0s, sleeps",
        ),
        (
            manifest(light("a", 1200), mib=1000),
            world(running("a", 1200, 90)),
            "models hold more than the budget, idle 90s, sleeps",
        ),
        (
            manifest(light("a"), marks=Watermarks()),
            world(running("a", 400, 90), pressure=SHORT),
            "90 % is in use, idle 90s, sleeps",
        ),
    ],
    ids=["room", "idle", "transient", "budget", "pressure"],
)
def test_a_model_that_can_sleep_is_asked_to(wanted: Manifest, seen: World, detail: str) -> None:
    step = head(wanted, seen)
    assert (step.sleep, step.detail) == (True, detail)
    stopped = replace(wanted, models=tuple(replace(m, sleeps=False) for m in wanted.models))
    step = head(stopped, seen)
    assert (step.sleep, step.detail) == (False, detail.removesuffix(", sleeps"))


@pytest.mark.parametrize(
    ("wanted", "seen"),
    [
        (manifest(light("a", digest="a-v2")), world(running("a", 400))),
        (manifest(), world(running("a", 400))),
        (manifest(light("a")), world(running("a", 400), demands=[Demand("a", dismissed=True)])),
        (manifest(light("a", idle_ttl=9.0)), world(running("a", 400, 60, sleepless=True))),
        (manifest(light("a", restart_after=9.0)), world(running("a", 400, 60))),
        (manifest(light("a", restart_after=9.0, idle_ttl=9.0)), world(running("a", 400, 60))),
    ],
    ids=["drifted", "removed", "dismissed", "gave nothing back", "to be restarted", "both"],
)
def test_what_is_to_go_for_good_is_stopped(wanted: Manifest, seen: World) -> None:
    assert not head(wanted, seen).sleep


def test_one_that_sleeps_does_not_run_and_holds_memory_all_the_same() -> None:
    made = plan(manifest(light("a"), model("b")), world(asleep("a", 150)), NOW)
    assert made.steps == ()
    assert (made.account.held, made.account.free) == (150 * MIB, 850 * MIB)
    verdict = made.verdict("a")
    assert verdict is not None
    assert (verdict.outcome.value, verdict.reason, verdict.size) == (".", "NotWanted", 400 * MIB)
    assert verdict.detail == "asleep, holds 150 MiB: wakes when a request asks for it"


def test_waking_needs_what_it_does_not_hold_yet() -> None:
    wanted, seen = manifest(light("a"), model("b", 700)), world(asleep("a", 150), demands=[waiting("a")])
    expect(wanted, seen, "+ a needs 250 (Demanded) -> 600\n. b (NotWanted)")
    step = plan(wanted, seen, NOW).head
    assert isinstance(step, Load)
    assert (step.pid, step.started, step.holds) == (asleep("a", 1).pid, 1, 150 * MIB)
    assert (step.size, step.detail) == (400 * MIB, "wakes, 1 request waiting, oldest 1.0s")
    # Exactly enough, and one too little: then somebody has to go.
    full = world(asleep("a", 150), running("b", 600, 60), demands=[waiting("a")])
    expect(wanted, full, "- b frees 700 (MakeRoom for a) -> 850\n+ a needs 250 (Demanded) -> 600")


def test_a_process_that_is_being_woken_is_charged_what_it_will_need() -> None:
    waking = running("a", 150, ready=False)
    made = plan(manifest(light("a")), world(waking), NOW)
    assert (made.account.reserved, made.account.free) == (400 * MIB, 600 * MIB)


def test_those_that_sleep_go_first_for_whoever_may_displace_them() -> None:
    wanted = manifest(light("a", priority=500), model("old", 400), model("b", 500))
    seen = world(asleep("a", 300, idle=1), running("old", 400, idle=900), demands=[waiting("b")])
    expect(
        wanted,
        seen,
        """
        - a frees 300 (MakeRoom for b) -> 600
        + b needs 500 (Demanded) -> 100
        = old (Resident)
        """,
    )
    step = head(wanted, seen)
    assert (step.sleep, step.drain, step.detail) == (False, False, "priority 500 = 500, asleep")
    above = replace(
        wanted, models=tuple(replace(m, priority=900 if m.name == "a" else 500) for m in wanted.models)
    )
    expect(
        above,
        seen,
        """
        - old frees 400 (MakeRoom for b) -> 700
        + b needs 500 (Demanded) -> 200
        . a (NotWanted)
        """,
    )


def test_one_whose_room_went_to_somebody_else_is_loaded_anew() -> None:
    wanted = manifest(light("a", 400), model("b", 500, priority=600), mib=1000)
    seen = world(asleep("a", 600), demands=[waiting("a"), waiting("b")])
    expect(
        wanted,
        seen,
        """
        - a frees 600 (MakeRoom for b) -> 1000
        + b needs 500 (Demanded) -> 500
        + a needs 400 (Demanded) -> 100
        """,
    )
    last = plan(wanted, seen, NOW).steps[-1]
    assert isinstance(last, Load)
    assert last.pid is None


def test_who_waits_and_is_blocked_keeps_what_it_has_from_those_after_it() -> None:
    wanted = manifest(light("a", 700), model("b", 200), model("x", 300, priority=900))
    running_now = (asleep("a", 400), running("x", 300))
    asking = [waiting("a", 5, since=5.0), waiting("b", since=1.0), Demand("x", active=1)]
    seen = world(*running_now, demands=asking, available_mib=100)
    expect(wanted, seen, "! a (Outranked)\n! b (Outranked)\n= x (InUse)")
    # Nobody waits for it, or waiting is in vain: then it is the first to go.
    gone = "- a frees 400 (MakeRoom for b) -> 500\n+ b needs 200 (Demanded) -> 300"
    unasked = world(*running_now, demands=asking[1:], available_mib=100)
    assert text(plan(wanted, unasked, NOW)).startswith(gone)
    never = manifest(light("a", 900), model("b", 200), pinned("x", 300))
    assert text(plan(never, seen, NOW)).startswith(gone)


@pytest.mark.parametrize(
    ("wanted", "demands", "reason", "detail"),
    [
        (manifest(light("a", digest="a-v2")), [], Reason.DRIFTED, "its settings changed, asleep"),
        (manifest(model("a", 400)), [], Reason.DRIFTED, "it may not sleep, asleep"),
        (manifest(), [], Reason.REMOVED, "not in the manifest, asleep"),
        (manifest(light("a")), [Demand("a", dismissed=True)], Reason.DISMISSED, "asked for, asleep"),
    ],
)
def test_one_that_cannot_or_shall_not_wake_is_stopped(
    wanted: Manifest, demands: list[Demand], reason: Reason, detail: str
) -> None:
    step = head(wanted, world(asleep("a", 150), demands=demands))
    assert (step.reason, step.detail, step.frees, step.sleep) == (reason, detail, 150 * MIB, False)


@pytest.mark.parametrize("wanted", [light("a", digest="a-v2"), model("a", 400)])
def test_one_whose_new_settings_could_not_be_started_sleeps_on_and_is_the_first_to_go(
    wanted: ModelSpec,
) -> None:
    broken = [Preflight("a", "WeightsMissing", "gone")]
    both = manifest(wanted, model("b", 900))
    assert plan(both, world(asleep("a", 150), preflights=broken), NOW).steps == ()
    seen = world(asleep("a", 150), preflights=broken, demands=[waiting("b")])
    assert head(both, seen).reason is Reason.MAKE_ROOM


def test_one_that_was_removed_in_its_sleep_is_charged_what_it_holds() -> None:
    step = head(manifest(), world(asleep("a", 150, admitted=400 * MIB)))
    assert step.frees == 150 * MIB
    step = head(manifest(), world(running("a", 150, admitted=400 * MIB)))
    assert step.frees == 400 * MIB


def test_one_with_other_weights_is_stopped_and_the_model_loaded_anew() -> None:
    seen = world(
        asleep("a", 150, weights="old"), demands=[waiting("a")], preflights=[Preflight("a", weights="new")]
    )
    expect(manifest(light("a")), seen, "- a frees 150 (Drifted) -> 1000\n+ a needs 400 (Demanded) -> 600")
    assert head(manifest(light("a")), seen).detail == "its weights were replaced, asleep"


def test_a_process_that_sleeps_beside_one_that_runs_is_one_too_many() -> None:
    seen = world(asleep("a", 150, pid=7), running("a", 400, pid=8))
    step = head(manifest(light("a")), seen)
    assert (step.pid, step.reason) == (7, Reason.DUPLICATE)


def test_under_pressure_those_that_sleep_go_before_any_that_serves() -> None:
    wanted = manifest(light("a", priority=900), model("low", priority=1), marks=Watermarks())
    seen = world(asleep("a", 150), running("low", 100, idle=900), pressure=SHORT)
    expect(wanted, seen, "- a frees 150 (MemoryPressure) -> 900\n= low (Resident)")


def test_over_budget_counts_those_that_sleep() -> None:
    wanted = manifest(light("a"), pinned("p", 900), mib=1000)
    expect(
        wanted, world(asleep("a", 150), running("p", 900)), "- a frees 150 (OverBudget) -> 100\n= p (Pinned)"
    )


@pytest.mark.parametrize("residency", [Residency.PINNED, Residency.WARM])
def test_one_that_the_manifest_wants_is_woken_unasked(residency: Residency) -> None:
    expect(
        manifest(light("a", residency=residency)),
        world(asleep("a", 150)),
        f"+ a needs 250 ({residency.name.title()}) -> 600",
    )


def test_nobody_displaces_what_a_pinned_model_holds_in_its_sleep() -> None:
    wanted = manifest(light("a", residency=Residency.PINNED), model("b", 900))
    broken = [Preflight("a", "WeightsMissing", "gone")]
    seen = world(asleep("a", 150), demands=[waiting("b")], preflights=broken)
    assert plan(wanted, seen, NOW).steps == ()
    verdict = plan(wanted, seen, NOW).verdict("a")
    assert verdict is not None
    assert verdict.detail == "gone; asleep, holds 150 MiB"


def test_unreadable_memory_of_one_that_sleeps_admits_and_evicts_nobody() -> None:
    wanted = manifest(light("a"), model("b"))
    made = plan(wanted, world(asleep("a", None), demands=[waiting("b")]), NOW)
    assert made.steps == ()
    assert made.verdict("b").reason is Reason.MEMORY_UNKNOWN  # type: ignore[union-attr]


def test_files_that_one_maps_in_its_sleep_are_not_needed_again() -> None:
    shared = file("8:1", 300)
    seen = world(
        asleep("a", 50, warm=300 * MIB, files=(shared,)),
        demands=[waiting("b")],
        preflights=[mapping("b", shared)],
    )
    expect(
        manifest(light("a", 400), model("b", 400)), seen, "+ b needs 100 (Demanded) -> 550\n. a (NotWanted)"
    )


def test_warm_models_that_sleep_do_not_wake_above_the_soft_mark() -> None:
    wanted = manifest(warm("a", 400, sleeps=True), marks=Watermarks())
    seen = world(asleep("a", 150), pressure=Pressure(Level.SOFT, 0.8, cause="80 % is in use"))
    verdict = plan(wanted, seen, NOW).verdict("a")
    assert verdict is not None
    assert verdict.detail == "memory is short: 80 % is in use; asleep, holds 150 MiB"
