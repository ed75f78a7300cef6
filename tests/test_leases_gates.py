"""Gates and places: who may compute beside whom, that none of it is wasted, and that nobody starves."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from lease_clients import Client, endpoint, new_book, settle
from reconciler.leases import RESERVE_SECONDS, Admission, QueueLimits
from reconciler.leases.scheduler import COMPANY_SECONDS

pytestmark = pytest.mark.anyio
ROOMY = QueueLimits(2000, 600.0)
HEAVY, BOTH, LLM = Admission(None, ("heavy",)), Admission(None, ("heavy", "llm")), Admission(None, ("llm",))


@dataclass
class Scene:
    """Open models and clients named by model and number, in order of their coming: `a1`, `b1`, `a2`."""

    admissions: dict[str, Admission]
    limits: dict[str, int] = field(default_factory=lambda: {"heavy": 1, "llm": 2})
    clients: dict[str, Client] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.book, self.wakes, self.clock = new_book(ROOMY, "".join(self.admissions), self.limits)
        self.book.assign(self.admissions)
        for model in self.admissions:
            self.book.open(endpoint(model), self.clock.now)

    async def come(self, names: str, priority: int = 500) -> "Scene":
        """Let requests come, one after the other."""
        for name in names.split():
            self.clients[name] = Client(self.book, name[0], priority).start()
            await settle()
        return self

    async def end(self, names: str) -> "Scene":
        """End requests, one after the other."""
        for name in names.split():
            await self.clients[name].end()
            await settle()
        return self

    async def later(self, seconds: float) -> "Scene":
        self.clock.now += seconds
        return self

    @property
    def served(self) -> str:
        """Names of those who are served."""
        return " ".join(sorted(name for name, client in self.clients.items() if client.served()))

    async def close(self) -> None:
        assert self.wakes.count == 0, "a gate is no business of the loop's"
        for client in reversed(self.clients.values()):
            await client.leave()
        traffic = self.book.traffic()
        assert traffic.granted == traffic.ended


async def test_requests_of_one_model_share_its_passage() -> None:
    scene = Scene({"a": Admission(3, ("heavy",)), "b": HEAVY})
    await scene.come("a1 a2 a3 a4 b1")
    assert scene.served == "a1 a2 a3"
    await scene.close()


async def test_overlapping_requests_to_one_model_do_not_starve_another() -> None:
    scene = Scene({"a": HEAVY, "b": HEAVY})
    await scene.come("a1 b1 a2")
    assert scene.served == "a1", "a2 came after b1, which waits for the very gate"
    await scene.end("a1")
    assert scene.served == "b1"
    await scene.end("b1")
    assert scene.served == "a2"
    await scene.close()


async def test_who_is_more_urgent_goes_before_who_waits() -> None:
    scene = Scene({"a": HEAVY, "b": HEAVY})
    await scene.come("a1 b1")
    await scene.come("a2", priority=750)
    assert scene.served == "a1 a2"
    await scene.close()


async def test_a_model_without_gates_waits_for_nobody() -> None:
    scene = Scene({"a": HEAVY, "b": HEAVY, "e": Admission()})
    await scene.come("a1 b1 e1 e2")
    assert scene.served == "a1 e1 e2"
    await scene.close()


async def test_a_light_model_passes_while_a_heavy_one_waits_for_another_gate() -> None:
    scene = Scene({"a": BOTH, "b": BOTH, "c": LLM, "d": LLM})
    await scene.come("a1 b1 c1 c2")
    assert scene.served == "a1 c1 c2", "b1 waits for a1, which leaves both gates"
    await scene.later(RESERVE_SECONDS)
    await scene.come("c3 d1 c4")
    assert scene.served == "a1 c1 c2 c3", "d1 lacks llm and nothing else: c lets no more in"
    await scene.end("a1")
    assert scene.served == "b1 c1 c2 c3", "d1 came after b1"
    await scene.close()


async def test_who_waited_long_keeps_free_what_it_needs() -> None:
    scene = Scene({"a": HEAVY, "b": BOTH, "c": LLM, "d": LLM})
    await scene.come("a1 b1 c1")
    await scene.later(RESERVE_SECONDS - 0.1)
    await scene.come("d1")
    assert scene.served == "a1 c1 d1"
    await scene.end("d1")
    await scene.later(0.2)
    await scene.come("c2 d2")
    assert scene.served == "a1 c1 c2", "the second passage of llm is kept for b1; c keeps its own"
    await scene.end("a1")
    assert scene.served == "b1 c1 c2"
    await scene.end("c1 c2")
    assert scene.served == "b1 d2", "b1 was first, and llm has two passages"
    await scene.close()


async def test_a_model_that_enters_takes_its_company_along() -> None:
    scene = Scene({"a": HEAVY, "b": Admission(2, ("heavy",))})
    await scene.come("a1 b1 a2 b2 a3 b3")
    await scene.end("a1")
    assert scene.served == "b1 b2", "as many at once as it has places"
    await scene.end("b1")
    assert scene.served == "b2", "but none after a2 that did not enter with it"
    await scene.end("b2")
    assert scene.served == "a2 a3"
    await scene.end("a2 a3")
    assert scene.served == "b3"
    await scene.close()


async def test_company_that_would_overtake_by_too_much_stays_behind() -> None:
    scene = Scene({"a": HEAVY, "b": HEAVY})
    await scene.come("a1 b1 a2")
    await scene.later(COMPANY_SECONDS + 0.1)
    await scene.come("b2")
    await scene.end("a1")
    assert scene.served == "b1"
    await scene.close()


async def test_who_leaves_frees_what_it_claimed() -> None:
    scene = Scene({"a": HEAVY, "b": HEAVY})
    await scene.come("a1 b1 a2")
    await scene.clients["b1"].leave()
    await settle()
    assert scene.served == "a1 a2"
    await scene.close()


@pytest.mark.parametrize("how", ["seal", "close", "unknown"])
async def test_a_model_that_takes_no_requests_claims_nothing(how: str) -> None:
    scene = Scene({"a": HEAVY, "b": HEAVY})
    await scene.come("a1 b1 a2")
    match how:
        case "seal":
            scene.book.seal("b", drain=True)
        case "close":
            scene.book.close("b")
        case "unknown":
            scene.book.configure({"a": ROOMY}, gates=scene.limits)
    await settle()
    assert scene.served == "a1 a2"
    scene.wakes.count = 0
    for client in scene.clients.values():
        await client.leave()


async def test_a_draining_model_is_still_inside() -> None:
    scene = Scene({"a": HEAVY, "b": HEAVY})
    await scene.come("a1 b1")
    scene.book.seal("a", drain=True)
    assert scene.served == "a1"
    scene.book.cut("a")
    await settle()
    assert scene.served == "b1"
    await scene.clients["b1"].leave()


async def test_limits_move_while_models_compute() -> None:
    scene = Scene({"a": Admission(1, ("heavy",)), "b": HEAVY, "c": HEAVY})
    await scene.come("a1 a2 b1 c1")
    assert scene.served == "a1"
    scene.book.assign(scene.admissions | {"a": HEAVY})
    await settle()
    assert scene.served == "a1 a2", "one place more"
    scene.book.configure(dict.fromkeys("abc", ROOMY), gates={"heavy": 2, "llm": 2})
    await settle()
    assert scene.served == "a1 a2 b1", "one passage more"
    scene.book.configure(dict.fromkeys("abc", ROOMY), gates={"heavy": 1, "llm": 2})
    scene.book.assign(scene.admissions)
    await settle()
    assert scene.served == "a1 a2 b1", "nobody is cut"
    assert scene.book.traffic().gates[0].inside == ("a", "b")
    await scene.end("b1")
    assert scene.served == "a1 a2"
    scene.book.assign(scene.admissions | {"c": LLM})
    await settle()
    assert scene.served == "a1 a2 c1", "it does not pass that gate any more"
    scene.book.assign(scene.admissions | {"a": LLM, "c": LLM})
    assert [g.inside for g in scene.book.traffic().gates] == [(), ("a", "c")], "who computes moves along"
    await scene.close()


def test_bounds_that_admit_nobody_are_faults() -> None:
    book, _, _ = new_book()
    with pytest.raises(ValueError, match="lets nobody in"):
        book.configure({}, gates={"heavy": 0})
    with pytest.raises(ValueError, match="admits nobody"):
        Admission(0)


# --- what holds in any order of events ---

MODELS = "abcd"
GATES = ("heavy", "llm")
admissions = st.fixed_dictionaries(
    dict.fromkeys(
        MODELS,
        st.builds(
            Admission,
            st.one_of(st.none(), st.integers(1, 3)),
            st.lists(st.sampled_from(GATES), unique=True).map(tuple),
        ),
    )
)
gate_limits = st.fixed_dictionaries(dict.fromkeys(GATES, st.integers(1, 3)))
priorities = st.sampled_from([0, 250, 500, 750, 1000])


class Crowd:
    """Clients of a book with the four models, and a second, plain account of who could be served."""

    def __init__(self, admissions: dict[str, Admission], limits: dict[str, int]) -> None:
        self.book, self.wakes, self.clock = new_book(ROOMY, MODELS, limits)
        self.admissions, self.limits = admissions, limits
        self.book.assign(admissions)
        self.clients: list[Client] = []
        self.serving: set[str] = set()

    def open(self, model: str) -> None:
        self.book.open(endpoint(model), self.clock.now)
        self.serving.add(model)

    async def come(self, model: str, priority: int) -> Client:
        client = Client(self.book, model, priority).start()
        self.clients.append(client)
        await settle()
        return client

    def active(self) -> Counter[str]:
        return Counter(client.model for client in self.clients if client.served())

    def inside(self) -> dict[str, set[str]]:
        active = self.active()
        return {g: {m for m in MODELS if active[m] and g in self.admissions[m].gates} for g in GATES}

    def could_be_served(self) -> list[Client]:
        """Return who waits for nothing. Of each model only the first is looked at: the others are behind it."""
        waiting = [c for c in self.clients if c.waits() and c.model in self.serving and c.ticket]
        order = sorted(waiting, key=lambda c: c.ticket.key if c.ticket else ())
        firsts = {c.model: c for c in reversed(order)}
        active, inside = self.active(), self.inside()
        room = {g: self.limits[g] - len(inside[g]) for g in GATES}
        missed: set[str] = set()
        found = []
        for client in sorted(firsts.values(), key=order.index):
            admission = self.admissions[client.model]
            gates = set(admission.gates)
            if admission.concurrency is not None and active[client.model] >= admission.concurrency:
                continue
            if active[client.model]:
                found += [] if gates & missed else [client]
                continue
            lacks = {g for g in gates if room[g] <= 0}
            if not lacks:
                found.append(client)
            freed_along = {g for g in gates for h in lacks if set() < inside[h] < inside[g]}
            missed |= lacks - freed_along
            assert client.ticket
            if self.clock.now - client.ticket.since >= RESERVE_SECONDS:
                for gate in gates - lacks - freed_along:
                    room[gate] -= 1
        return found


class Traffic(RuleBasedStateMachine):
    """Any order of events, each followed until nothing moves."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.lowered = False

        async def build() -> Crowd:
            return Crowd(dict.fromkeys(MODELS, Admission(2, GATES)), {"heavy": 1, "llm": 2})

        self.crowd = self.loop.run_until_complete(build())
        self.before: dict[str, set[str]] = {}
        self.active_before: Counter[str] = Counter()

    def step(self, work: object = None, *args: object) -> None:
        """Do something inside the loop, and let it settle."""
        self.before, self.active_before = self.crowd.inside(), self.crowd.active()

        async def inner() -> None:
            work(*args)  # type: ignore[operator]
            await settle()

        self.loop.run_until_complete(inner())

    @rule(model=st.sampled_from(MODELS), priority=priorities)
    def come(self, model: str, priority: int) -> None:
        self.step(lambda: self.crowd.clients.append(Client(self.crowd.book, model, priority).start()))

    @rule(data=st.data(), leave=st.booleans())
    def go(self, data: st.DataObject, leave: bool) -> None:
        here = [c for c in self.crowd.clients if c.task and not c.task.done()]
        if here:
            client = data.draw(st.sampled_from(here))
            assert client.task is not None
            self.step(client.task.cancel if leave else client.finish.set)

    @rule(seconds=st.sampled_from([0.5, 4.0, 11.0]))
    def pass_time(self, seconds: float) -> None:
        self.crowd.clock.now += seconds

    @rule(model=st.sampled_from(MODELS))
    def open(self, model: str) -> None:
        self.step(self.crowd.open, model)

    @rule(model=st.sampled_from(MODELS), how=st.sampled_from(["seal", "close", "cut"]))
    def disturb(self, model: str, how: str) -> None:
        book = self.crowd.book
        match how:
            case "seal":
                self.crowd.serving.discard(model)
                self.step(lambda: book.seal(model, drain=True))
            case "close":
                self.crowd.serving.discard(model)
                self.step(book.close, model)
            case "cut":
                self.step(book.cut, model)

    @rule(limits=gate_limits)
    def limit_gates(self, limits: dict[str, int]) -> None:
        self.crowd.limits = limits
        self.step(lambda: self.crowd.book.configure(dict.fromkeys(MODELS, ROOMY), gates=limits))

    @rule(admissions=admissions)
    def assign(self, admissions: dict[str, Admission]) -> None:
        self.crowd.admissions = admissions
        self.step(self.crowd.book.assign, admissions)

    @invariant()
    def no_gate_lets_in_more_models_than_its_limit(self) -> None:
        for gate, inside in self.crowd.inside().items():
            entered = inside - self.before.get(gate, set())
            moved = {
                m for m in entered if self.active_before[m]
            }  # computed already, and was assigned to the gate
            assert not entered - moved or len(inside) <= self.crowd.limits[gate]

    @invariant()
    def no_model_gets_more_requests_than_its_concurrency(self) -> None:
        for model, count in self.crowd.active().items():
            bound = self.crowd.admissions[model].concurrency
            assert bound is None or count <= max(bound, self.active_before[model])

    @invariant()
    def nobody_waits_who_could_be_served(self) -> None:
        assert self.crowd.could_be_served() == []

    @invariant()
    def the_counters_agree_with_what_is_active(self) -> None:
        traffic = self.crowd.book.traffic()
        assert traffic.granted - traffic.ended == sum(self.crowd.active().values())
        assert {g.name: set(g.inside) for g in traffic.gates} == self.crowd.inside()
        demands = {d.model: d for d in self.crowd.book.demands()}
        for model in MODELS:
            waiting = sum(c.waits() for c in self.crowd.clients if c.model == model)
            seen = demands.get(model)
            serves = model in self.crowd.serving
            assert waiting == (0 if seen is None else seen.gated if serves else seen.waiting)

    def teardown(self) -> None:
        async def all_leave() -> None:
            for client in self.crowd.clients:
                await client.leave()

        self.loop.run_until_complete(all_leave())
        traffic = self.crowd.book.traffic()
        assert traffic.granted == traffic.ended
        assert [g.inside for g in traffic.gates] == [(), ()]
        self.loop.close()


Traffic.TestCase.settings = settings(
    max_examples=70, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestTraffic = Traffic.TestCase


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    admissions=admissions,
    limits=gate_limits,
    first=st.lists(st.tuples(st.sampled_from(MODELS), priorities), min_size=1, max_size=12),
    flood=st.lists(st.tuples(st.sampled_from(MODELS), priorities), min_size=1, max_size=3),
)
def test_everybody_is_served_within_a_bounded_number_of_completions(
    admissions: dict[str, Admission],
    limits: dict[str, int],
    first: list[tuple[str, int]],
    flood: list[tuple[str, int]],
) -> None:
    """Once they outrank all newcomers, each round of completions serves one of those who wait, whoever else comes."""

    async def run() -> None:
        crowd = Crowd(admissions, limits)
        for model in MODELS:
            crowd.open(model)
        waiting = [await crowd.come(model, priority) for model, priority in first]
        crowd.clock.now += 41.0  # more than the head start of priority 1000 before 0
        left = [c for c in waiting if c.waits()]
        while left:
            for client in [c for c in crowd.clients if c.served()]:
                for model, priority in flood:  # whatever is free for a moment, somebody is there to take it
                    await crowd.come(model, priority)
                await client.end()
            await settle()
            still = [c for c in left if c.waits()]
            assert len(still) < len(left)
            left = still
        for client in crowd.clients:
            await client.leave()

    asyncio.run(run())


def test_the_second_account_is_not_blind() -> None:
    async def run() -> None:
        crowd = Crowd(dict.fromkeys(MODELS, HEAVY), {"heavy": 1, "llm": 1})
        client = await crowd.come("a", 500)
        crowd.serving.add("a")
        assert crowd.could_be_served() == [client]
        await client.leave()

    asyncio.run(run())
