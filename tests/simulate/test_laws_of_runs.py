"""What must hold of every simulated run, whatever the models, the machine and the requests: each test is one law.

They are judged by what came of a run, and by figures worked out here once more, not by what the core says of itself.
"""

from bisect import bisect_right
from collections import Counter
from itertools import pairwise
from math import isnan

import pytest
from hypothesis import given, settings

from reconciler.core.types import Evict, MayPreempt, ModelSpec, Prewarm, Reason, Residency
from reconciler.simulate.engine import run
from reconciler.simulate.result import Action, Result, Waits
from simulated_desks import Request, Run, runs

EPS = 1e-6
#: A loop in which somebody waits for a busy model looks so seldom, and after a load it notes things first.
AT_ONCE = 0.1 + 0.25 + EPS
LAWS = settings(max_examples=25)
FOR_SOMEBODY = (Reason.MAKE_ROOM, Reason.LESS_LIKELY)
MINUTE, HOUR = 60.0, 3600.0


def size(spec: ModelSpec) -> int:
    return spec.steady or 0


def peak(spec: ModelSpec) -> int:
    return max(size(spec), spec.peak or 0)


def there(done: Run) -> dict[str, list[tuple[float, float]]]:
    """Return from the actions when each model held memory: from the beginning of its load until it was gone."""
    spans: dict[str, list[tuple[float, float]]] = {name: [] for name in done.specs}
    for action in done.result.actions:
        own = spans[action.model]
        if action.kind == "load":
            own.append((action.began, action.ended if action.aborted else done.result.ended))
        elif not action.aborted:
            own[-1] = (own[-1][0], action.ended)
    return spans


def stopped(done: Run, action: Action) -> float:
    """Return when the process of a model that went was told to end: its drain was over."""
    return action.ended - done.layout.speeds[action.model].evict


def waits_at(request: Request, at: float) -> bool:
    """Whether a request waited just before and just after a moment."""
    return request.came < at - EPS and request.begins > at + EPS


# -- the slot and the memory -------------------------------------------------------------------------------------------


@LAWS
@given(runs())
def test_one_action_at_a_time(done: Run) -> None:
    for before, after in pairwise(done.result.actions):
        assert before.began <= before.ended <= after.began + EPS


@LAWS
@given(runs())
def test_memory_is_never_exceeded_nor_a_model_loaded_twice(done: Run) -> None:
    spans = there(done)
    for name, own in spans.items():
        for before, after in pairwise(own):
            assert before[1] <= after[0] + EPS, name
    for action in done.result.actions:
        if action.kind != "load":
            continue
        held = sum(
            size(done.specs[name])
            for name, own in spans.items()
            if name != action.model and any(b < action.began - EPS and e > action.began + EPS for b, e in own)
        )
        assert held + peak(done.specs[action.model]) <= done.result.budget
    assert 0 <= done.result.held_mean <= done.result.held_most <= done.result.budget


@LAWS
@given(runs())
def test_residency_is_what_the_actions_say(done: Run) -> None:
    spans: dict[str, list[tuple[float, float]]] = {name: [] for name in done.specs}
    for action in done.result.actions:
        if action.aborted:
            continue
        if action.kind == "load":
            spans[action.model].append((action.ended, done.result.ended))
        else:
            spans[action.model][-1] = (spans[action.model][-1][0], action.ended)
    assert done.result.residency == {name: tuple(own) for name, own in spans.items()}


# -- who goes ----------------------------------------------------------------------------------------------------------


@LAWS
@given(runs())
def test_who_goes_for_whom(done: Run) -> None:
    """Nobody who is pinned, nobody of a higher priority, and an equal one only for whom it may."""
    for action in done.result.actions:
        if action.kind != "evict":
            continue
        victim = done.specs[action.model]
        assert victim.residency is not Residency.PINNED
        assert (action.reason in FOR_SOMEBODY) == bool(action.for_model)
        if not action.for_model:
            assert action.reason in (Reason.IDLE_EXPIRED, Reason.TRANSIENT_DONE)
            continue
        claimant = done.specs[action.for_model]
        if claimant.residency is Residency.PINNED:
            continue
        assert claimant.may_preempt is not MayPreempt.NONE
        assert victim.priority <= claimant.priority
        assert claimant.may_preempt is MayPreempt.EQUAL or victim.priority < claimant.priority


@LAWS
@given(runs())
def test_nobody_is_stopped_while_served_unless_the_drain_took_its_time(done: Run) -> None:
    for action in done.result.actions:
        if action.kind != "evict" or action.aborted:
            continue
        end, limit = stopped(done, action), done.specs[action.model].drain_timeout
        for request in done.requests:
            if request.model != action.model or not request.was_served:
                continue
            # Nobody begins to be served from the beginning of the drain until the model is gone, nor goes on then.
            assert not action.began + EPS < request.begins < action.ended - EPS
            if request.begins < action.began + EPS and request.ends > action.began + EPS:
                assert request.ends <= end + EPS
                if request.outcome == "cut":
                    assert end >= action.began + limit - EPS
        assert end <= action.began + limit + EPS
    cut = [r for r in done.requests if r.outcome == "cut"]
    ends = {(a.model, round(stopped(done, a), 6)) for a in done.result.actions if a.kind == "evict"}
    assert all((r.model, round(r.ends, 6)) in ends for r in cut)


@LAWS
@given(runs())
def test_who_is_served_is_served_by_a_model_that_is_there(done: Run) -> None:
    for request in done.requests:
        if request.was_served:
            stays = done.result.residency[request.model]
            assert any(b - EPS <= request.begins and request.ends <= e + EPS for b, e in stays)


@LAWS
@given(runs())
def test_who_was_loaded_a_moment_ago_stays(done: Run) -> None:
    """For `min_resident`, and for `cooldown` if it had to go before."""
    loaded: dict[str, float] = {}
    displaced: set[str] = set()
    for action in done.result.actions:
        spec = done.specs[action.model]
        if action.kind == "load":
            loaded[action.model] = action.ended
        elif action.reason in FOR_SOMEBODY:
            stays = max(spec.min_resident, spec.cooldown if action.model in displaced else 0.0)
            assert action.began >= loaded[action.model] + stays - EPS
            if not action.aborted:
                displaced.add(action.model)


@LAWS
@given(runs())
def test_nobody_goes_in_vain(done: Run) -> None:
    """Whoever a model went for is loaded next, unless nobody waits for it any more, or a more urgent one came.

    Or unless somebody came meanwhile for another one that would have had to go as well.
    """
    actions, ended = done.result.actions, done.result.ended
    for place, action in enumerate(actions):
        if action.reason not in FOR_SOMEBODY or action.aborted:
            continue
        claimant = done.specs[action.for_model]
        following = next(
            (a for a in actions[place + 1 :] if not (a.kind == "evict" and a.for_model == claimant.name)),
            None,
        )
        if following is not None and (following.kind, following.model) == ("load", claimant.name):
            continue
        at = ended if following is None else following.began
        if action.reason is Reason.LESS_LIKELY:
            # Any request comes before what is only likely.
            assert any(r.came <= at + EPS and r.begins > action.began - EPS for r in done.requests) or (
                following is None
            )
            continue
        if following is None or not any(r.model == claimant.name and waits_at(r, at) for r in done.requests):
            continue
        if any(action.began - EPS <= r.came <= at + EPS and r.model != claimant.name for r in done.requests):
            continue
        other = done.specs[following.for_model or following.model]
        outranks = other.priority > claimant.priority or other.residency is Residency.PINNED
        assert outranks or (not following.for_model and following.kind == "evict"), (action, following)


@LAWS
@given(runs())
def test_no_victim_could_be_left_out(done: Run) -> None:
    for _, made in done.plans:
        room, freed = made.account.free or 0, dict[str, list[int]]()
        for step in made.steps:
            if isinstance(step, Evict):
                room += step.frees
                if step.reason in FOR_SOMEBODY:
                    freed.setdefault(step.for_model or "", []).append(step.frees)
                continue
            assert step.needs <= room
            assert all(room - frees < step.needs for frees in freed.pop(step.model, []))
            room -= step.size
        assert not freed


# -- loads in advance --------------------------------------------------------------------------------------------------


@LAWS
@given(runs())
def test_loads_in_advance_keep_their_pace_and_are_nobodys_burden(done: Run) -> None:
    mode, actions = done.layout.manifest.prewarm, done.result.actions
    begun = [a.began for a in actions if a.reason is Reason.PREWARM]
    if mode is Prewarm.OFF:
        assert not begun
    if mode is not Prewarm.FULL:
        assert not any(a.reason is Reason.LESS_LIKELY for a in actions)
    assert all(after - before >= MINUTE - EPS for before, after in pairwise(begun))
    assert all(bisect_right(begun, at + HOUR - EPS) - place <= 20 for place, at in enumerate(begun))
    for action in actions:
        if action.reason in (Reason.PREWARM, Reason.LESS_LIKELY):
            assert not any(waits_at(r, action.began) for r in done.requests)
        if action.reason is Reason.PREWARM and not action.aborted:
            # Who came for another model meanwhile broke it off, unless somebody came for this one.
            waiting = [r for r in done.requests if waits_at(r, action.ended) and r.cold > 0]
            others = [r for r in waiting if r.model != action.model and r.came >= action.began]
            own = [r for r in done.requests if r.model == action.model and r.came < action.ended - EPS]
            # It is served as soon as the load is over.
            assert not others or any(r.begins > action.ended - EPS for r in own)


# -- requests ----------------------------------------------------------------------------------------------------------


@LAWS
@given(runs())
def test_every_request_is_over_exactly_once(done: Run) -> None:
    assert done.over == dict.fromkeys(range(len(done.trace)), 1)
    known = {"served", "cut", "queue_full", "queue_timeout", "never_fits", "unknown_model"}
    for request in done.requests:
        assert request.outcome in known
        assert not isnan(request.came)
        assert (request.outcome == "unknown_model") == (request.model not in done.specs)
        if request.outcome == "served":
            assert request.served == pytest.approx(done.trace.seconds[request.row])
        elif request.outcome != "cut":
            assert request.served == 0.0


@LAWS
@given(runs())
def test_sessions_go_on_when_an_answer_came(done: Run) -> None:
    last: dict[int, Request] = {}
    for request in done.requests:
        client, think = done.trace.client[request.row], done.trace.think[request.row]
        before = last.get(client)
        if before is None or isnan(think):
            assert request.came == pytest.approx(done.trace.at[request.row])
        else:
            assert request.came == pytest.approx(before.ends + think)
        last[client] = request


@LAWS
@given(runs())
def test_every_wait_has_an_end(done: Run) -> None:
    for request in done.requests:
        if request.model not in done.specs:
            continue
        limit = done.layout.limits[request.model].timeout
        assert 0 <= request.waited <= limit + EPS
        if request.outcome == "queue_timeout":
            assert request.waited == pytest.approx(limit)
        if request.outcome in ("queue_full", "unknown_model"):
            assert request.waited == 0.0
        if not isnan(request.cold):
            assert -EPS <= request.cold <= request.waited + EPS


@LAWS
@given(runs())
def test_what_can_never_fit_is_refused_at_once_and_nothing_else_is(done: Run) -> None:
    pinned = [s for s in done.specs.values() if s.residency is Residency.PINNED]
    # Of pinned models that do not fit together one stays out, and is in nobody's way.
    all_fit = sum(map(peak, pinned)) <= done.result.budget
    for request in done.requests:
        spec = done.specs.get(request.model)
        if spec is None:
            continue
        others = sum(size(s) for s in pinned if s.name != spec.name)
        if all_fit and spec.residency is not Residency.PINNED and peak(spec) + others > done.result.budget:
            assert request.outcome in ("never_fits", "queue_full")
        if request.outcome == "never_fits":
            assert request.waited <= AT_ONCE
            # A pinned one may fit, and yet leave no room to load another of them again.
            stays_out = spec.residency is Residency.PINNED and not all_fit
            assert stays_out or peak(spec) + others > done.result.budget


# -- figures -----------------------------------------------------------------------------------------------------------


def added(parts: list[Waits]) -> tuple[object, ...]:
    refused: Counter[str] = Counter()
    for part in parts:
        refused.update(part.refused)
    sums = [sum(getattr(p, field) for p in parts) for field in ("requests", "served", "cold")]
    seconds = [
        round(sum(getattr(p, field) for p in parts), 3)
        for field in ("cold_seconds", "wait_seconds", "busy_seconds")
    ]
    return (*sums, *seconds, max((p.longest for p in parts), default=0.0), sorted(refused.items()))


@LAWS
@given(runs())
def test_models_and_clients_add_up(done: Run) -> None:
    result = done.result
    assert added([result.total]) == added([*result.models.values()]) == added([*result.clients.values()])
    assert result.total.requests == len(done.trace)
    assert result.total.served + sum(result.total.refused.values()) == len(done.trace)
    for part in (result.total, *result.models.values(), *result.clients.values()):
        assert part.p50 <= part.p95 <= part.longest
    took = {
        kind: sum(a.ended - a.began for a in result.actions if a.kind == kind) for kind in ("load", "evict")
    }
    assert took == pytest.approx({"load": result.load_seconds, "evict": result.evict_seconds})


@LAWS
@given(runs())
def test_the_same_again_gives_the_same(done: Run) -> None:
    again: Result = run(done.layout, done.trace)
    assert again == done.result


# -- nobody waits in vain ----------------------------------------------------------------------------------------------


def moments(done: Run) -> list[float]:
    """Return all times at which anything changed: in between, nothing does."""
    times = {done.result.began, done.result.ended}
    for action in done.result.actions:
        times |= {action.began, action.ended}
    for request in done.requests:
        times |= {request.came, request.begins, request.ends}
    return sorted(times)


def slot_is_idle(done: Run, at: float) -> bool:
    """Whether nothing is in flight; a step that was begun and not over when the run ended is in no list of actions."""
    actions = done.result.actions
    if any(a.began <= at < a.ended for a in actions):
        return False
    last = max((w.observation.at for w, made in done.plans if made.head is not None), default=at)
    return at < last or any(a.began >= last - EPS for a in actions)


def could_be_loaded(done: Run, name: str, at: float) -> bool:
    """Whether a model fits beside those that it may not displace at a moment when nothing is in flight."""
    claimant, room = done.specs[name], done.result.budget
    if claimant.residency is Residency.PINNED:
        return False
    for other, stays in done.result.residency.items():
        spec = done.specs[other]
        stay = next((begin for begin, end in stays if begin <= at < end), None)
        if stay is None:
            continue
        may = {
            MayPreempt.NONE: False,
            MayPreempt.LOWER: spec.priority < claimant.priority,
            MayPreempt.EQUAL: spec.priority <= claimant.priority,
        }[claimant.may_preempt]
        used = any(r.model == other and r.came <= at < r.ends for r in done.requests)
        settled = at >= stay + max(spec.min_resident, spec.cooldown)
        if not may or used or not settled or spec.residency is Residency.PINNED:
            room -= size(spec)
    gone = [end for _, end in done.result.residency[name] if end <= at]
    return peak(claimant) <= room and (not gone or at >= gone[-1] + claimant.reload_after)


@LAWS
@given(runs())
def test_nobody_waits_while_the_slot_is_idle_and_there_is_room(done: Run) -> None:
    """So nobody is refused for the time it waited who could have been served in it."""
    pinned = [n for n, s in done.specs.items() if s.residency is Residency.PINNED]
    for begin, end in pairwise(moments(done)):
        at = (begin + end) / 2
        if end - begin <= AT_ONCE or not slot_is_idle(done, at):
            continue
        there = {n for n, stays in done.result.residency.items() if any(b <= at < e for b, e in stays)}
        waiting = {r.model for r in done.requests if waits_at(r, at) and r.model in done.specs}
        lacking = sorted(waiting - there)
        if not lacking or not there.issuperset(pinned):
            continue
        first = max(done.specs[name].priority for name in lacking)
        urgent = [name for name in lacking if done.specs[name].priority == first]
        # Of several that are as urgent, room may be kept for one of them.
        assert len(urgent) > 1 or not could_be_loaded(done, urgent[0], begin)


@LAWS
@given(runs())
def test_nobody_waits_for_a_model_that_is_there_and_has_places(done: Run) -> None:
    for begin, end in pairwise(moments(done)):
        at = (begin + end) / 2
        going = {a.model for a in done.result.actions if a.kind == "evict" and a.began <= at < a.ended}
        for name, stays in done.result.residency.items():
            admission = done.layout.admissions[name]
            if admission.gates or name in going or not any(b <= begin and end <= e for b, e in stays):
                continue
            served = sum(r.model == name and r.was_served and r.begins <= at < r.ends for r in done.requests)
            if admission.concurrency is None or served < admission.concurrency:
                assert not any(r.model == name and waits_at(r, at) for r in done.requests)


@LAWS
@given(runs())
def test_a_transient_model_goes_when_its_last_request_has_ended(done: Run) -> None:
    """As soon as the slot is free, or somebody needs it."""
    for begin, end in pairwise(moments(done)):
        at = (begin + end) / 2
        if end - begin <= AT_ONCE or not slot_is_idle(done, at):
            continue
        for name, stays in done.result.residency.items():
            if done.specs[name].residency is not Residency.TRANSIENT:
                continue
            since = next((b for b, e in stays if b <= at < e), None)
            mine = [r for r in done.requests if r.model == name]
            was_used = any(r.was_served and since is not None and since - EPS <= r.begins <= at for r in mine)
            in_use = any(r.came <= at < r.ends for r in mine)
            assert not was_used or in_use
