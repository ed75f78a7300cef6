"""Order of the queues, what a waiting request can be told, and leases that count for nothing."""

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lease_clients import Client, endpoint, new_book, settle
from reconciler.core.types import Demand
from reconciler.leases import Admission, LeaseRefused, QueueLimits, Refusal, Ticket
from reconciler.leases.page import AGEING_PRIORITY, AGEING_SECONDS, rank

pytestmark = pytest.mark.anyio
ROOMY = QueueLimits(2000, 60.0)


async def served_one_by_one(arrivals: list[tuple[float, int]]) -> list[int]:
    """Return in which order requests (arrival, priority) get the only place of a model."""
    book, _, clock = new_book(ROOMY)
    book.assign({"a": Admission(concurrency=1)})
    clients = []
    for at, priority in arrivals:
        clock.now = at
        clients.append(Client(book, "a", priority).start())
        await settle()
    book.open(endpoint("a"), clock.now)
    order: list[int] = []
    while len(order) < len(clients):
        await settle()
        (one,) = [c for c in clients if c.served()]
        order.append(clients.index(one))
        await one.end()
    return order


@pytest.mark.parametrize(
    ("arrivals", "order"),
    [
        ([(0, 500), (0, 500), (0, 500)], [0, 1, 2]),
        ([(0, 0), (1, 500), (2, 1000)], [2, 1, 0]),
        ([(0, 500), (9.9, 750)], [1, 0]),
        ([(0, 500), (10.1, 750)], [0, 1]),
        ([(0, 0), (39.9, 1000), (40.1, 1000)], [1, 0, 2]),
    ],
    ids=["arrival", "priority", "younger than a step", "older than a step", "the least urgent in 40 s"],
)
async def test_the_queue_is_served_by_priority_then_arrival_with_ageing(
    arrivals: list[tuple[float, int]], order: list[int]
) -> None:
    assert await served_one_by_one(arrivals) == order


@given(at=st.floats(0, 1e5), late=st.floats(0, 1e3), old=st.integers(0, 1000), new=st.integers(0, 1000))
def test_nobody_is_overtaken_after_the_head_start_that_priority_gives(
    at: float, late: float, old: int, new: int
) -> None:
    head_start = (new - old) / AGEING_PRIORITY * AGEING_SECONDS
    if abs(late - head_start) > 1e-6:
        assert (rank(at, old) < rank(at + late, new)) == (late > head_start)


async def test_a_ticket_tells_place_length_and_reason() -> None:
    book, wakes, clock = new_book(ROOMY, gates={"heavy": 1})
    book.assign({"a": Admission(1, ("heavy",)), "b": Admission(None, ("heavy",))})
    first = Client(book, "a", 500).start()
    await settle()
    clock.now = 101.0
    urgent = Client(book, "a", 1000).start()
    await settle()
    assert first.ticket is not None
    assert urgent.ticket is not None
    seen = (first.ticket.place, first.ticket.waiting, first.ticket.waits_for, first.ticket.since)
    assert seen == (2, 2, "load", 100.0)
    assert (urgent.ticket.place, urgent.ticket.model, urgent.ticket.since) == (1, "a", 101.0)
    assert wakes.count == 2
    book.open(endpoint("a"), clock.now)
    book.open(endpoint("b"), clock.now)
    await settle()
    assert (urgent.ticket.place, first.ticket.place, first.ticket.waiting) == (0, 1, 1)
    assert first.ticket.waits_for == "place"
    other = Client(book, "b").start()
    await settle()
    assert other.ticket is not None
    assert (other.ticket.place, other.ticket.waits_for) == (1, "gate heavy")
    await urgent.end()
    await settle()
    assert first.served(), "its rank is earlier than that of the other model's request"
    await first.end()
    await settle()
    assert other.served()
    assert wakes.count == 2, "the loop has nothing to do with gates and places"
    await other.end()


async def test_the_bound_counts_everybody_who_waits() -> None:
    book, _, clock = new_book(QueueLimits(2, 60.0))
    book.assign({"a": Admission(concurrency=1)})
    book.open(endpoint("a"), clock.now)
    clients = [Client(book, "a").start() for _ in range(3)]
    await settle()
    assert [c.served() for c in clients] == [True, False, False]
    with pytest.raises(LeaseRefused) as caught:
        async with book.lease("a", priority=1000):
            pytest.fail("granted beyond the limit")
    assert (caught.value.refusal.status, caught.value.refusal.code) == (429, "queue_full")
    for client in clients:
        await client.leave()


@pytest.mark.parametrize(
    ("admission", "text"),
    [
        (Admission(1), "model 'a' had no place for another request within 0.02 s"),
        (Admission(None, ("heavy",)), "model 'a' was not let through gate heavy within 0.02 s"),
    ],
    ids=["place", "gate"],
)
async def test_a_wait_that_runs_out_says_what_it_was_for(admission: Admission, text: str) -> None:
    book, wakes, clock = new_book(QueueLimits(2, 0.02), gates={"heavy": 1})
    book.assign({"a": admission, "b": Admission(None, ("heavy",))})
    for model in "ab":
        book.open(endpoint(model), clock.now)
    async with book.lease("a" if admission.concurrency else "b"):
        with pytest.raises(LeaseRefused) as caught:
            async with book.lease("a"):
                pytest.fail("granted beyond the limit")
    assert (caught.value.refusal.code, caught.value.refusal.message) == ("queue_timeout", text)
    assert book.demands() == ()
    assert wakes.count == 0


async def test_sealing_turns_gate_waiters_into_queue_waiters() -> None:
    book, wakes, clock = new_book(ROOMY, gates={"heavy": 1})
    book.assign(dict.fromkeys("ab", Admission(None, ("heavy",))))
    book.open(endpoint("a"), clock.now)
    book.open(endpoint("b"), clock.now)
    inside, waits = Client(book, "b").start(), Client(book, "a").start()
    await settle()
    assert book.demands() == (Demand("a", gated=1), Demand("b", active=1))
    book.refuse("a", Refusal(503, "backing_off", "another process of it cannot be loaded"))
    assert book.demands()[0].gated == 1, "it does not wait for a load"
    book.dismiss("a")
    book.seal("a", drain=True)
    assert book.demands()[0] == Demand("a", waiting=1, oldest=100.0)
    assert waits.ticket is not None
    assert waits.ticket.waits_for == "load"
    book.unseal("a")
    assert book.demands()[0] == Demand("a", gated=1)
    await inside.end()
    await settle()
    assert waits.served()
    assert wakes.count == 1, "by the wish of a person only"
    await waits.end()


async def test_a_ticket_callback_that_fails_leaves_nobody_behind() -> None:
    book, _, _ = new_book()

    def broken(_ticket: object) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        async with book.lease("a", seen=broken):
            pytest.fail("granted")
    assert book.demands() == ()


async def test_an_urgent_newcomer_is_served_before_its_own_models_claimed_queue() -> None:
    book, _, clock = new_book(ROOMY, gates={"heavy": 1})
    book.assign(dict.fromkeys("ab", Admission(None, ("heavy",))))
    for model in "ab":
        book.open(endpoint(model), clock.now)
    clients = [Client(book, model).start() for model in "aba"]
    await settle()
    assert [c.served() for c in clients] == [True, False, False]
    tickets: list[Ticket] = []
    async with book.lease("a", priority=1000, seen=tickets.append):
        assert tickets == [], "it did not wait"
        assert book.demands()[0] == Demand("a", active=2, gated=1)
    for client in reversed(clients):
        await client.leave()


# --- quiet leases ---


async def test_a_quiet_lease_counts_for_nothing_and_is_cut_like_any() -> None:
    book, wakes, clock = new_book(gates={"heavy": 1})
    book.assign({"a": Admission(1, ("heavy",))})
    book.open(endpoint("a"), 50.0)
    async with book.lease("a"):
        async with book.lease("a", quiet=True) as lease:
            assert lease.waited == 0
            assert book.demands() == (Demand("a", active=1),)
        assert book.traffic().granted == 1
    assert (book.last_used("a"), book.served("a")) == (100.0, 1)
    clock.now = 200.0
    client = Client(book, "a", quiet=True).start()
    await settle()
    assert book.seal("a", drain=False), "it does not keep the model"
    with anyio.fail_after(1):
        await book.drained("a")
    assert client.served()
    book.cut("a")
    await settle()
    assert not client.served()
    assert book.last_used("a") == 100.0
    assert wakes.count == 0


@pytest.mark.parametrize("state", ["closed", "sealed"])
async def test_a_quiet_lease_never_waits(state: str) -> None:
    book, wakes, clock = new_book()
    if state == "sealed":
        book.open(endpoint("a"), clock.now)
        book.seal("a", drain=True)
    with pytest.raises(LeaseRefused) as caught:
        async with book.lease("a", quiet=True):
            pytest.fail("granted")
    assert (caught.value.refusal.status, caught.value.refusal.code) == (409, "not_loaded")
    assert book.demands() == ()
    assert wakes.count == 0


async def test_a_lease_that_hushes_frees_its_place_and_may_come_back() -> None:
    book, _, clock = new_book(gates={"heavy": 1})
    book.assign({"a": Admission(1, ("heavy",)), "b": Admission(None, ("heavy",))})
    book.open(endpoint("a"), clock.now)
    book.open(endpoint("b"), clock.now)
    socket, other = Client(book, "a").start(), Client(book, "b").start()
    await settle()
    assert socket.lease is not None
    assert not other.served()
    clock.now = 110.0
    socket.lease.hush()
    socket.lease.hush()
    await settle()
    assert other.served()
    assert (book.last_used("a"), book.served("a"), book.active("a")) == (110.0, 1, 0)
    assert not socket.lease.speak(), "the gate is full"
    await other.end()
    assert socket.lease.speak()
    assert socket.lease.speak()
    assert book.demands() == (Demand("a", active=1),)
    socket.lease.hush()
    book.close("a")
    assert socket.finish.is_set()
    assert not socket.lease.speak()
    await socket.end()
    traffic = book.traffic()
    assert (traffic.granted, traffic.ended) == (3, 3)


async def test_a_lease_that_has_ended_stays_ended() -> None:
    book, _, clock = new_book()
    book.open(endpoint("a"), clock.now)
    async with book.lease("a") as lease:
        pass
    lease.hush()
    assert not lease.speak()
    assert book.demands() == ()


async def test_speaking_does_not_overtake_who_waits_for_the_gate() -> None:
    book, _, clock = new_book(ROOMY, models="abc", gates={"heavy": 1})
    book.assign(dict.fromkeys("abc", Admission(None, ("heavy",))))
    for model in "abc":
        book.open(endpoint(model), clock.now)
    socket, inside = Client(book, "a").start(), Client(book, "a").start()
    await settle()
    assert socket.lease is not None
    socket.lease.hush()
    waits = Client(book, "b").start()
    await settle()
    assert not socket.lease.speak(), "a is inside, but b was first"
    for client in (inside, waits, socket):
        await client.end()


# --- for people ---


async def test_traffic_shows_gates_queues_and_heads() -> None:
    book, _, clock = new_book(ROOMY, models="abc", gates={"llm": 2, "heavy": 1})
    book.assign({"a": Admission(1, ("heavy", "llm")), "b": Admission(4, ("heavy",))})
    for model in "ab":
        book.open(endpoint(model), clock.now)
    clients = [Client(book, m, owner=f"{m}{n}").start() for n, m in enumerate("aabbc")]
    await settle()
    seen = book.traffic()
    assert [(g.name, g.limit, g.inside, g.waiting) for g in seen.gates] == [
        ("heavy", 1, ("a",), 2),
        ("llm", 2, ("a",), 0),
    ]
    rows = [(q.model, q.active, q.waiting, q.gated, q.oldest, q.max, q.timeout) for q in seen.queues]
    assert rows == [
        ("a", 1, 0, 1, 100.0, 2000, 60.0),
        ("b", 0, 0, 2, 100.0, 2000, 60.0),
        ("c", 0, 1, 0, 100.0, 2000, 60.0),
    ]
    heads = [(q.head.owner, q.head.priority, q.head.waits_for) for q in seen.queues if q.head]
    assert heads == [("a1", 500, "place"), ("b2", 500, "gate heavy"), ("c4", 500, "load")]
    assert [(q.concurrency, q.gates) for q in seen.queues] == [
        (1, ("heavy", "llm")),
        (4, ("heavy",)),
        (None, ()),
    ]
    assert (seen.granted, seen.ended) == (1, 0)
    for client in reversed(clients):
        await client.leave()
    assert book.traffic().queues == ()
