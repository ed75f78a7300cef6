"""The state machine: the full product of states and events, the guards of `begin`, and random histories."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from reconciler.core import book, machine
from reconciler.core.machine import (
    Aborted,
    CannotBegin,
    Deadline,
    Event,
    Evicting,
    Exited,
    Failed,
    Halt,
    Halted,
    Idle,
    IllegalTransition,
    Limits,
    Loading,
    Progressed,
    Ready,
    Recovered,
    Settling,
    State,
)
from reconciler.core.plan import plan
from reconciler.core.types import Demand, Evict, Load, Manifest, ModelSpec, Plan, Reason, Residency, World
from worlds import MIB, NOW, manifest, model, perform, pinned, running, waiting, warm, world

LOAD = Load("a", "a-v1", 100, Reason.DEMANDED)
EVICT = Evict("b", 7, 1, 100, Reason.MAKE_ROOM, "a")
SETTLE = Settling("b", 50, NOW, NOW + machine.SETTLE_SECONDS)

STATES: list[State] = [
    Idle(),
    Evicting(EVICT, 0.0, 1.0),
    Settling("b", 5, 0.0, 1.0),
    Loading(LOAD, 0.0, 1.0),
    Halted("over"),
]
EVENTS: list[Event] = [
    Exited(50),
    Aborted(),
    Recovered(),
    Deadline(),
    Ready(),
    Progressed(0.5, 1.0),
    Limits(2.0, 3.0),
    Failed(50),
    Halt("asked"),
]

#: All that may happen. Every other pair is a fault of the caller.
LEGAL: dict[tuple[str, str], State] = {
    ("Evicting", "Exited"): SETTLE,
    ("Evicting", "Failed"): SETTLE,
    ("Evicting", "Aborted"): Idle(),
    ("Evicting", "Limits"): Evicting(EVICT, 0.0, 3.0 + machine.STOP_MARGIN),
    ("Settling", "Recovered"): Idle(),
    ("Settling", "Deadline"): Idle(),
    ("Loading", "Ready"): Idle(),
    ("Loading", "Progressed"): Loading(LOAD, 0.0, 1.5),
    ("Loading", "Failed"): Settling("a", 50, NOW, NOW + machine.SETTLE_SECONDS),
    ("Loading", "Deadline"): Settling("a", None, NOW, NOW + machine.SETTLE_SECONDS),
    **{(type(s).__name__, "Halt"): Halted("asked") for s in STATES},
    ("Halted", "Halt"): Halted("over"),
}


@pytest.mark.parametrize("state", STATES, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("event", EVENTS, ids=lambda e: type(e).__name__)
def test_every_pair_of_state_and_event(state: State, event: Event) -> None:
    expected = LEGAL.get((type(state).__name__, type(event).__name__))
    if expected is None:
        with pytest.raises(IllegalTransition):
            machine.advance(state, event, NOW)
    else:
        assert machine.advance(state, event, NOW) == expected


@pytest.mark.parametrize("state", STATES[1:], ids=lambda s: type(s).__name__)
def test_nothing_begins_while_something_is_in_flight(state: State) -> None:
    wanted, seen = manifest(warm("a")), world()
    made = plan(wanted, seen, NOW)
    assert made.head is not None
    with pytest.raises(CannotBegin):
        machine.begin(state, made, seen, _specs(wanted), NOW)
    assert isinstance(machine.decide(state, made, None), machine.Wait)


def test_a_plan_for_an_older_look_is_stale() -> None:
    wanted, seen = manifest(warm("a"), warm("b")), world()
    made = plan(wanted, seen, NOW)
    assert made.head is not None
    moved_on = perform(made.head, wanted, seen)
    with pytest.raises(CannotBegin, match="look 1, the newest is 2"):
        machine.begin(Idle(), made, moved_on, _specs(wanted), NOW)


def test_a_load_that_does_not_fit_and_a_pinned_victim_cannot_begin_even_if_a_plan_said_so() -> None:
    wanted = manifest(model("a", 900), pinned("p", 500))
    seen = world(running("p", 500))
    honest = plan(wanted, seen, NOW)
    for lie in (
        Load("a", "a-v1", 900 * MIB, Reason.DEMANDED),
        Evict("p", seen.observation.instances[0].pid, 1, 500 * MIB, Reason.MAKE_ROOM, "a"),
        Evict("p", 424242, 1, 500 * MIB, Reason.MAKE_ROOM, "a"),
    ):
        forged = Plan(honest.generation, honest.seq, honest.account, (lie,), honest.verdicts)
        with pytest.raises(CannotBegin):
            machine.begin(Idle(), forged, seen, _specs(wanted), NOW)


def test_deadlines_come_from_the_model() -> None:
    wanted = manifest(
        warm("a", load_timeout=42.0), model("gone", drain_timeout=5.0, stop_grace=3.0, digest="gone-v2")
    )
    loading = machine.begin(Idle(), plan(wanted, world(), NOW), world(), _specs(wanted), NOW)
    assert loading.deadline == NOW + 42
    busy = world(running("gone", 100), running("a", 100), demands=[Demand("gone", active=1)])
    evicting = machine.begin(Idle(), plan(wanted, busy, NOW), busy, _specs(wanted), NOW)
    assert evicting.deadline == NOW + 5 + 3 + machine.STOP_MARGIN


@pytest.mark.parametrize(
    ("progressed_at", "deadline"),
    [(100.0, 102.0), (101.5, 103.5), (117.9, 119.9), (118.0, 120.0), (119.9, 120.0), (500.0, 120.0)],
)
def test_a_load_that_goes_on_gets_time_but_not_for_ever(progressed_at: float, deadline: float) -> None:
    """With a patience of 2 s: it ends 2 s after its last sign of life, and after 20 s in any case."""
    assert machine.LOAD_CAP == 10
    assert machine.load_deadline(100.0, progressed_at, 2.0) == deadline
    moved = machine.advance(Loading(LOAD, 100.0, 102.0), Progressed(progressed_at, 2.0), NOW)
    assert moved == Loading(LOAD, 100.0, deadline)


@pytest.mark.parametrize(
    ("expect", "available", "back"),
    [(50, 50, True), (50, 49, False), (None, 10**9, False), (50, None, False)],
)
def test_memory_is_back_only_when_it_is_seen(expect: int | None, available: int | None, back: bool) -> None:
    assert machine.recovered(expect, available) is back


def test_most_of_what_a_process_held_must_come_back() -> None:
    gib = 1 << 30
    assert machine.expected(10 * gib, 5 * gib) == 14 * gib - machine.SETTLE_SLACK
    assert machine.expected(None, 5 * gib) is None


def _specs(wanted: Manifest) -> dict[str, ModelSpec]:
    return {m.name: m for m in wanted.models}


class RandomHistory(RuleBasedStateMachine):
    """Requests come and go, loads fail, models die; whatever happens, the laws hold after every step."""

    NAMES = ("a", "b", "c", "p")
    WANTED = manifest(model("a", 600), warm("b", 300), model("c", 500, priority=750), pinned("p", 200))

    @initialize()
    def start(self) -> None:
        self.world: World = world()
        self.state: State = Idle()

    def _demand(self, name: str, **changes: int) -> None:
        demands = {d.model: d for d in self.world.observation.demands}
        old = demands.get(name, Demand(name))
        waits = changes.get("waiting", old.waiting)
        demands[name] = Demand(
            name, active=changes.get("active", old.active), waiting=waits, oldest=NOW - 20 if waits else None
        )
        self.world = world(*self.world.observation.instances, demands=demands.values())

    @rule(name=st.sampled_from(NAMES))
    def request(self, name: str) -> None:
        up = any(i.model == name and i.ready for i in self.world.observation.instances)
        sealed = isinstance(self.state, Evicting) and self.state.action.model == name
        self._demand(name, **({"active": 1} if up and not sealed else {"waiting": 1}))

    @rule(name=st.sampled_from(NAMES))
    def leave(self, name: str) -> None:
        self._demand(name, active=0, waiting=0)

    @precondition(lambda self: isinstance(self.state, Idle))
    @rule()
    def act(self) -> None:
        made = plan(self.WANTED, self.world, NOW)
        decision = machine.decide(self.state, made, None)
        if isinstance(decision, machine.Act):
            specs = {m.name: m for m in self.WANTED.models}
            self.state = machine.begin(self.state, made, self.world, specs, NOW)

    @precondition(lambda self: isinstance(self.state, Loading | Evicting))
    @rule(works=st.booleans())
    def finish(self, works: bool) -> None:
        assert isinstance(self.state, Loading | Evicting)
        action = self.state.action
        if works:
            self.world = perform(action, self.WANTED, self.world)
            done: Event = Ready() if isinstance(action, Load) else Exited(None)
        else:
            done = Failed(None)
        self.state = machine.advance(self.state, done, NOW)

    @precondition(lambda self: isinstance(self.state, Settling))
    @rule(event=st.sampled_from([Recovered(), Deadline()]))
    def settle(self, event: Event) -> None:
        self.state = machine.advance(self.state, event, NOW)

    @precondition(lambda self: isinstance(self.state, Idle) and self.world.observation.instances)
    @rule(data=st.data())
    def die(self, data: st.DataObject) -> None:
        gone = data.draw(st.sampled_from(self.world.observation.instances))
        rest = [i for i in self.world.observation.instances if i is not gone]
        self.world = world(*rest, demands=self.world.observation.demands)
        self._demand(gone.model, active=0)

    @invariant()
    def never_two_processes_of_a_model(self) -> None:
        names = [i.model for i in self.world.observation.instances]
        assert len(names) == len(set(names))

    @invariant()
    def never_more_than_the_budget(self) -> None:
        held = sum(book.held(i) or 0 for i in self.world.observation.instances)
        reserved = self.state.action.needs if isinstance(self.state, Loading) else 0
        assert held + reserved <= 1000 * MIB

    @invariant()
    def never_a_pinned_victim(self) -> None:
        if isinstance(self.state, Evicting):
            spec = next(m for m in self.WANTED.models if m.name == self.state.action.model)
            assert spec.residency is not Residency.PINNED


RandomHistory.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestRandomHistory = RandomHistory.TestCase


def test_waiting_models_are_served_in_the_end() -> None:
    """Two that exclude each other, both asked for: acting until nothing is left serves the one, then the other."""
    wanted = manifest(model("a", 900), model("b", 900))
    seen = world(running("a", 900, idle=1), demands=[waiting("b")])
    served = []
    for _ in range(4):
        head = plan(wanted, seen, NOW).head
        if head is None:
            break
        served.append(type(head).__name__ + " " + head.model)
        seen = perform(head, wanted, seen)
    assert served == ["Evict a", "Load b"]
