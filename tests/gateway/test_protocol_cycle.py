"""One request and its answer between connection and application."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import structlog
from uvicorn.protocols.http.flow_control import FlowControl

from reconciler.gateway.protocol.cycle import FOLLOWS, Cycle

pytestmark = pytest.mark.anyio


class Wire(asyncio.Transport):
    """Keeps what is written, packet by packet."""

    def __init__(self) -> None:
        super().__init__()
        self.packets: list[bytes] = []
        self.closed = self.aborted = False

    def write(self, data: Any) -> None:
        """Keep it."""
        self.packets.append(bytes(data))

    def close(self) -> None:
        """Note it."""
        self.closed = True

    def abort(self) -> None:
        """Note it."""
        self.closed = self.aborted = True

    def is_closing(self) -> bool:
        """Return whether it was closed."""
        return self.closed


class Made:
    """A cycle and what became of it."""

    def __init__(self, *, head_only: bool = False, keep_alive: bool = True, chunks: bool = True) -> None:
        self.wire = Wire()
        self.flow = FlowControl(self.wire)
        self.done = 0
        self.cycle = Cycle(
            self.wire,
            self.flow,
            self._done,
            head_only=head_only,
            keep_alive=keep_alive,
            expects=False,
            chunks=chunks,
        )

    def _done(self) -> None:
        self.done += 1

    async def run(self, app: Callable[[Any, Any, Any], Awaitable[None]]) -> list[bytes]:
        """Run an application; return what was written, without dates."""
        await self.cycle.run(app, {"path": "/x"}, set())
        heads = [packet.partition(b"date: ") for packet in self.wire.packets]
        return [before + (after.partition(b"GMT")[2] if date else b"") for before, date, after in heads]


def start(**more: Any) -> dict[str, Any]:
    """Return the start of an answer of five bytes."""
    return {
        "type": "http.response.start",
        "status": 200,
        "headers": [(b"content-length", b"5")],
        **more,
    }


def piece(data: bytes, *, more: bool = False) -> dict[str, Any]:
    """Return a piece of a body."""
    return {"type": "http.response.body", "body": data, "more_body": more}


HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n\r\n"


@pytest.mark.parametrize(
    ("first", "packets"),
    [(start(), [HEAD, b"hello"]), (start(**{FOLLOWS: True}), [HEAD + b"hello"])],
)
async def test_a_body_that_follows_goes_with_its_head(first: dict[str, Any], packets: list[bytes]) -> None:
    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send(first)
        await send(piece(b"hello"))

    made = Made()
    assert await made.run(app) == packets
    assert (made.done, made.wire.closed) == (1, False)


async def test_a_whole_answer_is_one_packet() -> None:
    made = Made()

    async def app(_scope: Any, _receive: Any, _send: Any) -> None:
        made.cycle.answer(200, [(b"content-length", b"5")], b"hello")
        with pytest.raises(RuntimeError, match="second"):
            made.cycle.answer(200, [], b"")

    assert await made.run(app) == [HEAD + b"hello"]
    assert (made.done, made.cycle.response_complete) == (1, True)


async def test_nothing_is_written_to_a_connection_that_is_being_closed() -> None:
    """uvloop raises where asyncio warns; neither is a fault of the application."""
    made = Made()

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        made.wire.close()
        await send(start())
        await send(piece(b"hello"))
        made.cycle.answer(200, [], b"hello")

    with structlog.testing.capture_logs() as said:
        assert (await made.run(app), made.done) == ([], 0)
    assert said == []


async def test_nothing_is_sent_to_a_client_that_left() -> None:
    made = Made()

    async def app(_scope: Any, _receive: Any, _send: Any) -> None:
        made.cycle.leave()
        made.cycle.answer(200, [], b"hello")

    assert (await made.run(app), made.done) == ([], 0)


@pytest.mark.parametrize(
    ("messages", "head_only", "tail"),
    [
        (
            [
                piece(b"ab", more=True),
                piece(b""),
            ],
            False,
            b"2\r\nab\r\n0\r\n\r\n",
        ),
        ([piece(b"ab")], False, b"2\r\nab\r\n0\r\n\r\n"),
        ([piece(b"")], False, b"0\r\n\r\n"),
        ([piece(b"ab", more=True), piece(b"c")], True, b""),
    ],
)
async def test_a_body_of_unknown_length_goes_in_chunks(
    messages: list[dict[str, Any]], head_only: bool, tail: bytes
) -> None:
    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send(start(headers=[]))
        for message in messages:
            await send(message)

    made = Made(head_only=head_only)
    written = b"".join(await made.run(app))
    assert written.partition(b"\r\n\r\n\r\n")[2] == tail
    assert made.done == 1


@pytest.mark.parametrize("last", [piece(b"hell"), piece(b"hello!"), piece(b"hello!", more=True)])
async def test_a_body_of_another_length_breaks_the_connection(last: dict[str, Any]) -> None:
    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send(start(**{FOLLOWS: True}))
        await send(last)

    made = Made()
    with structlog.testing.capture_logs() as logged:
        written = await made.run(app)
    assert (written, made.wire.closed, made.done) == ([HEAD], True, 0)
    assert isinstance(logged[0]["exc_info"], RuntimeError)


@pytest.mark.parametrize("headers", [[(b"x", b"a\r\nb: c")], [(b"x y", b"a")]])
async def test_a_header_that_would_be_two_is_a_fault_of_ours(headers: list[tuple[bytes, bytes]]) -> None:
    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send(start(headers=headers))

    made = Made()
    with structlog.testing.capture_logs() as logged:
        written = b"".join(await made.run(app))
    assert written.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
    assert (made.wire.closed, isinstance(logged[0]["exc_info"], ValueError)) == (True, True)


@pytest.mark.parametrize("begun", [False, True])
async def test_what_is_not_finished_is_seen_to_be(begun: bool) -> None:
    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        if begun:
            await send(start())

    made = Made()
    with structlog.testing.capture_logs() as logged:
        written = b"".join(await made.run(app))
    assert made.wire.closed
    assert written.startswith(b"HTTP/1.1 200" if begun else b"HTTP/1.1 500")
    assert len(logged) == (0 if begun else 1)


async def test_the_application_is_told_that_the_client_left() -> None:
    told: list[str] = []
    made = Made()

    async def app(_scope: Any, receive: Any, send: Any) -> None:
        made.cycle.on_leave(lambda: told.append("left"))
        made.cycle.leave()
        made.cycle.leave()
        made.cycle.on_leave(lambda: told.append("at once"))
        await send(start())
        assert await receive() == {"type": "http.disconnect"}

    assert (await made.run(app), told) == ([], ["left", "at once"])


async def test_an_answered_request_has_nobody_to_tell() -> None:
    told: list[str] = []
    made = Made()

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        made.cycle.on_leave(lambda: told.append("left"))
        await send(start())
        await send(piece(b"hello"))

    await made.run(app)
    made.cycle.leave()
    assert told == []


async def test_a_body_is_told_as_it_came() -> None:
    made, got = Made(), []

    async def app(_scope: Any, receive: Any, send: Any) -> None:
        made.cycle.feed(b"a")
        made.cycle.feed(b"b")
        got.append(await receive())
        asyncio.get_running_loop().call_soon(made.cycle.whole)
        got.append(await receive())
        await send(start())
        await send(piece(b"hello"))
        got.append(await receive())

    await made.run(app)
    assert got == [
        {"type": "http.request", "body": b"ab", "more_body": True},
        {"type": "http.request", "body": b"", "more_body": False},
        {"type": "http.disconnect"},
    ]


async def test_a_client_of_http_1_0_gets_no_chunks_but_the_end_of_the_connection() -> None:
    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send(start(headers=[]))
        await send(piece(b"ab", more=True))
        await send(piece(b"", more=True))
        await send(piece(b"c"))

    made = Made(keep_alive=False, chunks=False)
    head, _, body = b"".join(await made.run(app)).partition(b"\r\n\r\n\r\n")
    assert (head, body) == (b"HTTP/1.1 200 OK\r\nconnection: close", b"abc")
    assert (made.done, made.wire.closed, made.wire.aborted) == (1, True, False)


@pytest.mark.parametrize("chunks", [True, False])
async def test_a_body_that_is_broken_off_never_looks_whole(chunks: bool) -> None:
    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send(start(headers=[]))
        await send(piece(b"ab", more=True))

    made = Made(keep_alive=chunks, chunks=chunks)
    written = b"".join(await made.run(app))
    assert not written.endswith(b"0\r\n\r\n")
    assert (made.wire.closed, made.wire.aborted) == (True, not chunks)
