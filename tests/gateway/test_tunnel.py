"""WebSockets through the gateway: who may open one, what passes, what it keeps in memory, and how it ends."""

import asyncio
import json
import random
import socket
import struct
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.to_thread
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway_rig import receive_all, receive_until, rig, snapshot
from reconciler.board import Board
from reconciler.core.types import ModelSpec
from reconciler.gateway.access.guard import Guard
from reconciler.gateway.server import GatewayServer, bind, serve
from reconciler.gateway.shared import Shared
from reconciler.gateway.tunnel.frames import Frames, close_frame
from reconciler.gateway.tunnel.tunnels import Tunnels
from reconciler.gateway.upstream.pool import UpstreamPool
from reconciler.leases import Endpoint, LeaseBook, QueueLimits
from reconciler.manifest.applied import ApiKey, GatewaySettings, RequestLimits, Scope
from support import free_port, wait_for_async

pytestmark = pytest.mark.anyio

SWITCH = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: right\r\n\r\n"
)
UNLOADED = close_frame(1001, "model chat was unloaded")


def frame(payload: bytes, kind: int = 2, *, masked: bool = False) -> bytes:
    """Return one WebSocket frame (the mask is all zeros)."""
    size, bit = len(payload), 0x80 if masked else 0
    if size < 126:
        head = struct.pack("!BB", 0x80 | kind, bit | size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", 0x80 | kind, bit | 126, size)
    else:
        head = struct.pack("!BBQ", 0x80 | kind, bit | 127, size)
    return head + (b"\0\0\0\0" if masked else b"") + payload


HELLO = frame(b"hello", masked=True)
PING = frame(b"p", 9, masked=True)


def handshake(path: str = "/upstream/chat/ws", *headers: str, host: str = "127.0.0.1") -> bytes:
    lines = [f"GET {path} HTTP/1.1", f"Host: {host}", "Connection: keep-alive, Upgrade", "Upgrade: websocket"]
    lines += ["Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


@dataclass
class Side:
    """One connection at the engine."""

    head: bytes
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def read(self, size: int) -> bytes:
        with anyio.fail_after(5):
            return await self.reader.readexactly(size)

    async def ended(self) -> None:
        """Return when the gateway has closed the connection."""
        with anyio.fail_after(5), suppress(ConnectionError):
            while await self.reader.read(65536):
                pass


@dataclass
class Tunnelled:
    """A gateway of tunnels only, and an engine that answers handshakes with `answer`."""

    book: LeaseBook
    board: Board
    server: GatewayServer
    port: int
    engine: int = 0
    answer: bytes = SWITCH
    sides: "asyncio.Queue[Side]" = field(default_factory=asyncio.Queue)
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def serve_engine(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            writer.write(self.answer)
            await self.sides.put(Side(head, reader, writer))

    def load(self, model: str = "chat", port: int | None = None, key: str | None = None) -> None:
        endpoint = Endpoint(model, f"http://127.0.0.1:{port or self.engine}", authorization=key)
        self.book.open(endpoint, time.monotonic())

    def publish(self, limits: RequestLimits | None = None, **settings: Any) -> None:
        made = snapshot(
            ModelSpec("chat", "d"),
            ModelSpec("org/big", "d"),
            limits=limits,
            settings=GatewaySettings(**settings),
        )
        self.board.publish(made)
        self.book.configure({name: item.queue for name, item in made.applied.limits.items()})

    async def raw(self, data: bytes) -> anyio.abc.SocketStream:
        stream = await anyio.connect_tcp("127.0.0.1", self.port)
        await stream.send(data)
        return stream

    async def refused(self, data: bytes) -> tuple[int, Any]:
        """Send a handshake that is refused; return status and JSON."""
        async with await self.raw(data) as stream:
            head, _, body = (await receive_all(stream)).partition(b"\r\n\r\n")
        return int(head.split()[1]), json.loads(body)

    @asynccontextmanager
    async def websocket(self, *headers: str) -> AsyncIterator[tuple[anyio.abc.SocketStream, Side]]:
        async with await self.raw(handshake("/upstream/chat/ws", *headers)) as stream:
            await receive_until(stream, b"\r\n\r\n")
            yield stream, await self.side()

    async def side(self) -> Side:
        with anyio.fail_after(5):
            return await self.sides.get()

    def active(self) -> int:
        return self.book.active("chat")

    async def idle(self) -> None:
        await wait_for_async(lambda: not self.book.demands(), 5, "leases and queue entries to be gone")


@asynccontextmanager
async def tunnelled(idle_seconds: float = 60) -> AsyncIterator[Tunnelled]:
    book, board, pool = LeaseBook(lambda: None), Board(), UpstreamPool()
    tunnels = Tunnels(Shared(book, board, pool), idle_seconds=idle_seconds)
    sock = bind(GatewaySettings(port=0))
    running: asyncio.Future[GatewayServer] = asyncio.get_running_loop().create_future()
    app = Guard(tunnels, board)
    task = asyncio.create_task(serve(app, GatewaySettings(), sock=sock, started=running.set_result))
    port = sock.getsockname()[1]
    made = Tunnelled(book, board, await running, port)
    engine_sock = bind(GatewaySettings(port=0))
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):  # what the kernel keeps is not what is tested
        engine_sock.setsockopt(socket.SOL_SOCKET, option, 65536)
    engine = await asyncio.start_server(made.serve_engine, sock=engine_sock)
    made.engine = engine.sockets[0].getsockname()[1]
    made.publish()
    try:
        yield made
    finally:
        made.server.force_exit = True
        made.server.stop()
        await task
        for writer in made.writers:
            writer.transport.abort()
            with suppress(ConnectionError):
                await writer.wait_closed()
        engine.close()
        await engine.wait_closed()


async def test_the_handshake_goes_to_the_engine_without_what_is_between_client_and_gateway() -> None:
    async with tunnelled() as t:
        t.publish(api_keys=(ApiKey("CANARY"),), origins=("https://chat.lan",))
        t.load("org/big", key="Bearer own")
        secrets = ["Authorization: Bearer CANARY", "Cookie: a=CANARY", "Origin: https://chat.lan"]
        sent = handshake("/upstream/org%2Fbig/a%2Fb/ws?x=%2F&y=1+2", *secrets, "Sec-WebSocket-Protocol: chat")
        async with await t.raw(sent) as stream:
            head = (await receive_until(stream, b"\r\n\r\n")).lower()
            side = await t.side()
            assert side.head.startswith(b"GET /a%2Fb/ws?x=%2F&y=1+2 HTTP/1.1\r\n")
            lines = side.head.lower().split(b"\r\n")
            assert f"host: 127.0.0.1:{t.engine}".encode() in lines
            assert [line for line in lines if line.startswith(b"connection")] == [b"connection: upgrade"]
            for line in (
                b"upgrade: websocket",
                b"authorization: bearer own",
                b"sec-websocket-protocol: chat",
                b"sec-websocket-version: 13",
            ):
                assert line in lines
            assert b"dGhlIHNhbXBsZSBub25jZQ==" in side.head
            assert b"canary" not in side.head.lower()
            assert b"origin" not in side.head.lower()
            assert head.startswith(b"http/1.1 101 ")
            for line in (
                b"connection: upgrade",
                b"sec-websocket-accept: right",
                b"x-reconciler-model: org/big",
            ):
                assert line in head.split(b"\r\n")
            side.writer.transport.abort()
        await t.idle()


async def test_bytes_pass_both_ways_as_they_are() -> None:
    up, down = (random.Random(seed).randbytes(3_000_000) for seed in (1, 2))
    async with tunnelled() as t:
        t.load()
        t.answer = SWITCH + b"first"
        async with await t.raw(handshake() + b"early") as stream:
            got = (await receive_until(stream, b"first")).partition(b"\r\n\r\n")[2]
            side = await t.side()
            assert got == b"first"
            assert await side.read(5) == b"early"

            async def send() -> None:
                await stream.send(up)
                side.writer.write(down)

            async with anyio.create_task_group() as group:
                group.start_soon(send)
                assert await side.read(len(up)) == up
                back = b""
                while len(back) < len(down):
                    back += await stream.receive()
            assert back == down
            assert t.active() == 1
        await side.ended()
        await t.idle()


async def test_what_the_client_does_not_take_is_not_read_from_the_engine() -> None:
    async with tunnelled() as t:
        t.load()
        async with t.websocket() as (stream, side):
            sent = 0
            with anyio.move_on_after(0.3) as patience:
                while sent < 200:
                    side.writer.write(bytes(1 << 20))
                    sent += 1
                    await side.writer.drain()
                    patience.deadline = anyio.current_time() + 0.3
            assert 0 < sent < 64
            got = 0
            with anyio.fail_after(20):
                while got < sent << 20:
                    got += len(await stream.receive(1 << 20))
            side.writer.transport.abort()
        await t.idle()


async def test_what_the_engine_does_not_take_is_not_read_from_the_client() -> None:
    async with tunnelled() as t:
        t.load()
        async with t.websocket() as (stream, side):
            sent = 0
            with anyio.move_on_after(0.3) as patience:
                while sent < 200:
                    sent += 1
                    await stream.send(bytes(1 << 20))
                    patience.deadline = anyio.current_time() + 0.3
            assert 0 < sent < 64
            got = 0
            with anyio.fail_after(20):
                while got < (sent - 1) << 20:
                    got += len(await side.reader.read(1 << 20))
            side.writer.transport.abort()
        await t.idle()


async def test_a_handshake_waits_for_its_model_as_a_post_would() -> None:
    async with tunnelled() as t:
        async with await t.raw(handshake()) as stream:
            await wait_for_async(lambda: [d.waiting for d in t.book.demands()] == [1], 2, "it to wait")
            t.load()
            assert b"101" in await receive_until(stream, b"\r\n\r\n")
            (await t.side()).writer.transport.abort()
        await t.idle()


async def test_a_client_that_leaves_the_queue_leaves_nothing_behind() -> None:
    async with tunnelled() as t:
        async with await t.raw(handshake()):
            await wait_for_async(lambda: bool(t.book.demands()), 2, "it to wait")
        await t.idle()
        assert t.sides.empty()


async def test_the_queue_of_handshakes_is_bounded() -> None:
    async with tunnelled() as t:
        t.publish(limits=RequestLimits(queue=QueueLimits(max=1, timeout=0.2)))
        async with await t.raw(handshake()) as waiting:
            await wait_for_async(lambda: bool(t.book.demands()), 2, "it to wait")
            status, body = await t.refused(handshake())
            assert (status, body["error"]["code"]) == (429, "queue_full")
            assert b'"queue_timeout"' in await receive_all(waiting)


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (handshake("/upstream/nobody/ws", "x-api-key: all"), 404, "model_not_found"),
        (handshake(), 401, "invalid_api_key"),
        (handshake("/upstream/chat/ws", "x-api-key: sees"), 403, "insufficient_scope"),
        (
            handshake("/upstream/chat/ws", "x-api-key: all", "Origin: http://evil.example"),
            403,
            "forbidden_origin",
        ),
        (handshake("/upstream/chat/ws", "x-api-key: all", "Origin: null"), 403, "forbidden_origin"),
        (handshake("/upstream/chat/ws", "x-api-key: all", host="evil.example"), 403, "forbidden_host"),
    ],
    ids=["unknown model", "no key", "key for other things", "foreign page", "nameless page", "foreign host"],
)
async def test_who_may_not_is_refused_in_plain_http_and_nothing_is_loaded(
    sent: bytes, status: int, code: str
) -> None:
    async with tunnelled() as t:
        t.publish(api_keys=(ApiKey("all"), ApiKey("sees", "viewer", frozenset({Scope.READ}))))
        got, body = await t.refused(sent)
        assert (got, body["error"]["code"]) == (status, code)
        assert not t.book.demands()


async def test_an_engine_that_cannot_be_reached_or_speaks_nonsense_is_a_502() -> None:
    async with tunnelled() as t:
        t.load(port=free_port())
        assert (await t.refused(handshake()))[0] == 502
        t.load()
        for t.answer in (
            b"nonsense\r\n\r\n",
            b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000,
            b"HTTP/1.1 600 No\r\nContent-Length: 2\r\n\r\nno",
            b"HTTP/1.1 403 No\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n",
            b"HTTP/1.1 403 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n" + b"X: y\r\n" * 300_000,
            b"HTTP/1.1 403 No\r\nTransfer-Encoding: chunked\r\n\r\n2;" + b"x" * 1_500_000,
        ):
            status, body = await t.refused(handshake())
            assert (status, body["error"]["code"]) == (502, "upstream_error")
            (await t.side()).writer.transport.abort()
        await t.idle()


async def test_an_engine_that_does_not_answer_is_a_504() -> None:
    async with tunnelled() as t:
        t.publish(limits=RequestLimits(first_byte=0.1))
        t.load()
        t.answer = b""
        status, body = await t.refused(handshake())
        assert (status, body["error"]["code"]) == (504, "upstream_timeout")
        await (await t.side()).ended()
        await t.idle()


@pytest.mark.parametrize(
    "answer",
    [
        b'HTTP/1.1 404 Not Found\r\nContent-Length: 8\r\nX-Engine: e\r\nX-Reconciler-Hint: h\r\n\r\n{"a": 1}',
        (
            b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\nX-Engine: e\r\n\r\n"
            b'8\r\n{"a": 1}\r\n0\r\nX-Hint: h\r\n\r\n'
        ),
        b'HTTP/1.1 103 Wait\r\nX-Hint: h\r\n\r\nHTTP/1.1 404 No\r\nContent-Length: 8\r\nX-Engine: e\r\n\r\n{"a": 1}',
    ],
    ids=["length", "chunks", "hints first"],
)
async def test_an_engine_that_refuses_is_passed_on_and_nothing_more_is(answer: bytes) -> None:
    """What the client sends behind its handshake would otherwise be a request past every check."""
    async with tunnelled() as t:
        t.load()
        t.answer = answer
        async with await t.raw(handshake() + b"POST /secret HTTP/1.1\r\nHost: x\r\n\r\n") as stream:
            head, _, body = (await receive_all(stream)).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 404 ")
        assert b"\r\nx-engine: e\r\n" in head.lower()
        assert b"hint" not in head.lower()
        assert body == b'{"a": 1}'
        side = await t.side()
        with suppress(ConnectionError):
            assert await side.reader.read() == b""
        await t.idle()


async def test_each_side_is_closed_when_the_other_closes() -> None:
    async with tunnelled() as t:
        t.load()
        async with t.websocket() as (stream, side):
            await stream.aclose()
            await side.ended()
            await t.idle()
        async with t.websocket() as (stream, side):
            side.writer.write(frame(b"last"))
            side.writer.close()
            assert await receive_all(stream) == frame(b"last")
            await t.idle()
        await wait_for_async(lambda: not t.server.server_state.connections, 3, "no connection to be left")


async def test_an_idle_websocket_does_not_keep_its_model() -> None:
    async with tunnelled(idle_seconds=0.1) as t:
        t.load()
        async with t.websocket() as (stream, side):
            assert t.active() == 1
            await wait_for_async(lambda: t.active() == 0, 5, "its lease to be quiet")
            await stream.send(HELLO)
            assert await side.read(len(HELLO)) == HELLO
            assert t.active() == 1
            await wait_for_async(lambda: t.active() == 0, 5, "its lease to be quiet again")
            side.writer.write(frame(b"news"))
            assert await receive_until(stream, b"news") == frame(b"news")
            assert t.active() == 1
            await wait_for_async(lambda: t.active() == 0, 5, "its lease to be quiet for good")
            assert t.book.seal("chat", drain=False)
            t.book.close("chat")
            assert await receive_all(stream) == UNLOADED
            await side.ended()
        await t.idle()


async def test_pings_keep_no_model() -> None:
    async with tunnelled(idle_seconds=0.3) as t:
        t.load()
        async with t.websocket() as (stream, side):
            with anyio.fail_after(5):
                while t.active():
                    await stream.send(PING)
                    assert await side.read(len(PING)) == PING
                    side.writer.write(frame(b"p", 10))
                    await receive_until(stream, frame(b"p", 10))
                    await anyio.sleep(0.02)
            side.writer.transport.abort()
        await t.idle()


@pytest.mark.parametrize(
    ("before", "last"),
    [
        (frame(b"whole"), UNLOADED),
        (frame(bytes(70_000)), UNLOADED),
        (frame(b"whole") + frame(b"in two")[:-3], b""),
        (frame(b"bye", 8), b""),
    ],
    ids=["between frames", "after a large one", "in the middle of one", "after a close frame"],
)
async def test_a_model_that_goes_says_goodbye_where_it_can(before: bytes, last: bytes) -> None:
    async with tunnelled() as t:
        t.load()
        async with t.websocket() as (stream, side):
            side.writer.write(before)
            got = b""
            with anyio.fail_after(5):
                while len(got) < len(before):
                    got += await stream.receive()
            t.book.cut("chat")
            assert await receive_all(stream) == last
            await side.ended()
            await t.idle()


async def test_a_model_that_goes_during_the_handshake_is_a_503() -> None:
    async with tunnelled() as t:
        t.load()
        t.answer = b""
        async with await t.raw(handshake()) as stream:
            side = await t.side()
            t.book.cut("chat")
            assert b'"model_stopped"' in await receive_all(stream)
            await side.ended()


async def test_a_server_that_stops_says_goodbye() -> None:
    async with tunnelled() as t:
        t.load()
        async with t.websocket() as (stream, side):
            t.server.stop()
            assert await receive_all(stream) == close_frame(1001, "the gateway is being stopped")
            await side.ended()
        await t.idle()


async def test_the_gateway_itself_passes_websockets_on() -> None:
    """Guard, routes, and a real server of another process put together."""
    async with rig() as r:
        port = await anyio.to_thread.run_sync(r.engine)
        r.open(port)
        async with await r.raw(handshake("/upstream/chat/any")) as stream:
            head = await receive_until(stream, b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 101 ")
            assert b"\r\nsec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in head
            assert r.book.active("chat") == 1
            r.book.close("chat")
            assert await receive_all(stream) == UNLOADED
        await r.idle()


MESSAGES = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 2, 9, 10]),
        st.sampled_from([0, 1, 125, 126, 300, 65_535, 65_536]),
        st.booleans(),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=40)
@given(MESSAGES, st.lists(st.integers(1, 5000), min_size=1, max_size=50))
def test_frames_are_followed_however_they_are_cut(
    messages: list[tuple[int, int, bool]], cuts: list[int]
) -> None:
    frames = [frame(bytes(size), kind, masked=masked) for kind, size, masked in messages]
    ends = {sum(map(len, frames[:count])) for count in range(len(frames) + 1)}
    data, position, says, follow = b"".join(frames), 0, False, Frames()
    for number in range(len(data)):
        step = data[position : position + cuts[number % len(cuts)]]
        if not step:
            break
        says = follow.feed(step) or says
        position += len(step)
        assert follow.whole == (position in ends)
    assert says == any(kind < 8 for kind, _, _ in messages)
    assert not follow.closing
    follow.feed(b"\x88")
    assert not follow.closing
    follow.feed(b"\x00")
    assert follow.closing


@given(st.text(max_size=200))
def test_a_close_frame_is_one_however_long_its_reason(reason: str) -> None:
    made = close_frame(1001, reason)
    assert len(made) <= 127
    assert made[1] == len(made) - 2
    assert reason.startswith(made[4:].decode())
