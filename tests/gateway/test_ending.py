"""The end of a body that has no length: what proves that it came whole, and what that it did not."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from gateway_rig import CHAT, Scripted, rig
from reconciler.gateway.upstream import answer as answer_module
from reconciler.gateway.upstream.ending import TAIL_BYTES, Tail
from reconciler.leases import Endpoint

pytestmark = pytest.mark.anyio

EVENTS = b"text/event-stream"
PART = b'data: {"choices": [{"delta": {"content": "a"}, "finish_reason": null}]}\n\n'
FINISH = b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"
HEAD = b"HTTP/1.0 200 OK\r\ncontent-type: %b\r\n\r\n"


def tail(kind: bytes, *pieces: bytes) -> Tail:
    """Return the end of a body that came in these pieces."""
    made = Tail(kind)
    for piece in pieces:
        made.add(piece)
    return made


@pytest.mark.parametrize(
    ("kind", "body", "whole", "cut"),
    [
        (EVENTS, PART + DONE, True, False),
        (EVENTS, PART + DONE.rstrip(), True, False),
        (EVENTS, PART, False, True),
        (EVENTS, PART + PART[:30], False, True),
        (EVENTS, PART + FINISH, False, False),
        (EVENTS, b'event: message_stop\r\ndata: {"type": "message_stop"}\r\n\r\n', True, False),
        (EVENTS, b'event: content_block_delta\ndata: {"type": "content_block_delta"}\n\n', False, True),
        (EVENTS, b'data: {"type": "response.completed", "response": {}}\n\n', True, False),
        (EVENTS, b'data: {"type": "response.output_text.delta"}\n\n', False, True),
        (EVENTS, b'data: {"content": "a", "stop": false}\n\n', False, True),
        (EVENTS, b'data: {"content": "", "stop": true}\n\n', True, False),
        (EVENTS, b'data: {"error": {"message": "no"}}\n\n', True, False),
        (EVENTS, b'data: {"progress": 3}\n\n', False, False),
        (EVENTS, PART + b": still here\n\n", False, True),
        (EVENTS, b"", False, False),
        (b"application/json", b'{"a": {"b": 1}}\n', True, False),
        (b"application/json; charset=utf-8", b'{"a": {"b": 1}', False, False),
        (b"audio/wav", b"RIFF", False, False),
        # Of an event that began before what is kept nothing is known.
        (EVENTS, b'data: {"choices": [{"text": "' + b"x" * TAIL_BYTES + b'"}]}\n\n', False, False),
        (EVENTS, PART * 2000 + DONE, True, False),
    ],
)
def test_a_body_says_whether_it_is_whole(kind: bytes, body: bytes, whole: bool, cut: bool) -> None:
    for seen in (tail(kind, body), tail(kind, *(body[i : i + 700] for i in range(0, len(body), 700)))):
        assert (seen.whole(), seen.cut()) == (whole, cut)


class Ended(Scripted):
    """A scripted engine whose process the loop watches."""

    exited: anyio.Event

    async def stream(self, *pieces: bytes, kind: bytes = EVENTS, dies: bool = False) -> None:
        """Answer one request in HTTP/1.0, close the connection as the system does, and then be found dead or not."""
        exchange = await self.next()
        await exchange.write(HEAD % kind + b"".join(pieces))
        exchange.writer.close()
        if dies:
            await asyncio.sleep(0)
            self.exited.set()


@asynccontextmanager
async def asked(path: str = CHAT) -> AsyncIterator[tuple[Ended, "asyncio.Task[tuple[int, bytes, bool]]"]]:
    """Ask a scripted engine for a stream; the task returns status, body, and whether that had a clean end."""
    engine = Ended()
    engine.exited = anyio.Event()
    async with rig() as r:
        server = await asyncio.start_server(engine._serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        r.book.open(Endpoint("chat", f"http://127.0.0.1:{port}", exited=engine.exited), 0.0)

        async def ask() -> tuple[int, bytes, bool]:
            body = b'{"model": "chat", "messages": [], "stream": true}'
            head = b"POST %b HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n" % path.encode()
            head += b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
            got = await r.exchange(head + body)
            return int(got[9:12]), got, got.endswith(b"0\r\n\r\n")

        async with server:
            yield engine, asyncio.create_task(ask())


@pytest.mark.parametrize(
    ("pieces", "dies", "fails"),
    [
        ((PART, DONE), False, False),
        # The death of the process counts more than that nothing is missing as far as it says.
        ((PART, FINISH), True, True),
        ((PART, FINISH), False, False),
        ((PART,), True, True),
        ((PART,), False, True),
    ],
)
async def test_a_stream_cut_off_by_the_engines_death_never_ends_like_a_good_one(
    pieces: tuple[bytes, ...], dies: bool, fails: bool
) -> None:
    async with asked() as (engine, answer):
        await engine.stream(*pieces, dies=dies)
        status, got, clean = await answer
        assert status == 200
        assert PART in got
        assert (b'data: {"error"' in got) is fails
        assert clean is not fails


@pytest.mark.parametrize("dies", [True, False])
async def test_a_body_of_any_kind_is_not_whole_if_the_process_died_of_it(dies: bool) -> None:
    async with asked("/upstream/chat/speak") as (engine, answer):
        await engine.stream(b"RIFF....", kind=b"audio/wav", dies=dies)
        _, got, clean = await answer
        assert b"RIFF" in got
        assert clean is not dies


async def test_an_answer_that_proves_itself_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_module, "DEATH_SECONDS", 600)
    async with asked() as (engine, answer):
        await engine.stream(b'{"choices": []}', kind=b"application/json")
        with anyio.fail_after(10):
            assert (await answer)[0] == 200
