"""Which simulated evictions were one too many: by the rule, and from the moment, that the live loop goes by."""

import pytest

from reconciler.core.types import Demand, Evict, Load, Reason
from reconciler.simulate.clock import Clock
from reconciler.simulate.log import Log

BEGAN = 100.0
#: Seconds an eviction takes here.
TAKES = 5.0


def evicted(
    came: float | None,
    reason: Reason = Reason.MAKE_ROOM,
    door: tuple[Demand, ...] = (),
    *,
    aborted: bool = False,
) -> Log:
    """Return what is known of an eviction whose model was asked for `came` seconds after its begin."""
    clock = Clock(BEGAN)
    log = Log(clock)
    log.begins(Evict("chat", 1, 0, 1 << 30, reason, "coder"), door)
    if came is not None and came < TAKES:
        clock.now = BEGAN + came
        log.came(0, "chat", True)
    clock.now = BEGAN + TAKES
    log.ends(aborted=aborted)
    if came is not None and came >= TAKES:
        clock.now = BEGAN + came
        log.came(0, "chat", True)
    clock.now += 1.0
    log.came(1, "chat", True)  # it is the first that counts
    return log


@pytest.mark.parametrize("reason", list(Reason))
def test_only_what_was_chosen_to_go_is_regretted(reason: Reason) -> None:
    chosen = {Reason.MAKE_ROOM, Reason.LESS_LIKELY, Reason.OVER_BUDGET, Reason.MEMORY_PRESSURE}
    [action] = evicted(20.0, reason).actions
    assert (action.wanted_after, action.regretted) == (20.0, reason in chosen)


@pytest.mark.parametrize(
    ("came", "wanted_after", "regretted"),
    [(2.0, 2.0, True), (20.0, 20.0, True), (60.0, 60.0, True), (60.5, 60.5, False), (900.0, 900.0, False)],
)
def test_seconds_count_from_the_begin_of_the_eviction(
    came: float, wanted_after: float, regretted: bool
) -> None:
    [action] = evicted(came).actions
    assert (action.wanted_after, action.regretted) == (wanted_after, regretted)


@pytest.mark.parametrize("door", [Demand("chat", waiting=1), Demand("chat", gated=2)])
def test_a_model_with_requests_at_its_door_is_wanted_at_once(door: Demand) -> None:
    other = Demand("coder", waiting=3)
    assert evicted(20.0, door=(door, other)).actions[0].wanted_after == 0.0
    assert evicted(20.0, door=(other,)).actions[0].wanted_after == 20.0


def test_what_was_called_off_is_not_regretted() -> None:
    log = evicted(2.0, aborted=True)
    assert [(a.wanted_after, a.regretted) for a in log.actions] == [(None, False)]


def test_a_model_that_was_loaded_in_advance_meanwhile_is_wanted_again_as_well() -> None:
    clock = Clock(BEGAN)
    log = Log(clock)
    log.begins(Evict("chat", 1, 0, 1 << 30, Reason.MAKE_ROOM, "coder"))
    log.ends()
    log.begins(Load("chat", "d", 1 << 30, Reason.PREWARM))
    clock.now += 30.0
    log.ends()
    clock.now += 10.0
    log.came(0, "chat", False)
    assert (log.actions[0].wanted_after, log.actions[1].used_after) == (40.0, 10.0)
    assert log.actions[0].regretted
