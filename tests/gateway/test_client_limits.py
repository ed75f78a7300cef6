"""Towards clients: heads, bodies and connections within bounds, and an answer in JSON to whoever exceeds them."""

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
import pytest
from starlette.types import Receive, Scope, Send

from gateway_rig import receive_all, receive_until, request, rig
from reconciler.gateway.errors import send_json
from reconciler.gateway.protocol.config import ClientLimits
from reconciler.gateway.server import GatewayServer, bind, serve
from reconciler.manifest.applied import GatewaySettings
from support import wait_for_async

pytestmark = pytest.mark.anyio

#: Generous where a test does not mean the limit itself.
CALM = ClientLimits(head_seconds=20, body_seconds=20, write_seconds=20)
OK = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@dataclass
class Site:
    """A server of a small application: it tells the size of the body, and may be told to dawdle."""

    port: int
    server: GatewayServer
    settings: GatewaySettings
    answered: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        size = 0
        path = scope["path"]
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.left.append(path)
                return
            size += len(message["body"])
            if not message["more_body"]:
                break
        if path == "/slow":
            await self.gate.wait()
        if path == "/large":
            start = {"type": "http.response.start", "status": 200, "headers": []}
            await send(start)
            while not self.gate.is_set():
                await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
                await asyncio.sleep(0)
        else:
            await send_json(send, 200, {"path": path, "size": size, "headers": len(scope["headers"])})
        self.answered.append(path)

    async def raw(self, data: bytes) -> anyio.abc.SocketStream:
        stream = await anyio.connect_tcp("127.0.0.1", self.port)
        await stream.send(data)
        return stream

    async def exchange(self, data: bytes) -> list[tuple[int, Any]]:
        """Send bytes, read to the end, return status and JSON of each answer."""
        async with await self.raw(data) as stream:
            return answers(await receive_all(stream))


def answers(data: bytes) -> list[tuple[int, Any]]:
    """Split what a connection carried into status and JSON of each answer."""
    found = []
    while data:
        head, _, rest = data.partition(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        length = next(int(line[15:]) for line in lines if line.startswith(b"content-length:"))
        assert b"content-type: application/json" in lines
        found.append((int(head.split()[1]), json.loads(rest[:length])))
        data = rest[length:]
    return found


def code(answer: tuple[int, Any]) -> tuple[int, str]:
    return answer[0], answer[1]["error"]["code"]


@asynccontextmanager
async def site(limits: ClientLimits = CALM, **settings: Any) -> AsyncIterator[Site]:
    applied = GatewaySettings(port=0, **settings)
    sock = bind(applied)
    running: asyncio.Future[GatewayServer] = asyncio.get_running_loop().create_future()
    made: Site

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await made.app(scope, receive, send)

    task = asyncio.create_task(
        serve(
            app, applied, sock=sock, started=running.set_result, newest=lambda: made.settings, limits=limits
        )
    )
    made = Site(sock.getsockname()[1], await running, applied)
    try:
        yield made
    finally:
        made.gate.set()
        made.server.force_exit = True
        made.server.stop()
        await task


POST = b"POST / HTTP/1.1\r\nHost: x\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
#: Each is something two readers could take for different requests, or no request at all.
MALFORMED: dict[str, bytes] = {
    "length and chunks": POST + b"Content-Length: 5\r\n" + CHUNKED + b"\r\n0\r\n\r\n",
    "chunks and length": POST + CHUNKED + b"Content-Length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": POST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
    "the same length twice": POST + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    "a list of lengths": POST + b"Content-Length: 3, 3\r\n\r\nabc",
    "a signed length": POST + b"Content-Length: +3\r\n\r\nabc",
    "a length without end": POST + b"Content-Length: 99999999999999999999999\r\n\r\n",
    "a chunk size that is none": POST + CHUNKED + b"\r\nzz\r\nabc\r\n0\r\n\r\n",
    "a chunk longer than it says": POST + CHUNKED + b"\r\n3\r\nabcd\r\n0\r\n\r\n",
    "a further coding": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunks not last": POST + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "an unknown coding": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunks twice": POST + CHUNKED + CHUNKED + b"\r\n0\r\n\r\n",
    "chunks in HTTP/1.0": POST.replace(b"1.1", b"1.0") + CHUNKED + b"\r\n0\r\n\r\n",
    "a blank before the colon": POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "a folded header": POST + b"X: a\r\n b\r\n\r\n",
    "bare line feeds": b"GET / HTTP/1.1\nHost: x\n\n",
    "a bare carriage return": b"GET / HTTP/1.1\r\nHost: x\r\nA: b\rc\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a version to come": b"GET / HTTP/2.0\r\nHost: x\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "a target outside ASCII": b"GET /\xc3\xa4 HTTP/1.1\r\nHost: x\r\n\r\n",
    "a blank in the target": b"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n",
}


async def test_what_is_no_http_is_refused_in_json_and_serves_nobody() -> None:
    async with site() as s:
        for name, sent in MALFORMED.items():
            assert [code(a) for a in await s.exchange(sent)] == [(400, "invalid_http")], name
            # Nothing after it is taken for a request of its own.
            assert [code(a) for a in await s.exchange(sent + OK)] == [(400, "invalid_http")], name
        assert s.answered == []
        assert (await s.exchange(OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")))[0][0] == 200


async def test_this_is_no_proxy() -> None:
    async with site() as s:
        sent = b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org\r\n\r\n"
        async with await s.raw(sent + OK) as stream:
            data = await receive_all(stream)
        assert [code(a) for a in answers(data)] == [(405, "method_not_allowed")]
        assert b"\r\nallow: DELETE, GET, " in data
        assert s.answered == []


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nCookie: " + b"c" * 70_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 12_000 + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nCookie: " + b"c" * 600_000,
        POST + CHUNKED + b"\r\n0\r\n" + b"A: b\r\n" * 12_000 + b"\r\n",
    ],
    ids=["target", "one header", "many headers", "no end", "trailers"],
)
async def test_a_head_has_a_bound(head: bytes) -> None:
    async with site() as s:
        assert [code(a) for a in await s.exchange(head)] == [(431, "headers_too_large")]
        assert s.answered == []


async def test_a_large_head_within_the_bound_passes_and_trailers_are_no_headers() -> None:
    async with site() as s:
        cookie = b"Cookie: " + b"c" * 60_000 + b"\r\n"
        sent = POST + cookie + CHUNKED + b"Connection: close\r\n\r\n3\r\nabc\r\n0\r\nHost: y\r\nA: b\r\n\r\n"
        assert await s.exchange(sent) == [(200, {"path": "/", "size": 3, "headers": 4})]


async def test_a_head_that_does_not_come_to_an_end_is_answered_in_time() -> None:
    async with site(replace(CALM, head_seconds=0.05)) as s:
        assert [code(a) for a in await s.exchange(b"GET / HTTP/1.1\r\nHo")] == [(408, "request_timeout")]
        # The same for a further request of a connection; the first one is served.
        sent = OK + b"GET / HTTP/1.1\r\nHo"
        got = await s.exchange(sent)
        assert got[0][0] == 200
        assert code(got[1]) == (408, "request_timeout")


@pytest.mark.parametrize(
    ("first", "then"),
    [(b"", b""), (b"", b"\r\n"), (OK, b"\r\n")],
    ids=["nothing", "a line end", "a line end later"],
)
async def test_a_connection_in_reserve_is_closed_without_a_word(first: bytes, then: bytes) -> None:
    async with site(replace(CALM, head_seconds=0.05)) as s, await s.raw(first) as stream:
        if first:
            await receive_until(stream, b"}")
        await stream.send(then)
        assert await receive_all(stream) == b""


async def test_a_body_that_stalls_is_answered_and_a_slow_one_is_not() -> None:
    async with site(replace(CALM, body_seconds=0.3)) as s:
        stalled = request(b"abcdef", path="/stalled")[:-3]
        assert [code(a) for a in await s.exchange(stalled)] == [(408, "request_timeout")]
        assert s.left == ["/stalled"]
        async with await s.raw(request(b"abcdef", path="/slowly")[:-6]) as stream:
            for piece in (b"a", b"b", b"c", b"d", b"e", b"f"):
                await anyio.sleep(0.1)  # longer than the limit altogether, never in one piece
                await stream.send(piece)
            assert b'"size":6' in await receive_until(stream, b"}")


@pytest.mark.parametrize("begun", [b"3;", b"3\r\nabc\r\n0\r\nA: "], ids=["an extension", "a trailer"])
async def test_what_is_no_body_does_not_keep_a_request_open(begun: bytes) -> None:
    async with site(replace(CALM, body_seconds=0.3)) as s:
        async with (
            await s.raw(POST + CHUNKED + b"\r\n" + begun) as stream,
            anyio.create_task_group() as group,
        ):

            async def drip() -> None:
                while True:
                    await anyio.sleep(0.05)
                    await stream.send(b"x")

            group.start_soon(drip)
            got = await receive_until(stream, b"}}")
            group.cancel_scope.cancel()
        assert code(answers(got)[0]) == (408, "request_timeout")


async def test_who_waits_to_be_asked_for_a_body_is_not_late() -> None:
    seen = anyio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await seen.wait()
        message = await receive()
        await send_json(send, 200, {"size": len(message["body"])})

    async with site(replace(CALM, body_seconds=0.3)) as s:
        s.app = app  # type: ignore[method-assign]
        async with await s.raw(request(b"abc", "Expect: 100-continue")[:-3]) as stream:
            await anyio.sleep(0.5)  # the time for a body is over by then
            seen.set()
            await receive_until(stream, b"100 Continue\r\n\r\n")
            await stream.send(b"abc")
            assert b'"size":3' in await receive_until(stream, b"}")


async def test_a_malformed_request_does_not_take_the_answer_of_the_one_before() -> None:
    async with site() as s:
        sent = OK.replace(b"GET /", b"GET /slow") + b"nonsense\r\n\r\n"
        async with await s.raw(sent) as stream:
            await wait_for_async(lambda: bool(s.server.server_state.tasks), 2, "the first to be served")
            s.gate.set()
            got = answers(await receive_all(stream))
        assert [(status, body["path"]) for status, body in got] == [(200, "/slow")]


async def test_only_so_many_requests_may_be_sent_ahead() -> None:
    async with site(replace(CALM, pipelined=3)) as s:
        async with await s.raw(OK.replace(b"GET /", b"GET /slow") + OK * 10) as stream:
            await wait_for_async(lambda: bool(s.server.server_state.tasks), 2, "the first to be served")
            s.gate.set()
            got = answers(await receive_all(stream))
        assert [body["path"] for _, body in got] == ["/slow", "/", "/", "/"]


async def test_a_wish_to_upgrade_is_ignored_and_what_follows_is_a_request() -> None:
    async with site() as s:
        wish = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: {}\r\nHTTP2-Settings: A"
        sent = b""
        for path, protocol in [("/a", "h2c"), ("/b", "websocket"), ("/upstream/x", "h2c")]:
            sent += request(b"", wish.format(protocol), path=path, method="GET")
        sent += request(b"", "Connection: close", path="/c")
        got = await s.exchange(sent)
        assert [(status, body["path"]) for status, body in got] == [
            (200, "/a"),
            (200, "/b"),
            (200, "/upstream/x"),
            (200, "/c"),
        ]


#: Java's client wishes for HTTP/2 with every POST.
WISH = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: {}\r\nHTTP2-Settings: A\r\n"


def as_chunks(body: bytes) -> bytes:
    """Return a chunked body with an extension and a trailer."""
    return b"%x;a=b\r\n%b\r\n" % (len(body), body) + b"0\r\nA: b\r\n\r\n"


@pytest.mark.parametrize("cut", [0, 1, None], ids=["later", "one byte with the head", "with the head"])
@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunks"])
@pytest.mark.parametrize(("path", "protocol"), [("/a", "h2c"), ("/b", "websocket"), ("/upstream/x", "h2c")])
async def test_a_body_belongs_to_the_request_whose_wish_to_upgrade_is_ignored(
    path: str, protocol: str, chunked: bool, cut: int | None
) -> None:
    body = request(b"", path="/smuggled")
    framing = CHUNKED.decode() if chunked else f"Content-Length: {len(body)}\r\n"
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\n{WISH.format(protocol)}{framing}\r\n".encode()
    rest = (as_chunks(body) if chunked else body) + request(b"abc", "Connection: close", path="/next")
    async with site() as s, await s.raw(head + rest[:cut]) as stream:
        if cut is not None:
            await wait_for_async(lambda: bool(s.server.server_state.tasks), 2, "the head to be read")
            await stream.send(rest[cut:])
        got = answers(await receive_all(stream))
    assert [(body["path"], body["size"]) for _, body in got] == [(path, len(body)), ("/next", 3)]
    assert s.answered == [path, "/next"]


@pytest.mark.parametrize("framing", ["Content-Length: 3\r\n\r\nabc", CHUNKED.decode() + "\r\n0\r\n\r\n"])
async def test_the_handshake_of_a_websocket_has_no_body(framing: str) -> None:
    async with site() as s:
        head = f"GET /upstream/x HTTP/1.1\r\nHost: x\r\n{WISH.format('websocket')}{framing}".encode()
        assert [code(a) for a in await s.exchange(head + OK)] == [(400, "invalid_http")]
        assert s.answered == []


async def test_a_connection_too_many_is_told_so_and_the_limit_may_change() -> None:
    async with site(max_connections=2) as s:
        held = [await s.raw(OK) for _ in range(2)]
        for stream in held:
            await receive_until(stream, b"}")
        for _ in range(3):
            async with await s.raw(OK) as stream:
                data = await receive_all(stream)
            assert [code(a) for a in answers(data)] == [(503, "too_many_connections")]
            assert b"\r\nretry-after: 2\r\n" in data
        s.settings = replace(s.settings, max_connections=3)
        async with await s.raw(OK) as stream:
            await receive_until(stream, b"}")
        s.settings = replace(s.settings, max_connections=2)
        await held.pop().aclose()
        await wait_for_async(lambda: len(s.server.server_state.connections) == 1, 2, "the place to be free")
        async with await s.raw(OK) as stream:
            assert b"200 OK" in await receive_until(stream, b"}")
        for stream in held:
            await stream.aclose()


async def test_more_newcomers_than_can_be_told_are_closed_at_once() -> None:
    async with site(replace(CALM, refused=1, linger_seconds=20), max_connections=0) as s:
        told = await anyio.connect_tcp("127.0.0.1", s.port)
        assert b"503" in await receive_until(told, b"}}")
        async with await anyio.connect_tcp("127.0.0.1", s.port) as other:
            assert await receive_all(other) == b""
        await told.aclose()
        await wait_for_async(lambda: not s.server.server_state.connections, 2, "all to be gone")


async def test_who_does_not_hang_up_after_a_refusal_is_hung_up_on() -> None:
    async with site(replace(CALM, linger_seconds=0.05)) as s, await s.raw(b"nonsense\r\n\r\n") as stream:
        await receive_until(stream, b"}}")
        await wait_for_async(lambda: not s.server.server_state.connections, 2, "the end")


async def test_a_client_that_takes_nothing_is_cut() -> None:
    async with site(replace(CALM, write_seconds=0.1)) as s:
        with socket.create_connection(("127.0.0.1", s.port)) as sock:
            sock.sendall(OK.replace(b"GET /", b"GET /large"))
            await wait_for_async(lambda: bool(s.server.server_state.connections), 2, "the connection")
            await wait_for_async(lambda: not s.server.server_state.connections, 5, "the end of it")
        s.gate.set()


async def test_a_client_that_takes_little_is_not() -> None:
    """Though of the megabytes in the kernel, so that our own buffer stays as full as it was."""
    async with site(replace(CALM, write_seconds=0.3)) as s:
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
            sock.connect(("127.0.0.1", s.port))
            sock.setblocking(False)
            sock.sendall(OK.replace(b"GET /", b"GET /large"))
            began, taken = time.monotonic(), 0
            while time.monotonic() - began < 1.2:
                taken += len(await asyncio.get_running_loop().sock_recv(sock, 16_384))
                await anyio.sleep(0.02)
            assert s.server.server_state.connections
            assert taken < 1 << 20
        s.gate.set()


async def test_clients_that_send_a_byte_at_a_time_keep_nobody_from_being_served() -> None:
    """200 of them, and all are gone when the time of a head is over; meanwhile others are served as ever."""
    async with site(replace(CALM, head_seconds=1.0)) as s, anyio.create_task_group() as group:
        ends: list[bytes] = []

        async def dawdle() -> None:
            async with await s.raw(b"GET / HTTP/1.1\r\nX: ") as stream:
                with anyio.move_on_after(8):
                    while True:
                        with anyio.move_on_after(0.1):
                            ends.append(await stream.receive())
                            return
                        await stream.send(b"x")

        for _ in range(200):
            group.start_soon(dawdle)
        open_ones = s.server.server_state.connections
        await wait_for_async(lambda: len(open_ones) == 200 or bool(ends), 5, "them to be here")
        served = 0
        while not ends:
            status, _ = (await s.exchange(OK.replace(b"x\r\n", b"x\r\nConnection: close\r\n")))[0]
            assert status == 200
            served += 1
        assert served >= 3
        await wait_for_async(lambda: len(ends) == 200, 5, "all of them to be answered")
        assert {code(answers(end)[0]) for end in ends} == {(408, "request_timeout")}


async def test_the_gateway_answers_so_in_front_of_everything() -> None:
    async with rig() as r:
        assert code(answers(await r.exchange(b"nonsense\r\n\r\n"))[0]) == (400, "invalid_http")
