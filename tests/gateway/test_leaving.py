"""Clients that leave, models that are stopped: who is told, who is not, and what is left behind (nothing)."""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import anyio
import pytest

from gateway_rig import Exchange, Rig, receive_all, receive_until, request, rig, scripted
from reconciler.core.types import Demand
from support import get_json, wait_for_async

pytestmark = pytest.mark.anyio

BODY = b'{"model":"chat","stream":true}'
START = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
EVENT = b"9\r\ndata: 1\n\n\r\n"


async def waiting(r: Rig, count: int) -> None:
    def reached() -> bool:
        return sum(d.waiting for d in r.book.demands()) == count

    await wait_for_async(reached, 5, f"{count} waiting requests")


async def test_leaving_the_queue_takes_the_entry_along() -> None:
    async with rig() as r:
        stream = await r.raw(request(BODY))
        await waiting(r, 1)
        await stream.aclose()
        await r.idle()


async def test_one_of_two_waiters_leaves_and_the_other_is_answered() -> None:
    async with rig() as r:
        port = r.engine("--load", "0.1")
        stays, leaves = await r.raw(request(BODY, "Connection: close")), await r.raw(request(BODY))
        await waiting(r, 2)
        await leaves.aclose()
        await waiting(r, 1)
        assert r.book.demands()[0].active == 0
        r.open(port)
        answer = await receive_all(stays)
        await stays.aclose()
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"data: [DONE]" in answer
        assert b"x-reconciler-waited: " in answer
        stats = await anyio.to_thread.run_sync(get_json, f"http://127.0.0.1:{port}/stats")
        assert stats["requests"] == 1, "the one who left was not sent to the engine"
        await r.idle()


async def test_a_load_that_ends_after_all_have_left_finds_an_idle_model() -> None:
    async with rig() as r, scripted() as engine:
        stream = await r.raw(request(BODY))
        await waiting(r, 1)
        await stream.aclose()
        await r.idle()
        r.open(engine.port)
        assert r.book.demands() == ()
        assert r.book.seal("chat", drain=False), "nothing holds it: it may go at once"


async def before_the_first_byte(_got: Exchange, _stream: anyio.abc.SocketStream) -> None:
    """The engine thinks."""


async def in_mid_stream(got: Exchange, stream: anyio.abc.SocketStream) -> None:
    """One event is through."""
    await got.write(START + EVENT)
    await receive_until(stream, b"data: 1\n\n")


Situation = Callable[[Exchange, anyio.abc.SocketStream], Awaitable[None]]
SITUATIONS = pytest.mark.parametrize("situation", [before_the_first_byte, in_mid_stream])


@SITUATIONS
async def test_the_engine_sees_a_client_leave(situation: Situation) -> None:
    async with rig() as r, scripted() as engine:
        r.open(engine.port)
        other = await r.raw(request(BODY))
        others = await engine.next()
        stream = await r.raw(request(BODY))
        got = await engine.next()
        await situation(got, stream)
        assert r.book.demands() == (Demand("chat", active=2),)
        await stream.aclose()
        await got.left()
        await wait_for_async(lambda: r.book.demands() == (Demand("chat", active=1),), 2, "one lease left")
        await others.write(START + b"0\r\n\r\n")
        assert (await receive_until(other, b"0\r\n\r\n")).startswith(b"HTTP/1.1 200")
        await other.aclose()
        await r.idle()


@SITUATIONS
@pytest.mark.parametrize(
    "ahead",
    [request(b"", path="/healthz", method="GET"), request(bytes(1 << 20))],
    ids=["a request", "a body that is not read yet"],
)
async def test_so_it_does_when_the_client_had_sent_more_requests(situation: Situation, ahead: bytes) -> None:
    async with rig() as r, scripted() as engine:
        r.open(engine.port)
        stream = await r.raw(request(BODY) + ahead)
        got = await engine.next()
        await situation(got, stream)
        await stream.aclose()
        await got.left()
        await r.idle()


async def test_to_end_one_direction_is_to_leave_and_is_answered() -> None:
    async with rig() as r, scripted() as engine:
        r.open(engine.port)
        async with await r.raw(request(BODY)) as stream:
            got = await engine.next()
            await stream.send_eof()
            await got.left()
            await r.idle()
            assert b"counts as leaving" in await receive_all(stream)


async def test_a_client_that_is_not_read_from_can_still_leave() -> None:
    """The engine takes nothing of a large body, so that nothing of it is read either."""
    async with rig() as r, deaf_engine() as port:
        r.open(port)
        head = request(b"", path="/upstream/chat/x").replace(b"Length: 0", b"Length: %d" % (64 << 20))
        stream = await r.raw(head)
        with anyio.move_on_after(0.5):
            await stream.send(bytes(64 << 20))
        sock = stream.extra(anyio.abc.SocketAttribute.raw_socket)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await stream.aclose()
        await r.idle()


@asynccontextmanager
async def deaf_engine() -> AsyncIterator[int]:
    """Listen on the port that this yields, and read nothing."""
    held: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        for writer in held:
            writer.transport.abort()
        server.close()
        await server.wait_closed()


async def test_large_requests_sent_ahead_are_not_answered_but_what_came_before_is() -> None:
    async with rig() as r, scripted() as engine:
        r.open(engine.port)
        small = request(b"", path="/healthz", method="GET")
        async with await r.raw(request(BODY) + small + request(bytes(1 << 20)) + small) as stream:
            got = await engine.next()
            await got.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            data = await receive_all(stream)
        assert data.count(b"HTTP/1.1 ") == 2
        await r.idle()


async def test_a_client_that_does_not_read_can_still_leave() -> None:
    async with rig() as r, scripted() as engine:
        r.open(engine.port)
        stream = await r.raw(request(BODY))
        got = await engine.next()
        await got.write(START)

        async def flood() -> None:
            with suppress(ConnectionError):
                while True:
                    await got.write(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")

        async with anyio.create_task_group() as group:
            group.start_soon(flood)
            await wait_for_async(lambda: blocked(got), 5, "every buffer on the way to be full")
            await stream.aclose()
        await r.idle()


def blocked(got: Exchange) -> bool:
    return got.writer.transport.get_write_buffer_size() > 0


@SITUATIONS
async def test_a_cut_lease_ends_the_request_and_says_so(situation: Situation) -> None:
    async with rig() as r, scripted() as engine:
        r.open(engine.port)
        stream = await r.raw(request(BODY))
        got = await engine.next()
        await situation(got, stream)
        assert r.book.seal("chat", drain=True)
        r.book.cut("chat")
        with anyio.fail_after(2):
            await r.book.drained("chat")
        await got.left()
        if situation is before_the_first_byte:
            answer = await receive_until(stream, b"}}")
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert b"retry-after: 1\r\n" in answer
            assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "model_stopped"
        else:
            rest = await receive_all(stream)
            assert json.loads(rest.partition(b"data: ")[2].partition(b"\n\n")[0])["error"]["code"] == (
                "model_stopped"
            )
            assert not rest.endswith(b"0\r\n\r\n"), "a clean end would pass for a whole answer"
        await stream.aclose()


async def test_in_the_middle_of_a_line_no_event_is_pushed_in() -> None:
    async with rig() as r, scripted() as engine:
        r.open(engine.port)
        stream = await r.raw(request(BODY))
        await (await engine.next()).write(START + b"5\r\ndata:\r\n")
        await receive_until(stream, b"data:")
        r.book.close("chat")
        assert await receive_all(stream) in (b"", b"\r\n")
        await stream.aclose()
        await r.idle()


async def test_close_upstream_closes_every_connection_of_one_model() -> None:
    async with rig() as r, scripted() as engine, scripted() as bystander:
        r.open(engine.port)
        r.open(bystander.port, "other")
        streams = [await r.raw(request(BODY)) for _ in range(3)]
        seen = [await engine.next() for _ in streams]
        kept = await r.raw(request(b'{"model":"other"}'))
        untouched = await bystander.next()
        with anyio.fail_after(2):
            await r.pool.close("chat")
        for got in seen:
            await got.left()
        assert r.book.demands() == (Demand("other", active=1),)
        await untouched.write(START + b"0\r\n\r\n")
        assert (await receive_until(kept, b"0\r\n\r\n")).startswith(b"HTTP/1.1 200")
        for stream in [*streams, kept]:
            await stream.aclose()


async def test_an_idle_connection_to_an_engine_is_used_again_and_closed_with_the_model() -> None:
    async with rig() as r, scripted() as engine:
        r.open(engine.port)
        async with await r.raw(request(BODY)) as stream:
            first = await engine.next()
            await first.write(WHOLE)
            await receive_until(stream, b"{}")
            await stream.send(request(BODY))
            second = await engine.next()
            assert second.writer is first.writer
            await second.write(WHOLE)
            await receive_until(stream, b"{}")
            await wait_for_async(lambda: r.pool.idle("chat") == 1, 2, "the connection to be idle")
            with anyio.fail_after(0.5):  # sooner than it is closed for being idle
                await r.pool.close("chat")
                await second.left()


async def test_a_slow_model_delays_nobody_else() -> None:
    async with rig() as r, scripted() as slow, scripted() as quick:
        r.open(slow.port)
        r.open(quick.port, "other")
        held = [await r.raw(request(BODY)) for _ in range(20)]
        for _ in held:
            await slow.next()
        async with await r.raw(request(b'{"model":"other"}')) as stream:
            await (await quick.next()).write(START + b"0\r\n\r\n")
            assert (await receive_until(stream, b"0\r\n\r\n")).startswith(b"HTTP/1.1 200")
        for stream in held:
            await stream.aclose()
        await r.idle()


async def test_many_leave_at_once_and_nothing_is_left() -> None:
    async with rig() as r, scripted() as engine:
        r.open(engine.port)
        streams = [await r.raw(request(BODY)) for _ in range(40)]
        seen: list[Exchange] = [await engine.next() for _ in streams]
        assert r.book.demands() == (Demand("chat", active=40),)
        await asyncio.gather(*(stream.aclose() for stream in streams))
        for got in seen:
            await got.left()
        await r.idle()
        assert engine.requests.empty()
