"""The client towards engines: what it takes for an answer, which connection it uses, and how it ends."""

import asyncio
import itertools
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.gateway.errors import ApiError
from reconciler.gateway.upstream.answer import HELD_BYTES, MAX_HEAD_BYTES
from reconciler.gateway.upstream.connection import PIECE_BYTES
from reconciler.gateway.upstream.exchange import STALE_SECONDS
from reconciler.gateway.upstream.pool import (
    CONNECT_SECONDS,
    MAX_IDLE,
    Incoming,
    Outgoing,
    UpstreamError,
    UpstreamPool,
    build_request,
)
from reconciler.leases import Endpoint
from support import wait_for_async

pytestmark = pytest.mark.anyio


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    """Both loops: what it runs on, and what tests of the rest run on."""
    return "asyncio", {"use_uvloop": request.param}


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
Script = Callable[["Server", asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Server:
    """An engine that does what its script says with each connection."""

    port: int = 0
    host: str = "127.0.0.1"
    connections: int = 0
    requests: list[bytes] = field(default_factory=list)
    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    #: Ends of connections that the script saw.
    ends: int = 0

    @cached_property
    def endpoint(self) -> Endpoint:
        """Where it is."""
        return Endpoint("chat", f"http://{self.host}:{self.port}")

    async def read(self, reader: asyncio.StreamReader) -> bytes:
        """Return one request, head and body."""
        head = await reader.readuntil(b"\r\n\r\n")
        length = [line for line in head.split(b"\r\n") if line.startswith(b"content-length: ")]
        body = await reader.readexactly(int(length[0][16:])) if length else b""
        self.requests.append(head + body)
        return head + body


def answering(*answers: bytes, close: bool = False) -> Script:
    """Return a script that answers the requests of a connection in turn, the last one again and again."""

    async def script(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left = list(answers)
        while True:
            await server.read(reader)
            writer.write(left.pop(0) if len(left) > 1 else left[0])
            await writer.drain()
            if close:
                return

    return script


@asynccontextmanager
async def served(script: Script, host: str = "127.0.0.1") -> AsyncIterator[tuple[Server, UpstreamPool]]:
    """Run a server and a pool."""
    made = Server(host=f"[{host}]" if ":" in host else host)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        made.connections += 1
        made.writers.append(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            await script(made, reader, writer)
        made.ends += 1
        writer.close()

    server = await asyncio.start_server(serve, host, 0)
    made.port = server.sockets[0].getsockname()[1]
    pool = UpstreamPool()
    try:
        yield made, pool
    finally:
        await pool.aclose()
        for writer in made.writers:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
        server.close()
        await server.wait_closed()


def asking(
    body: bytes | AsyncIterator[bytes] = b"{}",
    method: str = "POST",
    length: int | None = None,
    *,
    shares: bool = True,
) -> Outgoing:
    """Return a request."""
    target = b"/v1/x?q=%2F"
    return build_request(target, [], body, method=method, length=length, shares=shares)


def unexpected() -> None:
    raise AssertionError("nobody closes the model")


async def ask(
    pool: UpstreamPool,
    endpoint: Endpoint,
    outgoing: Outgoing | None = None,
    *,
    first_byte: float = 5,
    chunk: float | None = None,
    abort: Callable[[], None] = unexpected,
) -> tuple[int, bytes]:
    """Return status and body of one exchange."""
    with anyio.fail_after(10):
        async with pool.exchange(
            endpoint, outgoing or asking(), first_byte=first_byte, chunk=chunk, abort=abort
        ) as incoming:
            return incoming.status, b"".join([piece async for piece in incoming.pieces()])


CLEAN = [
    pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", b"abc", 200, True, id="length"),
    pytest.param(CHUNKED + b"1\r\na\r\n2;x=1\r\nbc\r\n0\r\nT: 1\r\n\r\n", b"abc", 200, True, id="chunks"),
    pytest.param(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", b"", 500, True, id="empty"),
    pytest.param(b"HTTP/1.1 204 No\r\n\r\n", b"", 204, True, id="204"),
    pytest.param(b"HTTP/1.1 304 No\r\nContent-Length: 9\r\n\r\n", b"", 304, True, id="304"),
    pytest.param(b"HTTP/1.1 100 Go\r\nA: b\r\n\r\nHTTP/1.1 103 Hi\r\n\r\n" + OK, b"{}", 200, True, id="1xx"),
    pytest.param(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", b"{}", 200, False, id="1.0"),
    pytest.param(OK.replace(b"OK\r\n", b"OK\r\nConnection: Close\r\n"), b"{}", 200, False, id="close"),
    pytest.param(
        OK.replace(b"OK\r\n", b"OK\r\nKeep-Alive: timeout=1\r\n"), b"{}", 200, False, id="short keep-alive"
    ),
    pytest.param(OK + b"more", b"{}", 200, False, id="more than its length"),
    pytest.param(
        OK.replace(b"OK\r\n", b"OK\r\nKeep-Alive: timeout=5, max=9\r\n"), b"{}", 200, True, id="keep-alive"
    ),
]


@pytest.mark.parametrize(("answer", "body", "status", "again"), CLEAN)
async def test_a_whole_answer_and_whether_its_connection_is_used_again(
    answer: bytes, body: bytes, status: int, again: bool
) -> None:
    async with served(answering(answer)) as (server, pool):
        assert await ask(pool, server.endpoint) == (status, body)
        assert pool.idle("chat") == int(again)
        assert await ask(pool, server.endpoint) == (status, body)
        assert server.connections == (1 if again else 2)


@given(cut=st.lists(st.integers(0, 400), max_size=8), which=st.sampled_from([p.values for p in CLEAN]))
def test_how_an_answer_is_cut_into_packets_does_not_matter(
    cut: list[int], which: tuple[bytes, bytes, int, bool]
) -> None:
    answer, body, status, _ = which

    async def read() -> None:
        incoming = Incoming("POST", lambda _on: None)
        at = [0, *sorted(min(c, len(answer)) for c in cut), len(answer)]
        for start, end in itertools.pairwise(at):
            if start < end:
                incoming.feed(answer[start:end])
        await incoming.begun()
        assert (incoming.status, b"".join([p async for p in incoming.pieces()])) == (status, body)

    asyncio.run(read())


async def test_a_body_may_end_with_the_connection() -> None:
    async with served(answering(b"HTTP/1.1 200 OK\r\n\r\nall of it", close=True)) as (server, pool):
        assert await ask(pool, server.endpoint) == (200, b"all of it")
        assert pool.idle("chat") == 0


async def test_the_answer_to_head_has_no_body() -> None:
    async with served(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")) as (server, pool):
        assert await ask(pool, server.endpoint, asking(b"", "HEAD")) == (200, b"")
        assert server.requests[0].startswith(b"HEAD /v1/x?q=%2F HTTP/1.1\r\n")
        assert b"content-length" not in server.requests[0]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"", "without an answer"),
        (b"HTTP/1.1 200", "within its answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", "within its answer"),
        (CHUNKED + b"5\r\nabc", "within its answer"),
        (CHUNKED + b"3\r\nabc\r\n", "within its answer"),
        (CHUNKED + b"zz\r\n", "not HTTP/1.1"),
        (b"SSH-2.0-OpenSSH\r\n", "not HTTP/1.1"),
        (OK.replace(b"2\r\n", b"2\r\nTransfer-Encoding: chunked\r\n"), "not HTTP/1.1"),
        (OK.replace(b"2\r\n", b"2\r\nContent-Length: 3\r\n"), "not HTTP/1.1"),
        (b"HTTP/1.1 101 Go\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "changed the protocol"),
        (b"HTTP/1.1 200 OK\r\nA: " + b"b" * MAX_HEAD_BYTES, "larger than"),
        (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * (MAX_HEAD_BYTES // 5) + b"\r\n", "larger than"),
        (b"HTTP/1.1 100 Go\r\n\r\n" * 4000, "larger than"),
        (b"HTTP/1.1 102 Wait\r\n\r\n", "within its answer"),
        (OK.replace(b"200", b"600"), "600 is no status"),
        (OK.replace(b"200", b"999"), "999 is no status"),
        (OK.replace(b"200", b"000"), "within its answer"),
        (CHUNKED.replace(b"chunked", b"gzip") + b"abc", "transfer coding 'gzip'"),
        (CHUNKED.replace(b"chunked", b"gzip, chunked") + b"3\r\nabc\r\n0\r\n\r\n", "coding 'gzip, chunked'"),
    ],
)
async def test_a_broken_answer_is_an_error_and_never_a_clean_end(answer: bytes, said: str) -> None:
    async with served(answering(answer, close=True)) as (server, pool):
        with pytest.raises(UpstreamError, match=said):
            await ask(pool, server.endpoint)
        assert server.connections == 1, "it is asked once"


async def test_nobody_there_is_an_error() -> None:
    async with served(answering(OK)) as (server, pool):
        endpoint = server.endpoint
    with pytest.raises(UpstreamError, match=f"127.0.0.1 port {endpoint.base_url[17:]}: .*refused"):
        await ask(pool, endpoint)
    assert CONNECT_SECONDS < 10


async def test_an_address_of_version_6_goes_in_brackets() -> None:
    async with served(answering(OK), "::1") as (server, pool):
        assert await ask(pool, server.endpoint) == (200, b"{}")
        assert f"\r\nhost: [::1]:{server.port}\r\n".encode() in server.requests[0]


@pytest.mark.parametrize("listens", ["::1", "127.0.0.1"])
async def test_every_address_of_a_name_is_tried(listens: str) -> None:
    async with served(answering(OK), listens) as (server, pool):
        assert await ask(pool, Endpoint("chat", f"http://localhost:{server.port}")) == (200, b"{}")
        assert f"\r\nhost: localhost:{server.port}\r\n".encode() in server.requests[0]


# --- reuse ---


def silent_end(seconds: float) -> Script:
    """Return an engine that answers once on each connection, reads a second request, and closes without a word."""

    async def script(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.read(reader)
        writer.write(OK)
        await server.read(reader)
        await anyio.sleep(seconds)

    return script


async def test_a_request_that_the_engine_may_have_begun_is_not_sent_again() -> None:
    async with served(silent_end(2 * STALE_SECONDS)) as (server, pool):
        await ask(pool, server.endpoint)
        with pytest.raises(UpstreamError, match="without an answer"):
            await ask(pool, server.endpoint)
        assert (server.connections, len(server.requests)) == (1, 2)


async def test_a_connection_that_ends_at_once_had_ended_before_and_no_other_is_kept() -> None:
    async with served(silent_end(0)) as (server, pool):
        for _ in range(4):
            assert await ask(pool, server.endpoint) == (200, b"{}")
        # One resend, and then a connection for each request.
        assert (server.connections, len(server.requests)) == (4, 5)


async def test_an_engine_that_closes_kept_connections_gets_none_until_it_is_opened_again() -> None:
    respond = answering(OK)

    async def script(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.read(reader)
        writer.write(OK)
        await writer.drain()
        if server.connections > 1:
            await respond(server, reader, writer)

    async with served(script) as (server, pool):
        await ask(pool, server.endpoint)
        await wait_for_async(lambda: pool.idle("chat") == 0, 0.9, "the engine to close its connection")
        await ask(pool, server.endpoint)
        assert pool.idle("chat") == 0
        again = Endpoint("chat", server.endpoint.base_url)
        await ask(pool, again)
        assert pool.idle("chat") == 1


@pytest.mark.parametrize(
    ("answer", "shares"),
    [
        (OK, False),
        (OK.replace(b"OK\r\n", b"OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"), True),
    ],
    ids=["a request that shares no connection", "a stream of events"],
)
async def test_some_connections_are_used_once(answer: bytes, shares: bool) -> None:
    async with served(answering(answer)) as (server, pool):
        for _ in range(2):
            assert await ask(pool, server.endpoint, asking(b"x", shares=shares)) == (200, b"{}")
        assert (server.connections, pool.idle("chat")) == (2, 0)


async def test_a_request_that_the_engine_has_not_read_goes_over_a_new_connection() -> None:
    closed = asyncio.Event()

    async def script(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.read(reader)
        writer.write(OK)
        if server.connections == 1:
            # What arrives from now on stays in the kernel, unread, until the connection is closed over it.
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            await closed.wait()
            writer.transport.abort()

    async with served(script) as (server, pool):
        await ask(pool, server.endpoint)
        async with anyio.create_task_group() as group:
            group.start_soon(ask, pool, server.endpoint)
            await wait_for_async(lambda: pool.idle("chat") == 0, 2, "the connection to be in use")
            await anyio.lowlevel.checkpoint()
            closed.set()
        assert (server.connections, len(server.requests)) == (2, 2)


async def test_an_end_that_nobody_has_seen_yet_is_seen_before_reuse() -> None:
    async with served(answering(OK)) as (server, pool):
        await ask(pool, server.endpoint)
        # The loop of the pool has had no chance to read this end.
        with socket.socket(fileno=os.dup(server.writers[0].get_extra_info("socket").fileno())) as same:
            same.shutdown(socket.SHUT_WR)
        assert await ask(pool, server.endpoint) == (200, b"{}")
        assert server.connections == 2


async def test_idle_connections_are_few_and_are_closed_after_a_while() -> None:
    async with served(answering(OK)) as (server, pool):
        async with anyio.create_task_group() as group:
            for _ in range(MAX_IDLE + 3):
                group.start_soon(ask, pool, server.endpoint)
        assert pool.idle("chat") == MAX_IDLE
        await wait_for_async(lambda: pool.idle("chat") == 0, 3, "idle connections to be closed")
        await wait_for_async(lambda: server.ends == server.connections, 2, "the engine to see it")


async def test_an_engine_of_a_single_connection_serves_two_clients() -> None:
    turn = asyncio.Lock()
    respond = answering(OK)

    async def script(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with turn:
            await respond(server, reader, writer)

    async with served(script) as (server, pool):
        began = anyio.current_time()
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(ask, pool, server.endpoint)
        assert anyio.current_time() - began < 0.9, "nobody waited until a connection was idle for long"


async def test_closing_a_model_closes_what_is_idle_and_what_is_busy() -> None:
    respond = answering(OK)

    async def script(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if server.connections == 1:
            await respond(server, reader, writer)
        else:
            await reader.read()

    async with served(script) as (server, pool):
        await ask(pool, server.endpoint)
        idle = pool.idle("chat")
        scope = anyio.CancelScope()

        async def busy() -> None:
            with scope:  # a body that is an iterator never goes over a used connection
                await ask(pool, server.endpoint, asking(once(b"x")), abort=scope.cancel)

        async with anyio.create_task_group() as group:
            group.start_soon(busy)
            await wait_for_async(lambda: server.connections == 2, 2, "the second connection")
            with anyio.fail_after(0.9):
                await pool.close("chat")
        assert (idle, scope.cancelled_caught) == (1, True)
        await wait_for_async(lambda: server.ends == 2, 2, "the engine to see both ends")


# --- bodies and limits ---


async def once(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def test_a_body_of_unknown_length_is_sent_in_chunks() -> None:
    seen: list[bytes] = []

    async def script(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"0\r\n\r\n"))
        writer.write(OK)

    async with served(script) as (server, pool):
        assert await ask(pool, server.endpoint, asking(once(b"abc", b"", b"de"))) == (200, b"{}")
    head, _, body = seen[0].partition(b"\r\n\r\n")
    assert b"transfer-encoding: chunked" in head
    assert b"content-length" not in head
    assert body == b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
async def test_a_large_body_arrives_whole(kind: Callable[[bytes], bytes]) -> None:
    data = bytes(range(256)) * (PIECE_BYTES // 256 * 5 + 3)
    async with served(answering(OK)) as (server, pool):
        for body in (kind(data), once(data[:1000], data[1000:])):
            length = None if isinstance(body, bytes | bytearray | memoryview) else len(data)
            assert await ask(pool, server.endpoint, asking(body, length=length)) == (200, b"{}")
        assert [r.partition(b"\r\n\r\n")[2] == data for r in server.requests] == [True, True]


@pytest.mark.parametrize(("pieces", "said"), [((b"ab",), "shorter"), ((b"ab", b"cd"), "longer")])
async def test_a_body_of_another_length_than_was_said_is_an_error(
    pieces: tuple[bytes, ...], said: str
) -> None:
    async with served(answering(OK)) as (server, pool):
        with pytest.raises(UpstreamError, match=said):
            await ask(pool, server.endpoint, asking(once(*pieces), length=3))


async def test_an_answer_may_come_before_the_body_is_sent() -> None:
    endless = 0

    async def source() -> AsyncIterator[bytes]:
        nonlocal endless
        while True:
            endless += 1
            yield b"x" * 100_000

    async def script(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 No\r\nContent-Length: 3\r\n\r\nbig")
        await reader.read()

    async with served(script) as (server, pool):
        assert await ask(pool, server.endpoint, asking(source())) == (413, b"big")
        assert pool.idle("chat") == 0, "its request was not complete"
        before = endless
        await wait_for_async(lambda: server.ends == 1, 2, "the connection to be closed")
        assert endless == before


async def test_what_the_source_of_a_body_raises_is_raised() -> None:
    async def source() -> AsyncIterator[bytes]:
        yield b"x"
        raise ApiError("request_too_large", "too large")

    async with served(answering(OK)) as (server, pool):
        with pytest.raises(ApiError, match="too large"):
            await ask(pool, server.endpoint, asking(source()))
        await wait_for_async(lambda: server.ends == 1, 2, "the connection to be closed")


@pytest.mark.parametrize(
    ("answer", "said"),
    [(b"", "for 0.05 s, the limit for the first byte"), (CHUNKED + b"1\r\na\r\n", "between two pieces")],
)
async def test_an_engine_that_stops_is_a_timeout(answer: bytes, said: str) -> None:
    async def script(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.read(reader)
        writer.write(answer)
        await reader.read()

    async with served(script) as (server, pool):
        with pytest.raises(ApiError, match=said) as caught:
            await ask(pool, server.endpoint, first_byte=0.05 if not answer else 5, chunk=0.05)
        assert caught.value.code == "upstream_timeout"
        await wait_for_async(lambda: server.ends == 1, 2, "the connection to be closed")


async def test_an_engine_that_takes_no_body_is_a_timeout() -> None:
    async def script(_server: Server, reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with served(script) as (server, pool):
        with pytest.raises(ApiError, match="first byte"):
            await ask(pool, server.endpoint, asking(b"x" * (64 << 20)), first_byte=0.1)
        for writer in server.writers:
            writer.transport.abort()


async def test_a_slow_source_is_no_fault_of_the_engine() -> None:
    go = asyncio.Event()

    async def source() -> AsyncIterator[bytes]:
        yield b"a"
        await go.wait()
        yield b"b"

    async with served(answering(OK)) as (server, pool):
        asyncio.get_running_loop().call_later(0.2, go.set)
        assert await ask(pool, server.endpoint, asking(source(), length=2), first_byte=0.1) == (200, b"{}")


async def test_a_reader_who_does_not_read_stops_the_engine() -> None:
    sent = 0

    async def script(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await server.read(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()
            sent += 65536

    async with served(script) as (server, pool):
        async with pool.exchange(server.endpoint, asking(), first_byte=5, abort=unexpected) as incoming:
            transport = server.writers[0].transport
            await wait_for_async(lambda: transport.get_write_buffer_size() > 0, 5, "the way to be full")
            stopped = sent
            for _ in range(20):
                await anyio.lowlevel.checkpoint()
            assert sent == stopped
            taken = 0
            async for piece in incoming.pieces():
                taken += len(piece)
                if taken > stopped + 4 * HELD_BYTES:
                    break
        await wait_for_async(lambda: server.ends == 1, 5, "the engine to see that nobody reads any more")


async def test_an_engine_is_sent_its_own_key_and_never_a_clients() -> None:
    async with served(answering(OK)) as (server, pool):
        endpoint = Endpoint("chat", server.endpoint.base_url, authorization="Bearer own")
        sent = [(b"Authorization", b"Bearer clients"), (b"x-api-key", b"clients")]
        outgoing = build_request(b"/v1/x", sent, b"{}")
        async with pool.exchange(
            endpoint, outgoing, first_byte=9.0, chunk=None, abort=lambda: None
        ) as incoming:
            assert incoming.status == 200
        assert server.requests[0].count(b"Bearer own") == 1
        assert b"clients" not in server.requests[0]
