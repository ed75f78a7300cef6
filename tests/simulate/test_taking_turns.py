"""How often models that exclude each other take turns: what docs/scheduling.md says is the most."""

from itertools import pairwise
from math import nan

import pytest
from hypothesis import given, settings

from reconciler.core.types import Reason
from reconciler.simulate.layout import Speed
from reconciler.simulate.result import Action
from reconciler.simulate.trace import Trace
from simulated_desks import CLIENTS, MORNING, Run, layout_of, runs, simulate, spec, trace_of

EPS = 1e-6
SECONDS = 120
#: A model in use is left alone for so many seconds after its load at least.
LEAST = 10.0


def loads(done: Run) -> list[Action]:
    return [action for action in done.result.actions if action.kind == "load"]


@settings(max_examples=25)
@given(runs())
def test_nobody_is_loaded_on_demand_more_often_than_somebody_came(done: Run) -> None:
    for name in done.specs:
        came = sum(request.model == name for request in done.requests)
        assert sum(a.model == name and a.reason is Reason.DEMANDED for a in loads(done)) <= came


def test_one_in_use_all_the_time_and_another_take_two_turns_in_ten_seconds_at_most() -> None:
    """Requests to `a` overlap; one client of `b` asks again as soon as it is answered."""
    layout = layout_of(spec("a", 6), spec("b", 6), speeds=Speed(load=1.0))
    done = simulate(layout, overlapping_and_one_after_the_other())
    within = [action for action in loads(done) if action.began <= MORNING + SECONDS]
    assert len(within) <= 2 * SECONDS / LEAST + 1
    assert len(within) >= SECONDS / LEAST / 2, "neither starves"
    assert all(request.was_served for request in done.requests)
    assert max(request.waited for request in done.requests) <= LEAST + 5.0


def test_two_in_use_all_the_time_each_stay_for_ten_seconds_after_their_load() -> None:
    trace = Trace(models=["a", "b"], clients=CLIENTS)
    for n in range(SECONDS * 5):
        trace.add(MORNING + 0.2 * n, 0, 0, seconds=0.3)
        trace.add(MORNING + 0.2 * n, 1, 1, seconds=0.3)
    done = simulate(layout_of(spec("a", 6), spec("b", 6), speeds=Speed(load=1.0)), trace)
    turns = [(came, goes) for came, goes in pairwise(done.result.actions) if goes.kind == "evict"]
    assert len(turns) >= SECONDS / LEAST / 2, "neither starves"
    for came, goes in turns:
        assert (came.kind, came.model) == ("load", goes.model)
        if goes.began <= MORNING + SECONDS:  # later there may be no more requests
            assert goes.began - came.ended >= LEAST - EPS


@pytest.mark.parametrize("rounds", [3, 20])
def test_two_asked_in_turns_swap_with_each_request_and_no_more(rounds: int) -> None:
    asked = [(MORNING + 30.0 * n, "ab"[n % 2], 1.0) for n in range(2 * rounds)]
    done = simulate(layout_of(spec("a", 6), spec("b", 6)), trace_of(*asked))
    assert [action.model for action in loads(done)] == [model for _, model, _ in asked]


def overlapping_and_one_after_the_other() -> Trace:
    """Return a trace of steady requests to `a`, and of a client of `b` that sends each when the last is answered."""
    trace = Trace(models=["a", "b"], clients=CLIENTS)
    for n in range(SECONDS * 5):
        trace.add(MORNING + 0.2 * n, 0, 0, seconds=0.3)
        trace.add(MORNING + 0.2 * n, 1, 1, think=0.0 if n else nan, seconds=0.3)
    return trace
