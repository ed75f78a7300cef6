"""Work that others may end."""

import asyncio

import pytest

from reconciler.gateway.interrupt import Interrupt

pytestmark = pytest.mark.anyio


async def test_work_that_nobody_ends_comes_to_its_own_end() -> None:
    with Interrupt() as interrupt:
        await asyncio.sleep(0)
    interrupt.end()
    await asyncio.sleep(0)  # it is too late: nothing is cancelled any more
    assert not interrupt.caught


async def test_an_end_from_outside_is_caught_and_the_task_goes_on() -> None:
    with Interrupt() as interrupt:
        asyncio.get_running_loop().call_soon(interrupt.end)
        await asyncio.sleep(5)
        pytest.fail("it was not ended")
    assert interrupt.caught
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)


async def test_an_end_by_the_work_itself_or_before_it_began_counts_at_once() -> None:
    with Interrupt() as interrupt:
        interrupt.end()
        pytest.fail("it was not ended")
    assert interrupt.caught
    early = Interrupt()
    early.end()
    with early:
        await asyncio.sleep(5)
        pytest.fail("it was not ended")
    assert early.caught


async def test_another_error_on_the_way_out_is_the_works_own() -> None:
    interrupt = Interrupt()

    async def work() -> None:
        with interrupt:
            asyncio.get_running_loop().call_soon(interrupt.end)
            try:
                await asyncio.sleep(5)
            except asyncio.CancelledError:
                raise ValueError("mine") from None

    with pytest.raises(ValueError, match="mine"):
        await work()
    assert not interrupt.caught
    await asyncio.sleep(0)


async def test_whoever_cancels_the_whole_task_is_not_held_up() -> None:
    reached: list[str] = []
    interrupt = Interrupt()

    async def work() -> None:
        with interrupt:
            reached.append("work")
            await asyncio.sleep(5)
        reached.append("after")

    for both in (False, True):
        reached.clear()
        interrupt = Interrupt()
        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        if both:
            interrupt.end()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert reached == ["work"]
