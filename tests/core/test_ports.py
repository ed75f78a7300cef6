"""A range of ports that is full: who gives one back, who waits for one, and who is told that none will come."""

from typing import Any

import pytest

from reconciler.core.plan import plan
from reconciler.core.types import Evict, Load, Manifest, Outcome, Preflight, Reason, World
from worlds import NOW, manifest, model, pinned, running, waiting, warm, world

HELD = "no port of 1-2 is free (a has 1, b has 2)"


def full(*holders: str) -> Preflight:
    """What is known of `new` while these models hold all ports that no stranger has."""
    return Preflight("new", ports_of=holders, ports_held=HELD)


def steps(wanted: Manifest, seen: World) -> list[str]:
    made = plan(wanted, seen, NOW).steps
    return [f"{'-' if isinstance(s, Evict) else '+'} {s.model}" for s in made if isinstance(s, Evict | Load)]


def test_the_idle_one_goes_whose_loss_is_cheapest_and_only_that() -> None:
    wanted = manifest(model("a"), model("b"), model("c", 50), model("new"))
    held = [running("a", 100, idle=5), running("b", 100, idle=900), running("c", 50, idle=9000)]
    seen = world(*held, demands=[waiting("new")], preflights=[full("a", "b")])
    assert steps(wanted, seen) == ["- b", "+ new"]


def test_one_that_gives_room_and_port_goes_alone() -> None:
    """`c` would be the cheaper loss for the memory alone, and have no port to give."""
    wanted = manifest(model("a", 400), model("c", 400), model("new", 400))
    held = [running("a", 400, idle=5), running("c", 400, idle=900)]
    seen = world(*held, demands=[waiting("new")], preflights=[full("a")])
    assert steps(wanted, seen) == ["- a", "+ new"]


def test_both_go_where_the_one_with_the_port_is_too_small() -> None:
    wanted = manifest(model("a", 100), model("c", 800), model("new", 500))
    held = [running("a", 100, idle=5), running("c", 800, idle=900)]
    seen = world(*held, demands=[waiting("new")], preflights=[full("a")])
    assert sorted(steps(wanted, seen)) == ["+ new", "- a", "- c"]
    assert steps(wanted, seen)[-1] == "+ new"


@pytest.mark.parametrize("fields", [{"priority": 900}, {"min_resident": 7200.0}])
def test_it_waits_for_one_that_may_not_be_displaced_now(fields: dict[str, Any]) -> None:
    wanted = manifest(model("a", **fields), model("new"))
    seen = world(running("a", 100), demands=[waiting("new")], preflights=[full("a")])
    verdict = plan(wanted, seen, NOW).verdict("new")
    assert verdict is not None
    assert (verdict.outcome, verdict.reason) == (Outcome.BLOCKED, Reason.NO_PORT)
    assert verdict.detail == f"{HELD}: widen machine.ports, or evict one of them"
    assert steps(wanted, seen) == []


def test_nobody_goes_for_a_port_that_comes_free_anyway() -> None:
    """`gone` left the manifest, and is about to be unloaded."""
    wanted = manifest(model("a"), model("new"))
    seen = world(
        running("a", 100), running("gone", 100), demands=[waiting("new")], preflights=[full("a", "gone")]
    )
    assert steps(wanted, seen) == ["- gone"]


def test_nobody_goes_for_one_that_merely_is_warm() -> None:
    wanted = manifest(model("a"), warm("new"))
    assert steps(wanted, world(running("a", 100, idle=900), preflights=[full("a")])) == []


@pytest.mark.parametrize(("asked", "outcome"), [(True, Outcome.BLOCKED), (False, Outcome.COLD)])
def test_it_is_told_at_once_where_pinned_models_have_them(asked: bool, outcome: Outcome) -> None:
    wanted = manifest(pinned("a"), pinned("b"), model("new"))
    demands = [waiting("new")] if asked else []
    seen = world(running("a", 100), running("b", 100), demands=demands, preflights=[full("a", "b")])
    verdict = plan(wanted, seen, NOW).verdict("new")
    assert verdict is not None
    assert (verdict.outcome, verdict.reason) == (outcome, Reason.NOT_STARTABLE)
    assert verdict.detail == f"{HELD}: widen machine.ports, for pinned models keep theirs"


def test_its_own_process_has_one() -> None:
    wanted = manifest(pinned("a"), model("new", digest="new-v2"))
    seen = world(running("a", 100), running("new", 100), demands=[waiting("new")], preflights=[full("a")])
    assert steps(wanted, seen) == ["- new", "+ new"]
