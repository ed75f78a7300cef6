"""What is planned while memory is short: whole plans as text, one small machine a test."""

from dataclasses import replace
from textwrap import dedent

import pytest

from reconciler.core.memory import Memory, Watermarks
from reconciler.core.plan import plan
from reconciler.core.pressure import Level, Pressure
from reconciler.core.types import Demand, Instance, Manifest, World
from worlds import MIB, NOW, manifest, model, perform, pinned, running, text, waiting, warm, world


def short(
    level: Level = Level.HARD, excess: int = 1, *, relieving: bool = True, evident: bool = True
) -> Pressure:
    return Pressure(level, 0.9, relieving, evident, excess=excess * MIB, cause="90 % of the memory is in use")


def planned(wanted: Manifest, seen: World) -> str:
    return text(plan(wanted, seen, NOW))


def expect(actual: str, wanted: str) -> None:
    assert actual == dedent(wanted).strip()


LOW, MID, HIGH = model("low", 100, priority=0), model("mid", 200), model("high", 300, priority=750)
ALL = (running("low", 100, idle=5), running("mid", 200, idle=50), running("high", 300, idle=500))


@pytest.mark.parametrize(
    ("excess", "named"),
    [
        (0, ["low"]),
        (100, ["low"]),
        (101, ["low", "mid"]),
        (301, ["low", "mid", "high"]),
        (9999, ["low", "mid", "high"]),
    ],
)
def test_they_go_by_priority_until_the_excess_is_gone(excess: int, named: list[str]) -> None:
    """Pressure without bytes to show for it (swapping, stalls) takes one at a time."""
    made = plan(manifest(LOW, MID, HIGH), world(*ALL, pressure=short(excess=excess)), NOW)
    assert [s.model for s in made.steps] == named
    assert made.head is not None
    assert (made.head.reason, made.head.detail) == (
        "MemoryPressure",
        "90 % of the memory is in use, idle 5.0s",
    )


def test_a_larger_one_of_higher_priority_is_not_taken_instead() -> None:
    seen = world(*ALL, pressure=short(excess=250))
    assert [s.model for s in plan(manifest(LOW, MID, HIGH), seen, NOW).steps] == ["low", "mid"]


def test_after_one_has_gone_the_next_waits_for_new_evidence() -> None:
    wanted = manifest(LOW, MID, HIGH)
    seen = world(*ALL, pressure=short(excess=500))
    head = plan(wanted, seen, NOW).head
    assert head is not None
    expect(
        planned(wanted, perform(head, wanted, seen)), "= high (Resident)\n. low (NotWanted)\n= mid (Resident)"
    )


@pytest.mark.parametrize(("level", "gone"), [(Level.HARD, []), (Level.CRITICAL, ["busy"])])
def test_one_in_use_goes_only_above_the_critical_mark(level: Level, gone: list[str]) -> None:
    wanted = manifest(model("busy", 100, priority=0), pinned("pin", 300))
    seen = world(
        running("busy", 100),
        running("pin", 300),
        demands=[Demand("busy", active=1)],
        pressure=short(level, 900),
    )
    steps = plan(wanted, seen, NOW).steps
    assert [s.model for s in steps] == gone
    assert all(getattr(s, "drain", False) for s in steps), "its requests get to end"


def test_above_the_critical_mark_idle_ones_go_first_all_the_same() -> None:
    seen = world(*ALL, demands=[Demand("low", active=1)], pressure=short(Level.CRITICAL, 9999))
    steps = plan(manifest(LOW, MID, HIGH), seen, NOW).steps
    assert [s.model for s in steps] == ["mid", "high", "low"]


@pytest.mark.parametrize("who", ["waiting", "pinned", "warm"])
@pytest.mark.parametrize("evident", [False, True])
@pytest.mark.parametrize("relieving", [False, True])
def test_above_the_hard_mark_nothing_is_loaded_though_there_is_room(
    who: str, evident: bool, relieving: bool
) -> None:
    new = {"waiting": model, "pinned": pinned, "warm": warm}[who]("new", 100)
    seen = world(
        ALL[0],
        demands=[waiting("new")] if who == "waiting" else [],
        pressure=short(relieving=relieving, evident=relieving and evident),
    )
    made = plan(manifest(LOW, new), seen, NOW)
    verdict = made.verdict("new")
    assert verdict is not None
    assert (verdict.outcome, verdict.reason) == ("." if who == "warm" else "!", "MemoryPressure")
    assert verdict.detail == "memory is short: 90 % of the memory is in use"
    assert [s.model for s in made.steps] == (["low"] if relieving and evident else [])


def test_until_use_is_below_the_target_nothing_is_loaded_while_somebody_could_go() -> None:
    latched = short(Level.CALM, 0, evident=False)
    for residents, outcome in ((ALL[:1], "!"), ((), "+")):
        seen = world(*residents, demands=[waiting("new")], pressure=latched)
        verdict = plan(manifest(LOW, model("new", 100)), seen, NOW).verdict("new")
        assert verdict is not None
        assert verdict.outcome == outcome


def test_a_request_that_waits_displaces_nobody_while_memory_is_short() -> None:
    seen = world(*ALL, demands=[waiting("new", since=99)], pressure=short(evident=False))
    wanted = manifest(LOW, MID, HIGH, model("new", 900, priority=1000))
    assert plan(wanted, seen, NOW).steps == ()


def test_with_nobody_left_to_go_what_fits_below_the_hard_mark_is_let_in() -> None:
    """Waiting until others use less would be for ever."""
    latched = short(Level.SOFT)
    wanted = manifest(pinned("pin", 300), model("new", 100))
    seen = world(running("pin", 300), demands=[waiting("new")], pressure=latched)
    expect(planned(wanted, seen), "+ new needs 100 (Demanded) -> 600\n= pin (Pinned)")
    still = replace(seen, observation=replace(seen.observation, pressure=short(Level.HARD)))
    expect(planned(wanted, still), "! new (MemoryPressure)\n= pin (Pinned)")


# -- the soft mark -------------------------------------------------------------------------------------------------


def test_above_the_soft_mark_only_what_somebody_waits_for_is_loaded() -> None:
    """Told by stalls or swap: the bytes themselves would fit."""
    wanted = manifest(warm("w", 100), model("d", 100), pinned("p", 100))
    seen = world(demands=[waiting("d")], pressure=short(Level.SOFT, 0, relieving=False, evident=False))
    expect(
        planned(wanted, seen),
        """
        + p needs 100 (Pinned) -> 900
        + d needs 100 (Demanded) -> 800
        . w (MemoryPressure)
        """,
    )


def test_a_warm_model_is_not_replaced_while_it_would_stay_out_afterwards() -> None:
    """Above the soft mark nothing is loaded that nobody waits for, be it smaller than what it replaces."""
    wanted, old = manifest(warm("w", 250, digest="w-v2")), running("w", 300)
    soft = short(Level.SOFT, 0, relieving=False, evident=False)
    assert plan(wanted, world(old, pressure=soft), NOW).steps == ()
    assert plan(wanted, world(pressure=soft), NOW).steps == ()
    assert [s.model for s in plan(wanted, world(old), NOW).steps] == ["w", "w"]


MARKS = Watermarks(soft=0.5, hard=0.8, critical=0.9, target=0.5)


def machine(*instances: Instance, available: int, **fields: object) -> World:
    """A machine of 1000 MiB."""
    return world(*instances, total_mib=1000, available_mib=available, **fields)  # type: ignore[arg-type]


def test_room_between_the_marks_is_for_those_somebody_waits_for() -> None:
    wanted = manifest(warm("w", 200), model("d", 200), mib=9999, marks=MARKS)
    expect(planned(wanted, machine(available=700)), "+ w needs 200 (Warm) -> 300\n. d (NotWanted)")
    expect(planned(wanted, machine(available=699)), ". d (NotWanted)\n. w (NoRoom)")
    asked = machine(available=400, demands=[waiting("d")])
    expect(planned(wanted, asked), "+ d needs 200 (Demanded) -> 0\n. w (NoRoom)")
    full = machine(available=399, demands=[waiting("d")])
    expect(planned(wanted, full), "! d (InsufficientMemory)\n. w (NoRoom)")


def test_what_leaves_anyway_leaves_before_a_warm_model_would_pass_the_soft_mark() -> None:
    wanted = manifest(warm("w", 200), mib=9999, marks=MARKS)
    seen = machine(running("gone", 200), available=600)
    expect(planned(wanted, seen), "- gone frees 200 (Removed) -> 600\n+ w needs 200 (Warm) -> 400")


# -- what goes before ----------------------------------------------------------------------------------------------


def test_what_leaves_anyway_goes_first_and_spares_the_others() -> None:
    seen = world(*ALL, running("gone", 50), pressure=short())
    assert [s.model for s in plan(manifest(LOW, MID, HIGH), seen, NOW).steps] == ["gone"]


def test_a_drain_of_what_leaves_anyway_does_not_hold_up_relief() -> None:
    seen = world(*ALL, running("gone", 50), demands=[Demand("gone", active=1)], pressure=short())
    steps = plan(manifest(LOW, MID, HIGH), seen, NOW).steps
    assert [s.model for s in steps] == ["low", "gone"]


def test_unknown_memory_is_no_shortage() -> None:
    blind = world(*ALL, pressure=short(excess=9999))
    seen = replace(blind, observation=replace(blind.observation, memory=Memory(1000 * MIB, None)))
    assert plan(manifest(LOW, MID, HIGH), seen, NOW).steps == ()


# -- idle ----------------------------------------------------------------------------------------------------------


def test_a_warm_model_is_not_unloaded_for_idleness_to_be_loaded_again_at_once() -> None:
    wanted = manifest(warm("w", 100, idle_ttl=60.0))
    assert plan(wanted, world(running("w", 100, idle=61.0)), NOW).steps == ()
    dismissed = [Demand("w", dismissed=True)]
    assert planned(wanted, world(running("w", 100, idle=61.0), demands=dismissed)).startswith("- w")
