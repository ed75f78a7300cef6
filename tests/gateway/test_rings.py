"""Of a request of the data API that is over nothing waits for the collector of rings: what it held is free at once."""

import gc
from collections.abc import Iterator

import anyio
import pytest

from gateway_rig import CHAT, Exchange, Rig, receive_all, request, rig, scripted
from reconciler.gateway.body.room import LARGE
from reconciler.gateway.task import Task
from support import free_port, wait_for_async

pytestmark = pytest.mark.anyio

BODY = b'{"model":"chat","messages":[]}'
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    """Have nobody take rings apart meanwhile; there are none of other tests."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def left() -> int:
    """Return how many requests are in memory."""
    return sum(isinstance(found, Task) for found in gc.get_objects())


async def all_gone(r: Rig) -> None:
    """Wait until the requests are over, and see that nothing of them is left."""
    await r.idle()
    await wait_for_async(lambda: left() == 0, 2, "nothing to be left of the requests")


async def asked(r: Rig) -> anyio.abc.SocketStream:
    """Send a request whose answer ends with its connection."""
    return await r.raw(request(BODY, "Connection: close", path=CHAT))


async def test_nothing_is_left_of_one_that_was_answered() -> None:
    async with rig() as r, scripted() as engine:
        r.open(engine.port)
        for _ in range(3):
            async with await asked(r) as stream:
                await (await engine.next()).write(OK)
                assert (await receive_all(stream)).startswith(b"HTTP/1.1 200 ")
        await all_gone(r)


async def test_nothing_is_left_of_one_whose_model_went_or_whose_client_left() -> None:
    async with rig() as r, scripted() as engine:
        r.open(engine.port)
        async with await asked(r) as stream:
            sent: Exchange = await engine.next()
            r.book.cut("chat")
            assert (await receive_all(stream)).startswith(b"HTTP/1.1 503 ")
        stream = await asked(r)
        sent = await engine.next()
        await stream.aclose()
        del sent
        await all_gone(r)


CHUNKED = (
    b"POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    % CHAT.encode()
)


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"{", 400), (b'{"model":"nobody"}', 404)],
)
async def test_nothing_is_left_of_one_that_was_refused(body: bytes, status: int) -> None:
    async with rig() as r:
        async with await r.raw(request(body, "Connection: close", path=CHAT)) as stream:
            assert (await receive_all(stream)).startswith(b"HTTP/1.1 %d " % status)
        await all_gone(r)


async def test_nothing_is_left_of_a_body_that_grew_too_large() -> None:
    async with rig(max_body=2 * LARGE) as r:
        async with await r.raw(
            CHUNKED + b"%x\r\n" % (3 * LARGE) + b" " * (3 * LARGE) + b"\r\n0\r\n\r\n"
        ) as stream:
            assert (await receive_all(stream)).startswith(b"HTTP/1.1 413 ")
        await all_gone(r)


async def test_nothing_is_left_of_one_whose_engine_broke_or_was_not_there() -> None:
    async with rig() as r, scripted() as engine:
        r.open(engine.port)
        async with await r.raw(request(BODY, "Connection: close", path=CHAT)) as stream:
            (await engine.next()).writer.close()
            assert (await receive_all(stream)).startswith(b"HTTP/1.1 502 ")
        r.open(free_port())
        async with await r.raw(request(BODY, "Connection: close", path=CHAT)) as stream:
            await wait_for_async(lambda: r.wakes, 2, "the loop to be told")
            r.open(engine.port)
            await (await engine.next()).write(OK)
            assert (await receive_all(stream)).startswith(b"HTTP/1.1 200 ")
        await all_gone(r)
