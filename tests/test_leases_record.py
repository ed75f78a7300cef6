"""What the book tells of requests that came and ended: each once, with its waits, also of those it never served."""

import gc
import time
from collections.abc import Awaitable, Callable

import pytest

from lease_clients import Client, endpoint, new_book, settle
from reconciler.leases import Admission, Ended, LeaseBook, LeaseRefused, QueueLimits, Refusal
from reconciler.leases.record import KEPT
from reconciler.leases.scheduler import Scheduler

Happens = Callable[[], Awaitable[list[Ended]]]

pytestmark = pytest.mark.anyio


async def test_a_served_request_is_told_once_with_what_it_waited_for() -> None:
    book, _, clock = new_book()
    client = Client(book, "a", owner="desk").start()
    await settle()
    clock.now = 104.0
    book.open(endpoint("a"), clock.now)
    await settle()
    clock.now = 110.0
    assert client.lease is not None
    client.lease.tokens = (12, 34)
    await client.end()
    arrivals, ended = book.taken()
    assert arrivals == [("a", 100.0)]
    assert ended == [("a", "desk", 100.0, 4.0, 4.0, 110.0, "ok", (12, 34))]
    assert ended[0].seconds == 6.0
    assert book.taken() == ([], [])


async def test_only_the_part_of_a_wait_in_which_the_model_took_no_requests_is_cold() -> None:
    book, _, clock = new_book(gates={"g": 1})
    book.assign({"a": Admission(1, ("g",))})
    book.open(endpoint("a"), clock.now)
    first, second = Client(book, "a").start(), Client(book, "a").start()
    await settle()
    clock.now = 107.0  # 7 s for its place
    assert book.seal("a", drain=True)
    clock.now = 110.0  # 3 s for a model that is sealed
    await first.end()
    book.close("a")
    clock.now = 130.0  # 20 s for a model that is not there
    book.open(endpoint("a"), clock.now)
    await settle()
    await second.end()
    ended = book.taken()[1]
    assert [(e.waited, e.cold) for e in ended] == [(0.0, 0.0), (30.0, 23.0)]


async def test_time_without_a_model_before_anybody_came_is_nobodys() -> None:
    book, _, clock = new_book()
    book.open(endpoint("a"), clock.now)
    book.close("a")
    clock.now = 500.0
    client = Client(book, "a").start()
    await settle()
    clock.now = 502.0
    book.open(endpoint("a"), clock.now)
    await settle()
    await client.end()
    [ended] = book.taken()[1]
    assert (ended.waited, ended.cold) == (2.0, 2.0)


async def outcome_of_queue_full() -> list[Ended]:
    book, _, _ = new_book(QueueLimits(1, 60.0))
    waiting = Client(book, "a").start()
    await settle()
    await Client(book, "a", owner="late").start().end()
    ended = book.taken()[1]
    await waiting.leave()
    return ended


async def outcome_of_timeout() -> list[Ended]:
    book, _, _ = new_book(QueueLimits(4, 0.01))
    with pytest.raises(LeaseRefused):
        async with book.lease("a"):
            pytest.fail("there is no model")
    return book.taken()[1]


async def outcome_of_refusal() -> list[Ended]:
    book, _, clock = new_book()
    client = Client(book, "a").start()
    await settle()
    clock.now = 103.0
    book.refuse("a", Refusal(507, "never_fits", "too large"))
    await settle()
    assert client.refusal is not None
    return book.taken()[1]


async def outcome_of_leaving_the_queue() -> list[Ended]:
    book, _, _ = new_book()
    client = Client(book, "a").start()
    await settle()
    await client.leave()
    return book.taken()[1]


async def outcome_of_leaving_a_grant() -> list[Ended]:
    book, _, clock = new_book()
    client = Client(book, "a").start()
    await settle()
    assert client.task is not None
    book.open(endpoint("a"), clock.now)
    client.task.cancel()
    await settle()
    return book.taken()[1]


async def outcome_of_leaving_an_answer() -> list[Ended]:
    book, _, clock = new_book()
    book.open(endpoint("a"), clock.now)
    client = Client(book, "a").start()
    await settle()
    await client.leave()
    return book.taken()[1]


async def outcome_of_cut() -> list[Ended]:
    book, _, clock = new_book()
    book.open(endpoint("a"), clock.now)
    Client(book, "a").start()
    await settle()
    book.cut("a")
    await settle()
    return book.taken()[1]


async def outcome_of_failure() -> list[Ended]:
    book, _, clock = new_book()
    book.open(endpoint("a"), clock.now)
    with pytest.raises(ValueError, match="broken"):
        await broken(book)
    return book.taken()[1]


async def broken(book: LeaseBook) -> None:
    async with book.lease("a") as lease:
        lease.failed = True
        raise ValueError("broken")


@pytest.mark.parametrize(
    ("happens", "outcome"),
    [
        (outcome_of_queue_full, "refused:queue_full"),
        (outcome_of_timeout, "refused:queue_timeout"),
        (outcome_of_refusal, "refused:never_fits"),
        (outcome_of_leaving_the_queue, "left"),
        (outcome_of_leaving_a_grant, "left"),
        (outcome_of_leaving_an_answer, "left"),
        (outcome_of_cut, "cut"),
        (outcome_of_failure, "failed"),
    ],
)
async def test_every_way_to_end_has_a_name(happens: Happens, outcome: str) -> None:
    assert [e.outcome for e in await happens()] == [outcome]


async def test_every_request_that_ends_has_come_also_one_that_was_refused_at_once() -> None:
    book, _, clock = new_book(QueueLimits(1, 60.0))
    clients = [Client(book, "a").start() for _ in range(3)]
    await settle()
    book.open(endpoint("a"), clock.now)
    await settle()
    for client in clients:
        await client.end()
    arrivals, ended = book.taken()
    assert len(arrivals) == len(ended) == 3
    assert [e.outcome for e in ended] == ["refused:queue_full", "refused:queue_full", "ok"]


async def test_unknown_models_and_quiet_leases_leave_no_trace() -> None:
    book, _, clock = new_book()
    book.open(endpoint("a"), clock.now)
    with pytest.raises(LeaseRefused):
        async with book.lease("zzz"):
            pytest.fail("nobody knows it")
    async with book.lease("a", quiet=True):
        pass
    assert book.taken() == ([], [])


async def test_a_websocket_counts_for_the_times_in_which_it_is_used() -> None:
    book, _, clock = new_book()
    book.open(endpoint("a"), clock.now)
    async with book.lease("a", owner="ws") as lease:
        clock.now = 105.0
        lease.hush()
        clock.now = 900.0
        assert lease.speak()
        clock.now = 903.0
    arrivals, ended = book.taken()
    assert [a.at for a in arrivals] == [100.0, 900.0]
    assert [(e.arrived, e.seconds) for e in ended] == [(100.0, 5.0), (900.0, 3.0)]


async def test_what_nobody_takes_is_bounded_and_the_newest_stay() -> None:
    book, _, clock = new_book()
    book.open(endpoint("a"), clock.now)
    for n in range(KEPT + 10):
        clock.now = float(n)
        async with book.lease("a"):
            pass
    arrivals, ended = book.taken()
    assert (len(arrivals), len(ended)) == (KEPT, KEPT)
    assert (arrivals[-1].at, ended[-1].ended) == (KEPT + 9, KEPT + 9)


def test_the_scheduler_alone_tells_the_same_on_a_clock_of_its_own() -> None:
    """What a simulation does: tickets settled without anybody awaiting them."""
    now = [0.0]
    scheduler = Scheduler(lambda: None, lambda: now[0])
    page = scheduler.page("a")
    ticket = scheduler.line_up(page, 500, "agent")
    now[0] = 30.0
    page.endpoint = endpoint("a")
    page.turned(now[0])
    scheduler.dispatch()
    assert ticket.lease is not None
    now[0] = 31.0
    scheduler.end(page, ticket.lease)
    arrivals, ended = scheduler.record.taken()
    assert arrivals == [("a", 0.0)]
    assert ended == [("a", "agent", 0.0, 30.0, 30.0, 31.0, "ok", None)]


def test_noting_a_request_costs_less_than_a_microsecond() -> None:
    """Both rows of a request, without the lease around them: the best of many rounds, so that others may compute."""
    record = Scheduler(lambda: None, time.monotonic).record
    row, count, best = ("a", "desk", 1.0, 0.0, 0.0, 2.0, "ok", None), 2000, 1.0
    gc.disable()
    try:
        for _ in range(50):
            begin = time.perf_counter()
            for _ in range(count):
                record.arrived(("a", 1.0))
                record.ended((*row,))
            best = min(best, (time.perf_counter() - begin) / count)
            record.taken()
    finally:
        gc.enable()
    assert best < 1e-6, f"{best * 1e6:.2f} us"
