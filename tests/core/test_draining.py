"""Drains that are called off: because nobody needs them any more, or because they hold up what needs no victim."""

from dataclasses import replace

import pytest

from reconciler.core.draining import PATIENCE, overtaking, unneeded
from reconciler.core.machine import STOP_MARGIN, Evicting, Limits, advance
from reconciler.core.plan import plan
from reconciler.core.types import Demand, Evict, Manifest, ModelSpec, Reason, World
from reconciler.loop.drains import Drains
from worlds import NOW, manifest, model, pinned, running, text, waiting, warm, world

A, B, C = model("a", 900), model("b", 500), model("c", 50)
SERVING = Demand("a", active=1)
NEVER = float("inf")


def begun(wanted: Manifest, seen: World) -> Evict:
    """Return the drain that this world calls for."""
    head = plan(wanted, seen, NOW).head
    assert isinstance(head, Evict)
    assert head.drain
    return head


def drain_for_b() -> Evict:
    return begun(manifest(A, B), world(running("a", 900), demands=[SERVING, waiting("b", since=10.0)]))


def look(*demands: Demand, **more: object) -> World:
    return world(running("a", 900), demands=demands, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seen", "over"),
    [
        (look(SERVING, waiting("b", since=12.0)), False),
        # The first of them has left; one who came later takes his place in the line.
        (look(SERVING, waiting("b", since=0.1)), False),
        # What the seal keeps at the door is no reason for anything, and a lease asked for now comes too late.
        (look(Demand("a", active=1, waiting=3, oldest=NOW - 1), waiting("b", since=12.0)), False),
        (look(Demand("a", active=1, waiting=3, oldest=NOW - 1, wanted=True)), True),
        (look(SERVING), True),
        (look(SERVING, Demand("b")), True),
        # A look that shows nothing calls nothing off.
        (look(SERVING, total_mib=None, available_mib=None), False),
    ],
)
def test_a_drain_to_make_room_is_over_when_nobody_waits_for_the_room(seen: World, over: bool) -> None:
    assert unneeded(drain_for_b(), manifest(A, B), seen, NOW + 2) is over


def test_another_victim_in_use_is_no_better_than_the_one_begun_but_an_idle_one_is() -> None:
    """Requests that end change who was used last: without that, two victims would be sealed in turns."""
    wanted = manifest(model("a", 500), model("c", 500), model("b", 500))
    both = [SERVING, Demand("c", active=1), waiting("b", since=12.0)]
    first = world(running("a", 500, idle=9), running("c", 500, idle=5), demands=both)
    drain = begun(wanted, first)
    assert drain.model == "a"
    turned = world(running("a", 500, idle=0), running("c", 500, idle=5), demands=both)
    assert begun(wanted, turned).model == "c"
    assert not unneeded(drain, wanted, turned, NOW)
    rested = world(running("a", 500), running("c", 500, idle=1), demands=[SERVING, waiting("b", since=12.0)])
    assert unneeded(drain, wanted, rested, NOW)


@pytest.mark.parametrize(
    ("after", "over"),
    [
        (Demand("a", active=1, dismissed=True), False),
        # The book takes the wish of the person back when a request or a `load` comes.
        (Demand("a", active=1, waiting=1, oldest=NOW), True),
        (Demand("a", active=1, wanted=True), True),
    ],
)
def test_an_evict_by_hand_is_taken_back_by_whoever_asks_for_the_model(after: Demand, over: bool) -> None:
    drain = begun(manifest(A), look(Demand("a", active=1, dismissed=True)))
    assert drain.reason is Reason.DISMISSED
    assert unneeded(drain, manifest(A), look(after), NOW) is over


def test_new_settings_that_do_not_fit_do_not_make_a_drain_flap() -> None:
    new = model("a", 5000, digest="a-v2")
    drain = begun(manifest(new), look(SERVING))
    assert drain.reason is Reason.DRIFTED
    queued = look(Demand("a", active=1, waiting=1, oldest=NOW))
    assert not unneeded(drain, manifest(new), queued, NOW)
    assert unneeded(drain, manifest(A), queued, NOW), "they were taken back"


@pytest.mark.parametrize(
    ("models", "demand", "other"),
    [
        ((A, B, C), waiting("c"), "c"),
        # One that would itself need the victim, or wait for another drain, overtakes nobody.
        ((A, B, model("c", 200)), waiting("c"), ""),
        ((A, B, C), Demand("c"), ""),
        ((A, B, warm("c", 50)), Demand("c"), ""),
    ],
)
def test_who_needs_no_victim_overtakes_a_drain_that_takes_long(
    models: tuple[ModelSpec, ...], demand: Demand, other: str
) -> None:
    seen, wanted = look(SERVING, waiting("b", since=30.0), demand), manifest(*models)
    drain = drain_for_b()
    assert overtaking(drain, wanted, seen, NOW, NOW + PATIENCE - 0.1) == ""
    assert overtaking(drain, wanted, seen, NOW, NOW + PATIENCE) == other


@pytest.mark.parametrize(
    ("wanted", "demand"),
    [
        (manifest(A, C), Demand("a", active=1, dismissed=True)),
        (manifest(replace(A, digest="a-v2"), C), SERVING),
        (manifest(C), SERVING),
    ],
    ids=["dismissed", "drifted", "removed"],
)
def test_any_drain_can_be_overtaken_and_its_model_is_then_left_alone(
    wanted: Manifest, demand: Demand
) -> None:
    drain = begun(wanted, look(demand))
    seen = look(demand, waiting("c"))
    assert overtaking(drain, wanted, seen, NOW, NOW + PATIENCE) == "c"
    spared = look(replace(demand, spared=drain.reason), waiting("c"))
    assert text(plan(wanted, spared, NOW)).startswith("+ c needs 50 (Demanded)")
    done = world(running("a", 900), running("c", 50), demands=[replace(demand, spared=drain.reason)])
    assert plan(wanted, done, NOW).steps == ()
    idle = world(
        running("a", 900), running("c", 50), demands=[replace(demand, active=0, spared=drain.reason)]
    )
    assert [s.model for s in plan(wanted, idle, NOW).steps] == ["a"], "nobody is served any more"


def test_a_drain_with_an_end_is_put_off_once_for_the_same_wait_and_one_without_again_and_again() -> None:
    wanted, seen = manifest(A, B, C), look(SERVING, waiting("b", since=30.0), waiting("c"))
    state = Evicting(drain_for_b(), NOW, NOW + 500)
    bounded, endless = Drains(), Drains()
    said = "it takes long, and c can be loaded without it"
    for drains, limit in ((bounded, 120.0), (endless, NEVER)):
        assert drains.judge(state, limit, wanted, seen, NOW + 9) == ""
        assert drains.judge(state, limit, wanted, seen, NOW + 10) == said
        again = drains.spare(seen.observation, NOW + 19.9).demands
        assert [d.spared for d in again] == [Reason.MAKE_ROOM, None, None]
        assert drains.next_end(NOW + 19.9) == NOW + 20
        assert drains.spare(seen.observation, NOW + 20) is seen.observation
        assert drains.next_end(NOW + 20) is None
    assert bounded.judge(state, 120.0, wanted, seen, NOW + 40) == ""
    assert endless.judge(state, NEVER, wanted, seen, NOW + 40) == said
    later = look(SERVING, waiting("b", since=3.0), waiting("c"))
    assert bounded.judge(state, 120.0, wanted, later, NOW + 40) == said, "another wait"


def test_what_nobody_needed_is_not_begun_again_at_once_by_a_figure_at_the_edge() -> None:
    """b fits for a moment, because another program gave memory back; then it does not again."""
    wanted, drains = manifest(A, B), Drains()
    waits = [SERVING, waiting("b", since=30.0)]
    state = Evicting(drain_for_b(), NOW, NOW + 500)
    assert drains.judge(state, 120.0, manifest(A, B, mib=1500), look(*waits), NOW) != ""
    seen = look(*waits)
    for after, steps in ((0.0, 0), (9.9, 0), (10.0, 2)):
        spared = replace(seen, observation=drains.spare(seen.observation, NOW + after))
        assert len(plan(wanted, spared, NOW + after).steps) == steps
    pin = manifest(A, pinned("p", 500))
    by_hand = look(Demand("a", active=1, dismissed=True, spared=Reason.MAKE_ROOM))
    assert begun(pin, by_hand).reason is Reason.DISMISSED, "a person need not wait"


def test_an_edited_limit_counts_for_the_eviction_in_progress() -> None:
    busy = Evicting(drain_for_b(), 100.0, 500.0)
    assert advance(busy, Limits(5.0, 3.0), 104.0) == replace(busy, deadline=108.0 + STOP_MARGIN)
    idle = replace(busy, action=replace(busy.action, drain=False))
    assert advance(idle, Limits(5.0, 3.0), 104.0) == replace(idle, deadline=103.0 + STOP_MARGIN)
