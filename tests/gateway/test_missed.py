"""Requests whose engine is gone before anything was sent to it: they wait for it to be loaded again."""

import socket
import time
from collections.abc import Iterator

import anyio
import anyio.to_thread
import pytest

from gateway_rig import receive_all, request, rig, scripted
from reconciler.host import ending
from reconciler.host.identity import LINUX
from reconciler.leases import Endpoint
from slow_ending import slow_ending
from support import wait_for_async

pytestmark = pytest.mark.anyio

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
PATHS = pytest.mark.parametrize("path", ["/v1/chat/completions", "/upstream/chat/x"])
BODIES = pytest.mark.parametrize("size", [10, 2 << 20], ids=["small", "large"])


@pytest.fixture
def nobody() -> Iterator[int]:
    """A port that is bound, so that nobody else takes it, and where nobody listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        yield sock.getsockname()[1]


@PATHS
@BODIES
async def test_a_request_that_finds_nobody_is_sent_to_the_engine_that_is_loaded_next(
    path: str, size: int, nobody: int
) -> None:
    body = b'{"model":"chat","pad":"%b"}' % (b"x" * size)
    async with rig() as r, scripted() as engine:
        r.open(nobody)
        async with await r.raw(request(body, "Connection: close", path=path)) as stream:
            await wait_for_async(lambda: bool(r.wakes), 2, "the loop to be asked to look")
            await wait_for_async(lambda: r.book.active("chat") == 0, 2, "the lease to be over")
            r.book.close("chat")
            await wait_for_async(
                lambda: [d.waiting for d in r.book.demands()] == [1], 2, "it to wait in line"
            )
            r.open(engine.port)
            got = await engine.next()
            assert got.body == body
            await got.write(OK)
            answer = await receive_all(stream)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert answer.count(b"x-reconciler-waited: ") == 1
        assert engine.requests.empty()
        await r.idle()


@PATHS
async def test_a_client_that_finds_nobody_can_leave(path: str, nobody: int) -> None:
    async with rig() as r:
        r.open(nobody)
        stream = await r.raw(request(b'{"model":"chat"}', path=path))
        await wait_for_async(lambda: bool(r.wakes), 2, "the loop to be asked to look")
        await stream.aclose()
        r.book.close("chat")
        await r.idle()


@PATHS
async def test_a_model_that_goes_before_anything_was_sent_is_waited_for(path: str) -> None:
    """Its lease was granted and cut before the request could take its turn."""
    async with rig() as r, scripted() as engine:
        async with await r.raw(request(b'{"model":"chat"}', "Connection: close", path=path)) as stream:
            await wait_for_async(
                lambda: [d.waiting for d in r.book.demands()] == [1], 2, "it to wait in line"
            )
            r.book.open(Endpoint("chat", f"http://127.0.0.1:{engine.port}"), time.monotonic())
            r.book.close("chat")
            await wait_for_async(lambda: [d.waiting for d in r.book.demands()] == [1], 2, "it to wait again")
            r.open(engine.port)
            await (await engine.next()).write(OK)
            assert (await receive_all(stream)).startswith(b"HTTP/1.1 200 ")
        await r.idle()


@pytest.mark.skipif(not LINUX, reason="only Linux tells that a process is ending")
@PATHS
async def test_nothing_is_sent_to_a_process_that_is_ending(path: str) -> None:
    """It was killed, and the system has not come to close its port: connections are taken, and reset later."""
    with slow_ending() as server:
        async with rig() as r, scripted() as engine:
            address, pid = f"http://127.0.0.1:{server.port}", server.process.pid
            r.book.open(Endpoint("chat", address, ending=lambda: ending(pid)), time.monotonic())
            await anyio.to_thread.run_sync(server.kill)
            async with await r.raw(request(b'{"model":"chat"}', "Connection: close", path=path)) as stream:
                await wait_for_async(lambda: bool(r.wakes), 2, "the loop to be asked to look")
                r.book.close("chat")
                await wait_for_async(
                    lambda: [d.waiting for d in r.book.demands()] == [1], 2, "it to wait in line"
                )
                r.open(engine.port)
                await (await engine.next()).write(OK)
                assert (await receive_all(stream)).startswith(b"HTTP/1.1 200 ")
            await r.idle()


async def test_a_request_that_was_sent_is_not_sent_again() -> None:
    async with rig() as r, scripted() as engine:
        r.open(engine.port)
        async with await r.raw(request(b'{"model":"chat"}', "Connection: close")) as stream:
            got = await engine.next()
            got.writer.transport.abort()
            assert (await receive_all(stream)).startswith(b"HTTP/1.1 502 ")
        with anyio.move_on_after(0.1):
            await engine.requests.get()
            raise AssertionError("it was sent twice")
