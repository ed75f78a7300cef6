"""Whole plans as text: one small world a test."""

from textwrap import dedent

import pytest

from reconciler.core.plan import plan
from reconciler.core.types import (
    Demand,
    Evict,
    Instance,
    LedgerEntry,
    Load,
    Manifest,
    MayPreempt,
    Preflight,
    Residency,
    World,
)
from worlds import MIB, NOW, manifest, model, perform, pinned, running, text, waiting, warm, world


def planned(wanted: Manifest, seen: World, now: float = NOW) -> str:
    return text(plan(wanted, seen, now))


def performed(wanted: Manifest, seen: World) -> str:
    """Return the plan, and require that each step makes the rest of it the next plan."""
    made = first = plan(wanted, seen, NOW)
    while made.steps:
        seen = perform(made.steps[0], wanted, seen)
        after = plan(wanted, seen, NOW)
        assert [(type(s), s.model) for s in after.steps] == [(type(s), s.model) for s in made.steps[1:]]
        made = after
    return text(first)


def expect(actual: str, wanted: str) -> None:
    assert actual == dedent(wanted).strip()


def test_start_loads_pinned_then_warm_by_priority_and_leaves_the_rest_cold() -> None:
    wanted = manifest(warm("b", 100), warm("a", 100, priority=750), pinned("z", 100, priority=0), model("c"))
    expect(
        planned(wanted, world()),
        """
        + z needs 100 (Pinned) -> 900
        + a needs 100 (Warm) -> 800
        + b needs 100 (Warm) -> 700
        . c (NotWanted)
        """,
    )


def test_all_as_wanted_is_an_empty_plan() -> None:
    assert plan(manifest(warm("a")), world(running("a", 100)), NOW).steps == ()


def test_equal_priority_gives_way_when_idle_least_recently_used_first() -> None:
    wanted = manifest(model("old", 400), model("young", 400), model("new", 500))
    seen = world(running("old", 400, idle=900), running("young", 400, idle=5), demands=[waiting("new")])
    expect(
        planned(wanted, seen),
        """
        - old frees 400 (MakeRoom for new) -> 600
        + new needs 500 (Demanded) -> 100
        = young (Resident)
        """,
    )


@pytest.mark.parametrize(
    ("claimant", "expected"),
    [
        ("want450", "- big frees 500 (MakeRoom for want450) -> 550\n+ want450 needs 450 (Demanded) -> 100"),
        ("want30", "+ want30 needs 30 (Demanded) -> 20"),
    ],
)
def test_victims_are_minimal_and_only_where_needed(claimant: str, expected: str) -> None:
    """Four loaded and idle, 50 MiB free: no victim could be left out, and none goes for a model that fits."""
    assert planned(*_full_desk(claimant)).startswith(expected)


def test_a_model_that_never_fits_evicts_nobody() -> None:
    expect(
        planned(*_full_desk("want950")),
        """
        = big (Resident)
        = mid (Resident)
        = pin (Pinned)
        = tiny (Resident)
        . want30 (NotWanted)
        . want450 (NotWanted)
        ! want950 (NeverFits)
        """,
    )


def test_what_never_fits_is_told_by_the_size_a_pinned_model_will_have_not_by_its_old_process() -> None:
    wanted = manifest(pinned("p", 300, digest="p-v2"), model("a", 700))
    seen = world(running("p", 900), demands=[waiting("a")])
    expect(
        planned(wanted, seen),
        """
        - p frees 900 (Drifted) -> 1000
        + p needs 300 (Pinned) -> 700
        + a needs 700 (Demanded) -> 0
        """,
    )
    broken = world(
        running("p", 900), demands=[waiting("a")], preflights=[Preflight("p", "NotStartable", "gone")]
    )
    expect(planned(wanted, broken), "! a (NeverFits)\n! p (NotStartable)")


def test_that_a_model_never_fits_is_told_before_anyone_asks() -> None:
    wanted, seen = _full_desk("want30")
    verdict = plan(wanted, seen, NOW).verdict("want950")
    assert verdict is not None
    assert (verdict.outcome.value, verdict.reason) == (".", "NeverFits")
    assert verdict.detail.startswith("can never fit: 50 MiB short")


def _full_desk(claimant: str) -> tuple[Manifest, World]:
    wanted = manifest(
        model("tiny", 50),
        model("mid", 300),
        model("big", 500),
        pinned("pin", 100),
        model("want450", 450),
        model("want950", 950),
        model("want30", 30),
    )
    seen = world(
        running("tiny", 50, idle=400),
        running("mid", 300, idle=300),
        running("big", 500, idle=200),
        running("pin", 100, idle=1000),
        demands=[waiting(claimant)],
    )
    return wanted, seen


def test_lower_priority_never_evicts_higher() -> None:
    wanted = manifest(model("high", 900, priority=750), model("low", 200, priority=250))
    seen = world(running("high", 900, idle=9999), demands=[waiting("low", since=9000)])
    expect(planned(wanted, seen), "= high (Resident)\n! low (Outranked)")


@pytest.mark.parametrize(
    ("may", "plan_of_b"),
    [(MayPreempt.EQUAL, "- a"), (MayPreempt.LOWER, "= a"), (MayPreempt.NONE, "= a")],
)
def test_may_preempt_limits_whom_an_equal_displaces(may: MayPreempt, plan_of_b: str) -> None:
    wanted = manifest(model("a", 900), model("b", 900, may_preempt=may))
    assert planned(wanted, world(running("a", 900, idle=60), demands=[waiting("b")])).startswith(plan_of_b)


def test_busy_victim_waits_for_idle_and_is_drained_only_after_patience() -> None:
    wanted = manifest(model("a", 900), model("b", 900))
    demands = [Demand("a", active=2), waiting("b", since=9.9)]
    seen = world(running("a", 900), demands=demands)
    expect(planned(wanted, seen), "= a (InUse)\n! b (VictimsBusy)")
    assert plan(wanted, seen, NOW).changes_at == pytest.approx(NOW + 0.1)
    expect(
        planned(wanted, seen, NOW + 0.2),
        """
        - a frees 900 (MakeRoom for b, drain) -> 1000
        + b needs 900 (Demanded) -> 100
        """,
    )


def test_idle_victim_is_preferred_to_a_busy_one_of_lower_priority() -> None:
    wanted = manifest(model("busy", 500, priority=0), model("idle", 500), model("new", 400))
    demands = [Demand("busy", active=1), waiting("new", since=99)]
    assert planned(wanted, world(running("busy", 500), running("idle", 500), demands=demands)).startswith(
        "- idle"
    )


def test_warm_model_comes_back_when_there_is_room_but_displaces_nobody() -> None:
    wanted = manifest(warm("w", 600, priority=1000), model("x", 600, priority=0))
    expect(planned(wanted, world(running("x", 600, idle=500))), ". w (NoRoom)\n= x (Resident)")
    expect(planned(wanted, world()), "+ w needs 600 (Warm) -> 400\n. x (NotWanted)")


def test_what_goes_for_a_request_is_not_taken_by_a_warm_model_of_higher_priority() -> None:
    wanted = manifest(model("a", 900), model("b", 900), warm("w", 900, priority=1000))
    seen = world(running("a", 900, idle=60), demands=[waiting("b")])
    expect(
        planned(wanted, seen),
        """
        - a frees 900 (MakeRoom for b) -> 1000
        + b needs 900 (Demanded) -> 100
        . w (NoRoom)
        """,
    )
    head = plan(wanted, seen, NOW).head
    assert head is not None
    after = perform(head, wanted, seen)
    expect(planned(wanted, after), "+ b needs 900 (Demanded) -> 100\n. a (NotWanted)\n. w (NoRoom)")


def test_room_is_kept_for_a_request_that_waits() -> None:
    """`w` would fit into what is free, but `b` waits for more than that and would have to push it out again."""
    wanted = manifest(model("a", 700), model("b", 800), warm("w", 200))
    demands = [Demand("a", active=1), waiting("b")]
    assert (
        planned(wanted, world(running("a", 700), demands=demands))
        == "= a (InUse)\n! b (VictimsBusy)\n. w (NoRoom)"
    )


def test_pinned_displaces_any_priority_and_is_never_displaced() -> None:
    wanted = manifest(pinned("p", 900, priority=0), model("a", 900, priority=1000))
    assert planned(wanted, world(running("a", 900))).startswith("- a frees 900 (MakeRoom for p)")
    expect(
        planned(wanted, world(running("p", 900, idle=9e9), demands=[waiting("a", since=9000)])),
        "! a (NeverFits)\n= p (Pinned)",
    )


@pytest.mark.parametrize("problem", ["preflight", "backoff", "size", "memory"])
def test_nothing_is_stopped_for_a_model_that_cannot_be_started(problem: str) -> None:
    wanted = manifest(model("a", 900), model("b", None if problem == "size" else 900))
    seen = world(
        running("a", 900, idle=99),
        demands=[waiting("b", since=99)],
        preflights=[Preflight("b", "WeightsMissing", "no such file")] if problem == "preflight" else [],
        ledger=[LedgerEntry("b", "b-v1", failures=1, retry_at=NOW + 5)] if problem == "backoff" else [],
        available_mib=None if problem == "memory" else 1000,
    )
    reason = {
        "preflight": "NotStartable",
        "backoff": "BackingOff",
        "size": "SizeUnknown",
        "memory": "MemoryUnknown",
    }[problem]
    expect(planned(wanted, seen), f"= a (Resident)\n! b ({reason})")


def test_changed_settings_replace_that_model_alone_just_before_its_load() -> None:
    wanted = manifest(warm("a", 300), warm("b", 300, digest="b-v2"), warm("c", 300))
    seen = world(running("a", 300), running("b", 300), running("c", 300))
    expect(
        planned(wanted, seen),
        """
        - b frees 300 (Drifted) -> 400
        + b needs 300 (Warm) -> 100
        = a (Warm)
        = c (Warm)
        """,
    )


def test_priority_edit_changes_no_process() -> None:
    seen = world(running("a", 500), running("b", 500))
    for priority in (0, 500, 1000):
        assert plan(manifest(warm("a", 500, priority=priority), warm("b", 500)), seen, NOW).steps == ()


def test_changed_settings_that_cannot_start_keep_the_old_process() -> None:
    wanted = manifest(warm("a", 300, digest="a-v2"), model("b", 300, digest="b-v2"))
    broken = [Preflight("a", "WeightsMissing", "gone"), Preflight("b", "WeightsMissing", "gone")]
    seen = world(running("a", 300), running("b", 300), preflights=broken)
    expect(planned(wanted, seen), "! a (NotStartable)\n= b (Resident)")


def test_changed_settings_of_an_idle_on_demand_model_unload_it() -> None:
    wanted = manifest(model("a", 300, digest="a-v2"))
    expect(planned(wanted, world(running("a", 300))), "- a frees 300 (Drifted) -> 1000")


def test_a_drain_of_changed_settings_comes_after_the_loads_of_others() -> None:
    wanted = manifest(warm("a", 300, digest="a-v2", priority=1000), model("b", 300))
    seen = world(running("a", 300), demands=[Demand("a", active=1), waiting("b")])
    expect(
        planned(wanted, seen),
        """
        + b needs 300 (Demanded) -> 400
        - a frees 300 (Drifted, drain) -> 700
        + a needs 300 (Warm) -> 400
        """,
    )


def test_removed_model_is_drained_and_what_it_held_is_used_before_anyone_is_displaced() -> None:
    wanted = manifest(model("a", 400), model("b", 500))
    seen = world(running("a", 400, idle=60), running("gone", 500), demands=[waiting("b")])
    expect(
        planned(wanted, seen),
        """
        - gone frees 500 (Removed) -> 600
        + b needs 500 (Demanded) -> 100
        = a (Resident)
        """,
    )


def test_a_removed_model_that_still_serves_is_drained_after_all_others() -> None:
    seen = world(running("gone", 500), demands=[Demand("gone", active=1), waiting("b")])
    expect(
        planned(manifest(model("b", 400)), seen),
        """
        + b needs 400 (Demanded) -> 100
        - gone frees 500 (Removed, drain) -> 600
        """,
    )


def test_second_process_of_a_model_is_stopped_and_the_fresh_one_stays() -> None:
    seen = world(running("a", 100, pid=7, digest="a-v0"), running("a", 100, pid=9))
    got = plan(manifest(warm("a", 100)), seen, NOW)
    expect(text(got), "- a frees 100 (Duplicate) -> 900")
    assert [s.pid for s in got.steps if hasattr(s, "pid")] == [7]
    assert [v.outcome.value for v in got.verdicts] == ["="]


@pytest.mark.parametrize(
    ("spec", "idle", "reason"),
    [
        (model("a", idle_ttl=60.0), 60.0, "IdleExpired"),
        (model("a", residency=Residency.TRANSIENT), 0.0, "TransientDone"),
    ],
)
def test_idle_models_that_are_to_go_go(spec: object, idle: float, reason: str) -> None:
    wanted = manifest(spec)  # type: ignore[arg-type]
    expect(planned(wanted, world(running("a", 100, idle=idle))), f"- a frees 100 ({reason}) -> 1000")
    in_use = world(running("a", 100, idle=idle), demands=[Demand("a", active=1)])
    expect(planned(wanted, in_use), "= a (InUse)")


def test_a_person_may_dismiss_a_model_and_it_stays_out_until_asked_for() -> None:
    wanted = manifest(warm("a", 100), pinned("p", 100))
    gone = [Demand("a", dismissed=True), Demand("p", dismissed=True)]
    expect(
        planned(wanted, world(running("a", 100), running("p", 100), demands=gone)),
        "- a frees 100 (Dismissed) -> 900\n= p (Pinned)",
    )
    expect(planned(wanted, world(running("p", 100), demands=gone)), ". a (Dismissed)\n= p (Pinned)")
    asked = [Demand("a", dismissed=True, wanted=True)]
    assert "+ a needs 100 (Requested)" in planned(wanted, world(running("p", 100), demands=asked))


def test_lowered_budget_evicts_least_recently_used_until_it_fits_and_pinned_stay() -> None:
    wanted = manifest(pinned("p", 300), model("a", 300), model("b", 300), mib=650)
    seen = world(running("p", 300, idle=999), running("a", 300, idle=9), running("b", 300, idle=99))
    expect(planned(wanted, seen), "- b frees 300 (OverBudget) -> 50\n= a (Resident)\n= p (Pinned)")


def test_a_model_that_outgrew_its_estimate_is_charged_what_it_holds_and_reloaded_at_that_size() -> None:
    wanted = manifest(model("grown", 100), model("other", 500))
    entry = LedgerEntry("grown", "grown-v1", peak=700 * MIB)
    seen = world(running("grown", 700, idle=9), demands=[waiting("other")], ledger=[entry])
    expect(
        planned(wanted, seen),
        "- grown frees 700 (MakeRoom for other) -> 1000\n+ other needs 500 (Demanded) -> 500",
    )
    back = world(running("other", 500, idle=1), demands=[waiting("grown")], ledger=[entry])
    assert "+ grown needs 700 (Demanded)" in planned(wanted, back)


@pytest.mark.parametrize(
    "wanted", [manifest(model("b", 400)), manifest(model("a", 100, digest="a-v2"), model("b", 400))]
)
def test_a_process_of_other_settings_is_charged_what_it_was_let_in_at(wanted: Manifest) -> None:
    """It holds 8 MiB now and may grow to the 700 it was let in at, whatever the manifest says of its model today."""
    seen = world(
        running("a", 8, admitted=700 * MIB),
        demands=[Demand("a", active=1), waiting("b")],
        preflights=[Preflight("a", "X", "x")],
    )
    made = plan(wanted, seen, NOW)
    assert made.account.held == 700 * MIB
    assert made.account.free == 300 * MIB
    assert not any(isinstance(s, Load) and s.free < 0 for s in made.steps)


@pytest.mark.parametrize("problem", ["preflight", "backoff", "size"])
def test_a_cold_model_that_could_not_be_started_says_so_before_anyone_asks(problem: str) -> None:
    seen = world(
        preflights=[Preflight("b", "NotStartable", "no such file")] if problem == "preflight" else [],
        ledger=[LedgerEntry("b", "b-v1", failures=1, retry_at=NOW + 5)] if problem == "backoff" else [],
    )
    reason = {"preflight": "NotStartable", "backoff": "BackingOff", "size": "SizeUnknown"}[problem]
    expect(planned(manifest(model("b", None if problem == "size" else 900)), seen), f". b ({reason})")


def test_the_load_peak_must_fit_even_if_the_model_is_smaller_afterwards() -> None:
    wanted = manifest(model("a", 300), model("b", 400, peak=800 * MIB))
    seen = world(running("a", 300, idle=9), demands=[waiting("b")])
    expect(planned(wanted, seen), "- a frees 300 (MakeRoom for b) -> 1000\n+ b needs 800 (Demanded) -> 600")


def test_real_memory_binds_as_well_as_the_budget() -> None:
    """The budget would take both; another program holds the memory, so the second load must displace the first."""
    wanted = manifest(model("a", 400), model("b", 400))
    seen = world(running("a", 400, idle=9), demands=[waiting("b")], available_mib=300)
    expect(planned(wanted, seen), "- a frees 400 (MakeRoom for b) -> 700\n+ b needs 400 (Demanded) -> 300")


def test_unreadable_process_memory_admits_and_evicts_nobody() -> None:
    wanted = manifest(model("a", None), model("b", 400))
    seen = world(running("a", None), demands=[waiting("b", since=99)])
    expect(planned(wanted, seen), "= a (Resident)\n! b (MemoryUnknown)")


def test_a_second_process_whose_memory_cannot_be_read_leaves_and_then_the_rest_is_planned() -> None:
    wanted = manifest(warm("a", 100), model("b", 400))
    seen = world(running("a", 100, pid=9), running("a", None, pid=7, digest="a-v0"), demands=[waiting("b")])
    made = plan(wanted, seen, NOW)
    assert (made.account.held, made.account.free) == (None, None)
    assert [(s.model, s.reason) for s in made.steps] == [("a", "Duplicate"), ("b", "Demanded")]


def test_min_resident_protects_a_fresh_load() -> None:
    wanted = manifest(model("a", 900, min_resident=60.0), model("b", 900))
    young = running("a", 900, loaded_at=NOW - 59)
    seen = world(young, demands=[waiting("b")])
    assert planned(wanted, seen) == "= a (Resident)\n! b (VictimsKept)"
    assert plan(wanted, seen, NOW).changes_at == NOW + 1
    assert planned(wanted, seen, NOW + 1).startswith("- a")


def test_what_a_less_urgent_model_would_free_is_owed_to_the_more_urgent_one() -> None:
    """`a` may displace nobody; `b` could displace `v`, but `a` would take the room: so all stays as it is."""
    wanted = manifest(
        model("v", 900),
        model("a", 800, priority=750, may_preempt=MayPreempt.NONE),
        model("b", 200, priority=500),
    )
    seen = world(running("v", 900, idle=99), demands=[waiting("a"), waiting("b")])
    expect(planned(wanted, seen), "! a (Outranked)\n! b (Outranked)\n= v (Resident)")


def test_a_pinned_model_that_waits_gets_the_room_that_another_gives_back_by_its_reload() -> None:
    """`a` may not displace `b`, and to reload `b` first would leave its room to `a`: together they fit all the same."""
    wanted = manifest(pinned("a", 600, priority=750), pinned("b", 300, digest="b-v2"))
    seen = world(running("b", 700))
    expect(
        performed(wanted, seen),
        """
        - b frees 700 (Drifted) -> 1000
        + a needs 600 (Pinned) -> 400
        + b needs 300 (Pinned) -> 100
        """,
    )


def test_one_that_grows_gets_the_room_that_another_pinned_one_gives_back() -> None:
    """Memory is moved from `b`, which is in use, to `a`, in one edit; what waits for the rest gets that, too."""
    wanted = manifest(
        pinned("a", 600, priority=750, digest="a-v2"), pinned("b", 200, digest="b-v2"), model("c", 150)
    )
    demands = [Demand("b", active=1), waiting("c")]
    seen = world(running("a", 300), running("b", 650, last_used=NOW), demands=demands)
    expect(
        performed(wanted, seen),
        """
        - b frees 650 (Drifted, drain) -> 700
        - a frees 300 (Drifted) -> 1000
        + a needs 600 (Pinned) -> 400
        + b needs 200 (Pinned) -> 200
        + c needs 150 (Demanded) -> 50
        """,
    )


def test_a_reload_that_leaves_no_room_for_both_does_not_begin() -> None:
    """Other programs hold what `a` lacks: were `b` to go for its reload, `a` would take its room for good."""
    wanted = manifest(pinned("a", 600, priority=750), pinned("b", 350, digest="b-v2"))
    seen = world(running("b", 700), available_mib=200, total_mib=1000)
    expect(planned(wanted, seen), "! a (InsufficientMemory)\n! b (Outranked)")


def test_a_load_in_progress_is_reserved_and_no_second_is_planned_for_it() -> None:
    loading = running("a", 50, ready=False)
    got = plan(manifest(model("a", 400)), world(loading, demands=[waiting("a")]), NOW)
    assert got.steps == ()
    assert (got.account.reserved, got.account.held, got.account.free) == (400 * MIB, 0, 600 * MIB)
    assert got.verdicts[0].reason == "Loading"


def test_order_of_input_changes_nothing() -> None:
    wanted, seen = _full_desk("want450")
    backwards: tuple[Instance, ...] = tuple(reversed(seen.observation.instances))
    turned = world(*backwards, demands=reversed(seen.observation.demands))
    assert plan(wanted, turned, NOW) == plan(wanted, seen, NOW)


@pytest.mark.parametrize("holds", [400, None])
def test_an_unreadable_figure_makes_nobody_go(holds: int | None) -> None:
    """Were it taken for less than it is, somebody would be evicted only because a figure is missing."""
    wanted = manifest(model("a", 400), model("b", 400), model("c", 300), mib=2000, reserve=100 * MIB)
    seen = world(
        running("a", holds, idle=60),
        running("b", holds, idle=30),
        demands=[waiting("c")],
        total_mib=2000,
        available_mib=1150,
    )
    expected = "+ c needs 300 (Demanded)" if holds else "! c (MemoryUnknown)"
    assert any(line.startswith(expected) for line in planned(wanted, seen).splitlines())
    assert not [step for step in plan(wanted, seen, NOW).steps if isinstance(step, Evict)]


def test_a_model_that_never_fits_for_what_it_once_held_says_how_to_take_that_back() -> None:
    wanted = manifest(model("grew", 100), mib=600)
    seen = world(demands=[waiting("grew")], ledger=[LedgerEntry("grew", "grew-v1", peak=757 * MIB)])
    found = plan(wanted, seen, NOW).verdict("grew")
    assert found is not None
    assert found.detail == (
        "can never fit: 157 MiB short even with every other model gone that is not pinned; it once held 757 MiB,"
        " 100 MiB is what is stated or estimated: `reconcile forget grew` if that was an accident"
    )
