"""Runs at the edges of what a trace and a layout can be: each is over, and its figures can be told beforehand."""

from math import inf, nan

import pytest

from reconciler.core.habits import Habits
from reconciler.core.types import Prewarm, Reason, Residency
from reconciler.leases import Admission, QueueLimits
from reconciler.simulate.engine import run
from reconciler.simulate.layout import Speed
from reconciler.simulate.trace import Trace
from simulated_desks import MORNING, Run, layout_of, simulate, spec, trace_of


def outcomes(done: Run) -> list[tuple[str, float]]:
    return [(r.outcome, round(r.waited, 3)) for r in done.requests]


def steps(done: Run) -> list[tuple[str, str, float, float, bool]]:
    return [(a.kind, a.model, a.began, a.ended, a.aborted) for a in done.result.actions]


def test_a_trace_without_requests_is_refused() -> None:
    with pytest.raises(ValueError, match="no requests"):
        run(layout_of(spec("a")), Trace())


def test_without_models_everybody_is_told_so() -> None:
    done = simulate(layout_of(), trace_of((1.0, "a", 1.0), (1.0, "b", 1.0)))
    assert outcomes(done) == [("unknown_model", 0.0)] * 2
    assert done.result.actions == ()
    assert (done.result.began, done.result.ended) == (1.0, 1.0)


@pytest.mark.parametrize("busy", ["nothing", "load", "drain"])
def test_what_can_never_fit_is_refused_at_once_whatever_goes_on(busy: str) -> None:
    """`big` takes more than there is; a load takes 4 s, a drain of `a` as long as its request."""
    models = [spec("a", 6), spec("b", 6), spec("big", 11)]
    rows = [(100.0, "big", 1.0)]
    if busy == "load":
        rows = [(98.0, "a", 1.0), *rows]
    elif busy == "drain":
        rows = [(50.0, "a", 90.0), (60.0, "b", 1.0), *rows]
    done = simulate(layout_of(*models), trace_of(*rows))
    assert outcomes(done)[-1] == ("never_fits", 0.0)
    in_flight = [a.kind for a in done.result.actions if a.began <= 100.0 < a.ended]
    assert in_flight == {"nothing": [], "load": ["load"], "drain": ["evict"]}[busy]


@pytest.mark.parametrize("others", [(), ((130.0, "b", 1.0),)])
def test_a_transient_model_goes_when_it_is_done(others: tuple[tuple[float, str, float], ...]) -> None:
    """It is loaded in 4 s and used for 5; nothing else happens until much later."""
    late = (1000.0, "a", 1.0)
    models = [spec("t", 4, residency=Residency.TRANSIENT), spec("a"), spec("b")]
    done = simulate(layout_of(*models, gib=20), trace_of((100.0, "t", 5.0), *others, late))
    assert ("evict", "t", 109.0, 110.0, False) in steps(done)
    assert {a.reason for a in done.result.actions if a.kind == "evict"} == {Reason.TRANSIENT_DONE}


def test_requests_of_no_length_at_all() -> None:
    done = simulate(layout_of(spec("a"), speeds=Speed(load=0.0, evict=0.0)), trace_of(*[(5.0, "a", 0.0)] * 3))
    assert outcomes(done) == [("served", 0.0)] * 3
    assert done.result.total.busy_seconds == 0.0
    assert done.result.ended == 5.0


@pytest.mark.parametrize("places", [None, 1, 7])
def test_thousands_at_one_instant(places: int | None) -> None:
    """The queue takes 500; those are served as many at a time as there are places."""
    layout = layout_of(spec("a"), limits=QueueLimits(500, 3600.0), admissions={"a": Admission(places)})
    done = simulate(layout, trace_of(*[(9.0, "a", 1.0)] * 3000))
    assert done.result.total.refused == {"queue_full": 2500}
    assert done.result.total.served == 500
    rounds = 1 if places is None else -(-500 // places)
    assert done.result.ended == pytest.approx(9.0 + 4.0 + rounds)
    assert [a.kind for a in done.result.actions] == ["load"]


@pytest.mark.parametrize("at", [0.0, MORNING, 1e9])
def test_a_run_does_not_depend_on_the_day_it_is_on(at: float) -> None:
    rows = ((0.0, "a", 2.0), (0.5, "b", 2.0), (30.0, "a", 0.0))
    models = [spec("a", 6), spec("b", 6)]
    done = simulate(layout_of(*models), trace_of(*[(at + t, m, s) for t, m, s in rows]))
    assert outcomes(done) == [("served", 4.0), ("served", 10.5), ("served", 5.0)]
    assert [(round(a.began - at, 3), round(a.ended - at, 3)) for a in done.result.actions] == [
        (0.0, 4.0),
        (6.0, 7.0),
        (7.0, 11.0),
        (30.0, 31.0),
        (31.0, 35.0),
    ]


def test_a_session_goes_on_after_a_refusal() -> None:
    trace = Trace(models=["big", "stranger", "a"], clients=["anna"])
    for number, think in ((0, nan), (1, 3.0), (2, 2.0)):
        trace.add(10.0, number, 0, think=think, seconds=1.0)
    done = simulate(layout_of(spec("a"), spec("big", 11)), trace)
    assert [r.outcome for r in done.requests] == ["never_fits", "unknown_model", "served"]
    assert [r.came for r in done.requests] == [10.0, 13.0, 15.0]


def test_a_name_that_leads_elsewhere_is_counted_with_the_model_it_leads_to() -> None:
    layout = layout_of(spec("a"), routes={"gpt": "a", "lost": "nowhere"})
    done = simulate(layout, trace_of((1.0, "a", 1.0), (1.0, "gpt", 1.0), (1.0, "lost", 1.0)))
    assert {name: w.requests for name, w in done.result.models.items()} == {"a": 2, "nowhere": 1}
    assert done.result.total.refused == {"unknown_model": 1}
    assert done.result.loads == 1


@pytest.mark.parametrize(("limit", "gone"), [(5.0, "cut"), (inf, "served"), (0.0, "cut")])
def test_a_drain_is_cut_at_its_limit_and_not_before(limit: float, gone: str) -> None:
    """`a` is served from 104 to 304; `b` comes at 109, and has patience for 10 s."""
    models = [spec("a", 6, drain_timeout=limit, patience=10.0), spec("b", 6, patience=10.0)]
    layout = layout_of(*models, limits=QueueLimits(64, 1000.0))
    done = simulate(layout, trace_of((100.0, "a", 200.0), (109.0, "b", 1.0)))
    first = done.requests[0]
    drain = next(a for a in done.result.actions if a.kind == "evict")
    assert drain.began == pytest.approx(119.0)
    assert first.outcome == gone
    assert first.ends == pytest.approx(119.0 + limit if gone == "cut" else 304.0)
    assert done.requests[1].outcome == "served"


def test_a_drain_that_nobody_needs_any_more_is_called_off() -> None:
    """Who waits for it goes before it is over: `a` serves on, and those who came meanwhile."""
    models = [spec("a", 6, drain_timeout=inf), spec("b", 6, patience=10.0)]
    layout = layout_of(*models, limits={"a": QueueLimits(), "b": QueueLimits(64, 20.0)})
    done = simulate(layout, trace_of((100.0, "a", 60.0), (110.0, "b", 1.0), (125.0, "a", 1.0)))
    assert outcomes(done) == [("served", 4.0), ("queue_timeout", 20.0), ("served", 5.0)]
    assert steps(done)[1:] == [("evict", "a", 120.0, 130.0, True)]


def learned(*models: str) -> Habits:
    """Return habits by which models are used every ten minutes, one after the other, day after day."""
    habits = Habits()
    for turn in range(0, 12 * 3600, 600):
        for place, model in enumerate(models):
            at = MORNING - 12 * 3600 + turn + place
            habits.arrived(model, at)
            habits.ended(model, at + 0.5)
    return habits


@pytest.mark.parametrize("comes", [0.0, 1.0, 3.999, 4.5])
@pytest.mark.parametrize("who", ["other", "same"])
def test_a_load_in_advance_gives_way_at_any_time(comes: float, who: str) -> None:
    """`p` is loaded in advance, 4 s long, as soon as that may be; whoever asks for `b` then gets the slot at once."""
    layout = layout_of(spec("a", 2), spec("b", 3), spec("p", 3), gib=8, prewarm=Prewarm.FREE)
    first, last = (MORNING, "a", 0.0), (MORNING + 100.0, "a", 0.0)
    # The one begun at the very beginning gave way to the first request; the next comes a minute after the load of `a`.
    alone = simulate(layout, trace_of(first, last), learned("p"))
    begun = [a for a in alone.result.actions if a.reason is Reason.PREWARM]
    assert [(a.began - MORNING, a.ended - MORNING, a.aborted) for a in begun] == [
        (0.0, 0.0, True),
        (64.0, 68.0, False),
    ]
    came = MORNING + 64.0 + comes
    done = simulate(layout, trace_of(first, (came, "b" if who == "other" else "p", 1.0), last), learned("p"))
    again = [a for a in done.result.actions if a.reason is Reason.PREWARM][1]
    gives_way = who == "other" and comes < 4.0
    assert (again.began - MORNING, again.aborted) == (64.0, gives_way)
    assert again.ended == (came if gives_way else MORNING + 68.0)
    assert done.requests[1].waited == pytest.approx(4.0 if who == "other" else max(0.0, 4.0 - comes))
