"""The lease book: grants, queues, seals and cuts, and that no interleaving strands a waiter."""

import asyncio

import anyio
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from lease_clients import DEFAULT, Client, new_book, settle
from reconciler.core.types import Demand
from reconciler.leases import Endpoint, LeaseBook, LeaseRefused, QueueLimits, Refusal
from support import wait_for_async

pytestmark = pytest.mark.anyio

A = Endpoint("a", "http://127.0.0.1:1")
A2 = Endpoint("a", "http://127.0.0.1:2")
B = Endpoint("b", "http://127.0.0.1:3")


async def test_an_open_model_is_leased_at_once_and_wakes_nobody() -> None:
    book, wakes, clock = new_book()
    book.open(A, clock.now)
    async with book.lease("a") as lease:
        assert (lease.model, lease.endpoint, lease.waited) == ("a", A, 0.0)
        assert book.demands() == (Demand("a", active=1),)
    assert book.demands() == ()
    assert wakes.count == 0


async def test_a_request_waits_wakes_the_loop_and_is_granted_when_the_model_opens() -> None:
    book, wakes, clock = new_book()
    first, second = Client(book, "a").start(), Client(book, "a").start()
    await settle()
    assert wakes.count == 2
    assert book.demands() == (Demand("a", waiting=2, oldest=100.0),)
    clock.now = 103.0
    book.open(A, clock.now)
    assert book.demands() == (Demand("a", active=2),)
    await settle()
    assert first.lease is not None
    assert second.lease is not None
    assert first.lease.waited == 3.0
    assert int(first.lease.id) < int(second.lease.id), "granted in order of arrival"
    await first.end()
    await second.end()
    assert book.demands() == ()


async def test_a_full_queue_refuses_at_once() -> None:
    book, _, _ = new_book(QueueLimits(1, 60.0))
    waiting = Client(book, "a").start()
    await settle()
    with pytest.raises(LeaseRefused) as caught:
        async with book.lease("a"):
            pytest.fail("granted beyond the limit")
    assert (caught.value.refusal.status, caught.value.refusal.code) == (429, "queue_full")
    assert caught.value.refusal.retry_after
    await waiting.leave()


async def test_a_wait_that_runs_out_leaves_the_queue() -> None:
    book, wakes, _ = new_book(QueueLimits(4, 0.02))
    with pytest.raises(LeaseRefused) as caught:
        async with book.lease("a"):
            pytest.fail("nobody opened the model")
    assert (caught.value.refusal.status, caught.value.refusal.code) == (503, "queue_timeout")
    assert caught.value.refusal.retry_after
    assert book.demands() == ()
    assert wakes.count == 2, "one for the demand, one for its end"


async def test_one_who_leaves_takes_only_itself() -> None:
    book, _, clock = new_book()
    first, second = Client(book, "a").start(), Client(book, "a").start()
    await settle()
    await first.leave()
    assert book.demands() == (Demand("a", waiting=1, oldest=100.0),)
    book.open(A, clock.now)
    await settle()
    assert second.lease is not None
    await second.end()


async def test_one_who_leaves_in_the_moment_of_the_grant_gives_the_lease_back() -> None:
    book, _, clock = new_book()
    client = Client(book, "a").start()
    await settle()
    book.open(A, clock.now)
    assert book.demands() == (Demand("a", active=1),)
    await client.leave()
    assert book.demands() == ()
    assert client.lease is None


async def test_unknown_and_removed_models_are_refused() -> None:
    book, _, _ = new_book()
    client = Client(book, "b").start()
    await settle()
    book.configure({"a": QueueLimits()})
    await settle()
    assert client.refusal is not None
    assert (client.refusal.status, client.refusal.code) == (404, "model_not_found")
    with pytest.raises(LeaseRefused, match="not in the manifest"):
        async with book.lease("b"):
            pytest.fail("granted an unknown model")


async def test_a_removed_model_keeps_the_leases_it_has() -> None:
    book, _, clock = new_book()
    book.open(B, clock.now)
    client = Client(book, "b").start()
    await settle()
    book.configure({"a": QueueLimits()})
    assert book.demands() == (Demand("b", active=1),)
    assert client.lease is not None
    assert not client.lease.cut.is_set()
    await client.end()


async def test_seal_without_drain_yields_to_an_active_lease() -> None:
    book, _, clock = new_book()
    book.open(A, clock.now)
    async with book.lease("a"):
        sealed = book.seal("a", drain=False)
        assert not sealed
        async with book.lease("a"):
            assert book.demands() == (Demand("a", active=2),)
    assert book.seal("a", drain=False)


async def test_a_sealed_model_queues_until_it_is_unsealed() -> None:
    book, wakes, clock = new_book()
    book.open(A, clock.now)
    assert book.seal("a", drain=True)
    client = Client(book, "a").start()
    await settle()
    assert book.demands() == (Demand("a", waiting=1, oldest=100.0),)
    assert wakes.count == 1
    book.unseal("a")
    await settle()
    assert client.lease is not None
    await client.end()


async def test_drained_waits_for_the_last_lease_and_cut_ends_them() -> None:
    book, _, clock = new_book()
    book.open(A, clock.now)
    clients = [Client(book, "a").start(), Client(book, "a").start()]
    await settle()
    book.seal("a", drain=True)
    drained = asyncio.get_running_loop().create_task(book.drained("a"))
    await clients[0].end()
    await settle()
    assert not drained.done()
    book.cut("a")
    await wait_for_async(drained.done, 1.0, "the cut lease to end")
    assert book.demands() == ()


async def test_drained_returns_at_once_for_an_idle_model() -> None:
    book, _, _ = new_book()
    with anyio.fail_after(1):
        await book.drained("a")


async def test_close_cuts_and_a_new_process_counts_from_zero() -> None:
    book, _, clock = new_book()
    book.open(A, clock.now)
    old = Client(book, "a").start()
    await settle()
    book.close("a")
    assert old.lease is not None
    assert old.lease.cut.is_set()
    clock.now = 110.0
    book.open(A2, clock.now)
    clock.now = 111.0
    await old.end()
    assert (book.last_used("a"), book.served("a")) == (110.0, 0), "the old process's lease does not count"
    async with book.lease("a") as lease:
        assert lease.endpoint == A2
        clock.now = 120.0
    assert (book.last_used("a"), book.served("a")) == (120.0, 1)


async def test_opening_again_at_the_same_place_only_unseals() -> None:
    book, _, clock = new_book()
    book.open(A, clock.now)
    client = Client(book, "a").start()
    await settle()
    book.seal("a", drain=True)
    book.open(A, 500.0)
    assert client.lease is not None
    assert not client.lease.cut.is_set()
    assert book.last_used("a") == 100.0
    await client.end()


async def test_refuse_fails_those_present_and_nobody_later() -> None:
    book, _, clock = new_book()
    refusal = Refusal(507, "never_fits", "needs 9 GiB of 8")
    client = Client(book, "a").start()
    await settle()
    book.refuse("a", refusal)
    await settle()
    assert client.refusal == refusal
    later = Client(book, "a").start()
    await settle()
    book.open(A, clock.now)
    await settle()
    assert later.lease is not None
    await later.end()


async def test_wishes_of_people() -> None:
    book, wakes, clock = new_book()
    book.want("a")
    assert book.demands() == (Demand("a", wanted=True, wished=100.0),)
    book.open(A, clock.now)
    assert book.demands() == (), "ready: the wish is fulfilled"
    book.want("a")
    assert book.demands() == (), "ready already"
    book.dismiss("a")
    assert book.demands() == (Demand("a", dismissed=True),)
    book.seal("a", drain=True)
    book.close("a")
    assert book.demands() == (Demand("a", dismissed=True, closed=100.0),), "gone, and it stays so"
    client = Client(book, "a").start()
    await settle()
    assert book.demands() == (Demand("a", waiting=1, oldest=100.0, closed=100.0),), (
        "somebody asks for it again"
    )
    book.dismiss("a")
    book.want("a")
    assert book.demands() == (Demand("a", waiting=1, oldest=100.0, wanted=True, closed=100.0, wished=100.0),)
    assert wakes.count >= 5
    await client.leave()


async def test_a_wish_made_while_sealed_ends_with_the_seal() -> None:
    book, _, clock = new_book()
    book.open(A, clock.now)
    book.seal("a", drain=True)
    book.want("a")
    assert book.demands() == (Demand("a", wanted=True, wished=100.0),)
    book.unseal("a")
    assert book.demands() == ()


@pytest.mark.parametrize("situation", ["transient", "other waits", "sealed", "dismissed", "nothing"])
async def test_the_end_of_the_last_lease_wakes_the_loop_only_if_it_matters(situation: str) -> None:
    book, wakes, clock = new_book()
    book.open(A, clock.now)
    client, waiting = Client(book, "a").start(), Client(book, "b")
    await settle()
    match situation:
        case "transient":
            limits = QueueLimits()
            book.configure({"a": limits, "b": limits}, tell_idle=frozenset({"a"}))
        case "other waits":
            waiting.start()
        case "sealed":
            book.seal("a", drain=True)
        case "dismissed":
            book.dismiss("a")
    await settle()
    before = wakes.count
    await client.end()
    assert wakes.count - before == (0 if situation == "nothing" else 1)
    if waiting.task:
        await waiting.leave()


async def test_demands_are_sorted() -> None:
    book, _, _ = new_book()
    for name in ("b", "a"):
        book.want(name)
    assert [d.model for d in book.demands()] == ["a", "b"]


class Interleavings(RuleBasedStateMachine):
    """Any order of client and loop steps; the event loop turns only when the rule `turn` says so."""

    MODELS = ("a", "b")

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clients: list[Client] = []
        self.open: dict[str, bool] = dict.fromkeys(self.MODELS, False)
        self.sealed: dict[str, bool] = dict.fromkeys(self.MODELS, False)
        self.ports = 0
        self.call(self.build)

    def build(self) -> None:
        self.book = LeaseBook(lambda: None)
        self.book.configure(dict.fromkeys(self.MODELS, QueueLimits(3, 600.0)))

    def call(self, step: object, *args: object) -> None:
        """Run one synchronous step inside the loop, so that tasks and events have one."""

        async def inner() -> None:
            step(*args)  # type: ignore[operator]

        self.loop.run_until_complete(inner())

    @rule(model=st.sampled_from(MODELS))
    def request(self, model: str) -> None:
        self.call(lambda: self.clients.append(Client(self.book, model).start()))
        self.turn_loop(1)  # it is in the book now; what follows may happen before it runs again

    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        if self.clients:
            client = data.draw(st.sampled_from(self.clients))
            assert client.task is not None
            self.call(client.task.cancel)

    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        if self.clients:
            self.call(data.draw(st.sampled_from(self.clients)).finish.set)

    @rule(model=st.sampled_from(MODELS), elsewhere=st.booleans())
    def open_model(self, model: str, elsewhere: bool) -> None:
        self.ports += elsewhere
        self.call(self.book.open, Endpoint(model, f"http://127.0.0.1:{1000 + self.ports}"), 0.0)
        self.open[model], self.sealed[model] = True, False

    @rule(model=st.sampled_from(MODELS))
    def close(self, model: str) -> None:
        self.call(self.book.close, model)
        self.open[model] = self.sealed[model] = False

    @rule(model=st.sampled_from(MODELS), drain=st.booleans())
    def seal(self, model: str, drain: bool) -> None:
        def step() -> None:
            active = any(d.model == model and d.active for d in self.book.demands())
            done = self.book.seal(model, drain=drain)
            assert done == (drain or not active)
            self.sealed[model] |= done

        self.call(step)

    @rule(model=st.sampled_from(MODELS))
    def unseal(self, model: str) -> None:
        self.call(self.book.unseal, model)
        self.sealed[model] = False

    @rule(model=st.sampled_from(MODELS))
    def cut(self, model: str) -> None:
        self.call(self.book.cut, model)

    @rule(model=st.sampled_from(MODELS))
    def refuse(self, model: str) -> None:
        self.call(self.book.refuse, model, Refusal(503, "backing_off", "later"))

    @rule(known=st.sets(st.sampled_from(MODELS)))
    def configure(self, known: set[str]) -> None:
        self.call(self.book.configure, dict.fromkeys(sorted(known), QueueLimits(3, 600.0)))
        for model in self.MODELS:
            if model not in known and not self.open[model]:
                self.sealed[model] = (
                    False  # forgotten, unless a lease keeps the page: then sealed is stricter
                )

    @rule(times=st.integers(1, 8))
    def turn(self, times: int) -> None:
        self.turn_loop(times)
        self.clients = [c for c in self.clients if c.task is not None and not c.task.done()]

    def turn_loop(self, times: int) -> None:
        async def turns() -> None:
            for _ in range(times):
                await asyncio.sleep(0)

        self.loop.run_until_complete(turns())

    @invariant()
    def nobody_waits_for_a_model_that_serves(self) -> None:
        for demand in self.book.demands():
            if self.open[demand.model] and not self.sealed[demand.model]:
                assert demand.waiting == 0, demand
            assert demand.waiting <= 3

    def teardown(self) -> None:
        async def all_leave() -> None:
            for client in self.clients:
                await client.leave()

        self.loop.run_until_complete(all_leave())
        assert [d for d in self.book.demands() if d.active or d.waiting] == []
        self.loop.close()


Interleavings.TestCase.settings = settings(
    max_examples=120, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestInterleavings = Interleavings.TestCase


async def test_a_shut_book_grants_nothing_more_and_leaves_what_is_granted() -> None:
    book = LeaseBook(lambda: None)
    book.configure({"a": DEFAULT, "b": DEFAULT})
    book.open(A, 100.0)
    refusal = Refusal(503, "model_stopped", "stopping")
    async with book.lease("a") as lease:
        book.shut(refusal)
        assert not lease.cut.is_set()
        assert (book.active("a"), book.active("b")) == (1, 0)
        for model in ("a", "b"):
            with pytest.raises(LeaseRefused) as caught:
                async with book.lease(model):
                    raise AssertionError("granted")
        assert caught.value.refusal is refusal


def test_a_request_that_returns_is_told_of_until_it_does_and_wakes_who_waits_for_idle_models() -> None:
    book, wakes, _ = new_book()
    book.configure({"a": QueueLimits(), "b": QueueLimits()}, tell_idle=frozenset({"a"}))
    with book.away("a", "b"), book.away("a", "b"):
        assert book.demands() == (Demand("a", away=("b", "b")),)
        before = wakes.count
    assert book.demands() == ()
    assert wakes.count > before


def test_the_page_of_a_removed_model_goes_with_the_last_request_that_would_have_returned() -> None:
    book, _, _ = new_book()
    book.configure({"a": QueueLimits(), "b": QueueLimits()})
    with book.away("a", "b"):
        book.configure({"b": QueueLimits()})
        assert [d.model for d in book.demands()] == ["a"]
    book.want("b")
    assert [d.model for d in book.demands()] == ["b"]
