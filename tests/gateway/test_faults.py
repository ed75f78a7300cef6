"""What is known of a model's answers: faults in a row, what is owed to whom, and who is told that it hangs."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from gateway_rig import CHAT, Rig, rig, snapshot
from reconciler.core.types import ModelSpec
from reconciler.manifest.applied import RequestLimits
from support import free_port, wait_for_async

pytestmark = pytest.mark.anyio

BODY = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}


def limited(r: Rig, limits: RequestLimits) -> None:
    """Have requests treated so."""
    r.publish(snapshot(ModelSpec("chat", "d"), limits=limits))


async def test_answers_that_say_5xx_count_and_a_good_one_ends_the_row() -> None:
    async with rig() as r:
        r.open(r.engine("--status", "500"))
        for _ in range(3):
            assert (await r.post(BODY)).status_code == 500
        await r.idle()
        assert r.book.faults("chat") == (3, "it answered 500")
        other = r.engine()
        r.open(other)
        assert r.book.faults("chat") == (0, ""), "of another process nothing is known"
        assert (await r.post(BODY)).status_code == 200
        await r.idle()
        assert r.book.faults("chat") == (0, "")


@pytest.mark.parametrize("status", ["400", "404", "429"])
async def test_what_the_client_got_wrong_is_no_fault(status: str) -> None:
    async with rig() as r:
        r.open(r.engine("--status", status))
        assert (await r.post(BODY)).status_code == int(status)
        await r.idle()
        assert r.book.faults("chat") == (0, "")


async def test_no_byte_in_time_is_a_fault_and_a_client_that_leaves_is_none() -> None:
    async with rig() as r:
        limited(r, RequestLimits(first_byte=0.2))
        r.open(r.engine("--think", "60"))
        assert (await r.post(BODY)).status_code == 504
        await r.idle()
        count, fault = r.book.faults("chat")
        assert count == 1
        assert "sent nothing for 0.2 s" in fault
        limited(r, RequestLimits())
        leaving = asyncio.create_task(r.post(BODY))
        await wait_for_async(lambda: r.book.active("chat"), 5, "the request to be served")
        leaving.cancel()
        await r.idle()
        assert r.book.faults("chat")[0] == 1


async def test_a_refused_connection_is_a_fault_of_each_try() -> None:
    async with rig() as r:
        r.open(free_port())
        asking = asyncio.create_task(r.post(BODY))
        await wait_for_async(lambda: r.book.faults("chat")[0] >= 2, 10, "two tries")
        assert "Connection refused" in r.book.faults("chat")[1]
        asking.cancel()


async def test_what_is_owed_is_seen_while_a_request_is_served() -> None:
    async with rig() as r:
        r.open(r.engine("--think", "60"))
        asking = asyncio.create_task(r.post(BODY))
        await wait_for_async(
            lambda: [x.flow.owed for x in r.book.leases("chat") if x.flow] == [True], 5, "it"
        )
        [lease] = r.book.leases("chat")
        assert lease.flow is not None
        assert lease.flow.received == 0
        asking.cancel()
        await r.idle()
        assert r.book.leases("chat") == ()

        r.open(r.engine("--stream", "500", "--delay", "0.02"))
        async with r.client.stream("POST", CHAT, json={**BODY, "stream": True}) as answer:
            assert answer.status_code == 200
            [lease] = r.book.leases("chat")
            assert lease.flow is not None
            before = lease.flow.received
            assert before > 0
            lines = answer.aiter_lines()
            for _ in range(5):
                await anext(lines)
            await wait_for_async(lambda: lease.flow and lease.flow.received > before, 5, "the next event")


async def test_whoever_waits_for_one_that_hangs_is_told_so() -> None:
    async with rig() as r:
        r.open(r.engine("--think", "60"))
        asking = asyncio.create_task(r.post(BODY))
        await wait_for_async(lambda: [x for x in r.book.leases("chat") if x.flow and x.flow.owed], 5, "it")
        [lease] = r.book.leases("chat")
        lease.cut.set("it has sent nothing for 30 s; send the request again")
        answer = await asking
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "1"
        assert answer.json()["error"] == {
            "message": "model 'chat' hangs: it has sent nothing for 30 s; send the request again",
            "type": "server_error",
            "code": "model_hung",
        }
        await r.idle()
        assert r.book.faults("chat") == (0, ""), "to be cut is no fault of its own"


async def test_one_that_is_being_answered_gets_it_as_an_event() -> None:
    async with rig() as r:
        r.open(r.engine("--stream", "500", "--delay", "0.02"))
        async with r.client.stream("POST", CHAT, json={**BODY, "stream": True}) as answer:
            lines = answer.aiter_lines()
            await anext(lines)
            [lease] = r.book.leases("chat")
            lease.cut.set("it sends nothing more")
            rest = [line async for line in _until_broken(lines)]
        assert any('"code": "model_hung"' in line for line in rest), rest


async def _until_broken(lines: AsyncIterator[str]) -> AsyncIterator[str]:
    """Yield lines until the connection ends, however that is."""
    try:
        async for line in lines:
            yield line
    except httpx.RemoteProtocolError:
        return
