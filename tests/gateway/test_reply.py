"""What a client gets of an answer: as it comes, transformed, or behind a stream that has begun already."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from reconciler.gateway.errors import ApiError
from reconciler.gateway.interrupt import Interrupt
from reconciler.gateway.reply import ErrorForm, Reply
from reconciler.gateway.upstream.headers import Headers
from reconciler.gateway.upstream.pool import Incoming, UpstreamError

pytestmark = pytest.mark.anyio

EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
JSON = b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
EXTRA = [(b"x-reconciler-model", b"chat")]


class Client:
    """What was sent. With `takes` it takes that many messages and then no more."""

    def __init__(self, takes: int | None = None) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.body = b""
        self.messages = 0
        self.ended = False
        self.takes = takes

    async def __call__(self, message: Any) -> None:
        self.messages += 1
        if self.takes is not None and self.messages > self.takes:
            await asyncio.Event().wait()
        if message["type"] == "http.response.start":
            assert self.status == 0, "an answer starts once"
            self.status, self.headers = message["status"], dict(message["headers"])
            return
        assert not self.ended, "nothing comes after the end"
        self.body += message["body"]
        self.ended = not message["more_body"]


def incoming(*packets: bytes, end: bool = False) -> Incoming:
    """Return an answer that is already here."""
    made = Incoming("POST", lambda _on: None)
    for packet in packets:
        made.feed(packet)
    if end:
        made.end()
    return made


def as_json(status: int, value: object) -> bytes:
    """Return a JSON answer."""
    data = json.dumps(value).encode()
    return JSON % (status, len(data), data)


def chunk(data: bytes) -> bytes:
    """Return a chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)


class Shout:
    """A transform that holds back what is not a whole line."""

    #: It never learns of any.
    tokens: tuple[int, int] | None = None

    def __init__(self) -> None:
        self.rest = b""

    def head(self, status: int, headers: Headers) -> Headers:
        """Add a header."""
        return [*headers, (b"x-shout", str(status).encode())]

    def feed(self, piece: bytes) -> bytes:
        """Return whole lines in upper case."""
        lines, mark, self.rest = (self.rest + piece).rpartition(b"\n")
        return (lines + mark).upper()

    def finish(self) -> bytes:
        """Return the rest and a mark."""
        return self.rest.upper() + b"!"


async def test_an_answer_that_is_here_already_is_sent_in_two_messages() -> None:
    client = Client()
    reply = Reply(client)
    await reply.relay(incoming(as_json(200, {"a": 1})), EXTRA)
    assert (client.status, client.body, client.ended, client.messages) == (200, b'{"a": 1}', True, 2)
    assert client.headers == {
        b"content-type": b"application/json",
        b"content-length": b"8",
        b"x-reconciler-model": b"chat",
    }
    assert reply.finished


@pytest.mark.parametrize("packets", [[b"one\ntwo"], [b"on", b"e\ntw", b"o"], [b""], [b"no line"]])
async def test_a_transform_sees_all_and_has_the_last_word(packets: list[bytes]) -> None:
    client, whole = Client(), b"".join(packets)
    head = b"HTTP/1.1 201 OK\r\nContent-Length: %d\r\n\r\n" % len(whole)
    await Reply(client).relay(incoming(head, *packets), EXTRA, Shout())
    assert (client.status, client.body, client.ended) == (201, whole.upper() + b"!", True)
    assert client.headers == {b"x-shout": b"201", b"x-reconciler-model": b"chat"}


async def test_a_stream_that_has_begun_is_continued() -> None:
    client = Client()
    reply = Reply(client)
    await reply.begin_events(EXTRA)
    await reply.comment("loading chat,\n12 s")
    await reply.relay(
        incoming(EVENTS, chunk(b"data: 1\n\n"), chunk(b"data: [DONE]\n\n"), b"0\r\n\r\n"), EXTRA
    )
    assert client.body == b": loading chat, 12 s\n\ndata: 1\n\ndata: [DONE]\n\n"
    assert client.ended
    assert client.headers[b"content-type"] == b"text/event-stream"
    assert client.headers[b"x-reconciler-model"] == b"chat"


REFUSED: Mapping[str, Any] = {"error": {"message": "too long", "type": "x", "code": 400, "n_ctx": 256}}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (as_json(400, REFUSED), REFUSED),
        (as_json(200, {"choices": []}), None),
        (JSON % (500, 4, b"oops"), None),
        (EVENTS.replace(b"\r\nT", b"\r\nContent-Encoding: gzip\r\nT") + b"0\r\n\r\n", None),
        (EVENTS.replace(b"200", b"503") + b"0\r\n\r\n", None),
    ],
)
async def test_what_does_not_continue_a_stream_becomes_an_error_in_it(
    answer: bytes, said: Mapping[str, Any] | None
) -> None:
    client = Client()
    reply = Reply(client)
    await reply.begin_events([])
    await reply.relay(incoming(answer), [])
    assert client.body.startswith(b"data: {")
    assert client.body.endswith(b"}\n\n")
    event = json.loads(client.body[6:])
    if said is not None:
        assert event == said
    else:
        assert event["error"]["code"] == "upstream_error"
        assert "instead of a stream of events" in event["error"]["message"]
    assert not client.ended
    assert not reply.finished


async def test_a_refusal_after_a_stream_has_begun_is_an_event_in_the_clients_form() -> None:
    client = Client()
    form = ErrorForm(lambda error: {"type": "error", "error": {"message": error.message}}, b"event: error\n")
    reply = Reply(client, form)
    await reply.begin_events([])
    await reply.fail(ApiError("queue_timeout", "late"), EXTRA)
    assert client.body == b'event: error\ndata: {"type": "error", "error": {"message": "late"}}\n\n'
    assert not client.ended


async def test_an_error_before_anything_has_the_clients_form_too() -> None:
    client = Client()
    await Reply(client, ErrorForm(lambda error: {"says": error.code})).fail(
        ApiError("queue_full", "x"), EXTRA
    )
    assert (client.status, client.body, client.ended) == (429, b'{"says":"queue_full"}', True)


@pytest.mark.parametrize(
    ("sent", "event"),
    [([chunk(b"data: 1\n\n")], True), ([chunk(b"data: 1\n\n"), chunk(b"data: 2")], False), ([], True)],
)
async def test_an_error_event_follows_only_whole_events(sent: list[bytes], event: bool) -> None:
    client = Client()
    reply = Reply(client)
    with pytest.raises(UpstreamError):
        await reply.relay(incoming(EVENTS, *sent, end=True), [])
    await reply.fail(ApiError("upstream_error", "it died"), [])
    assert (b"it died" in client.body) == event
    assert not client.ended


async def test_a_client_that_takes_nothing_is_given_up() -> None:
    client = Client(takes=2)
    reply = Reply(client, stall=0.05)
    source = incoming(b"HTTP/1.1 200 OK\r\n\r\n", b"a")
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(reply.relay, source, [])
            await anyio.wait_all_tasks_blocked()
            source.feed(b"b")
    assert (client.body, client.ended, reply.finished) == (b"a", False, False)


async def test_a_client_that_waits_for_a_slow_engine_is_not() -> None:
    client = Client()
    source = incoming(b"HTTP/1.1 200 OK\r\n\r\n", b"a")
    loop = asyncio.get_running_loop()
    loop.call_later(0.2, source.feed, b"b")
    loop.call_later(0.25, source.end)
    with anyio.fail_after(5):
        await Reply(client, stall=0.05).relay(source, [])
    assert (client.body, client.ended) == (b"ab", True)


async def test_an_end_from_outside_goes_through() -> None:
    client = Client(takes=1)
    outer = Interrupt()
    asyncio.get_running_loop().call_later(0.02, outer.end)
    with anyio.fail_after(5), outer:
        await Reply(client, stall=60).relay(incoming(as_json(200, 1)), [])
    assert outer.caught
    assert not client.ended
