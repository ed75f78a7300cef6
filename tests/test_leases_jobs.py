"""Jobs of engines that work on after their answer, as the lease book counts them."""

import anyio
import pytest

from lease_clients import Client, new_book, settle
from reconciler.core.types import Demand
from reconciler.leases import Endpoint

pytestmark = pytest.mark.anyio

A = Endpoint("a", "http://127.0.0.1:1")


async def test_a_model_is_in_use_while_it_works_on_and_was_last_used_when_that_ends() -> None:
    book, wakes, clock = new_book()
    book.open(A, clock.now)
    book.jobs("a", 2)
    assert book.demands() == (Demand("a", jobs=2),)
    assert book.demands()[0].in_use
    assert not book.seal("a", drain=False)
    for clock.now, count in ((110.0, 1), (120.0, 0)):
        book.jobs("a", count)
        assert book.last_used("a") == clock.now
    clock.now = 130.0
    book.jobs("a", 0)
    assert book.last_used("a") == 120.0, "nothing ended then"
    assert (book.demands(), wakes.count) == ((), 0)
    assert book.seal("a", drain=False)


async def test_the_end_of_the_last_job_wakes_the_loop_where_it_waits_for_that() -> None:
    book, wakes, clock = new_book()
    book.open(A, clock.now)
    book.jobs("a", 1)
    other = Client(book, "b").start()
    await settle()
    before = wakes.count
    book.jobs("a", 0)
    assert wakes.count == before + 1
    await other.leave()


async def test_a_drain_waits_for_jobs_and_a_cut_does_not() -> None:
    book, _, clock = new_book()
    book.open(A, clock.now)
    book.jobs("a", 1)
    assert book.seal("a", drain=True)
    with anyio.move_on_after(0.01) as waited:
        await book.drained("a")
    assert waited.cancelled_caught
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(book.drained, "a")
        await settle()
        book.jobs("a", 0)
    book.jobs("a", 1)
    book.cut("a")
    await book.drained("a")


async def test_jobs_end_with_their_process_and_a_model_that_is_not_open_has_none() -> None:
    book, _, clock = new_book()
    book.jobs("a", 3)
    assert book.demands() == ()
    book.open(A, clock.now)
    book.jobs("a", 3)
    book.close("a")
    assert (book.demands(), book.works_on("a")) == ((), 0)
