"""Anthropic's paths: passed on to engines that have them, else translated; counted without loading anything."""

import json
from dataclasses import replace
from typing import Any

import pytest

from gateway_rig import receive_all, receive_until, request, rig, scripted, snapshot
from reconciler.board import Snapshot
from reconciler.core.launch import LaunchSpec
from reconciler.core.types import ModelSpec

pytestmark = pytest.mark.anyio

ASK: dict[str, Any] = {
    "model": "chat",
    "max_tokens": 5,
    "messages": [{"role": "user", "content": "hello there"}],
}
BODY = json.dumps(ASK).encode()
PATH = "/v1/messages"
COUNT = "/v1/messages/count_tokens"


def made(engine: str) -> Snapshot:
    """Return a snapshot whose chat model is served by an engine."""
    base = snapshot(ModelSpec("chat", "d"), ready=("chat",))
    launches = {"chat": LaunchSpec("chat", engine, command=("x",))}
    return replace(base, applied=replace(base.applied, launches=launches))


def answer(value: Any) -> bytes:
    """Return a JSON answer."""
    data = json.dumps(value).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
        len(data),
        data,
    )


def events(*chunks: Any) -> bytes:
    """Return an answer that is a whole stream of events."""
    body = b"".join(b"data: %b\n\n" % json.dumps(c).encode() for c in chunks) + b"data: [DONE]\n\n"
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n"
    return head % len(body) + body


CHAT_ANSWER = answer(
    {
        "id": "x",
        "choices": [
            {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hi!"}}
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2},
    }
)
TOKEN_STREAM = events(
    {"choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}]},
    {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 4}},
)


async def test_an_engine_that_has_messages_gets_them_untouched() -> None:
    async with rig() as r, scripted() as engine:
        r.publish(made("llama.cpp"))
        r.open(engine.port)
        async with await r.raw(request(BODY, path=PATH + "?beta=true")) as stream:
            got = await engine.next()
            assert got.head.startswith(b"POST /v1/messages?beta=true HTTP/1.1\r\n")
            assert got.body == BODY
            await got.write(answer({"type": "message"}))
            assert b'{"type": "message"}' in await receive_until(stream, b"}")


async def test_any_other_engine_is_asked_for_a_chat_completion() -> None:
    async with rig() as r, scripted() as engine:
        r.publish(made("command"))
        r.open(engine.port, upstream_model="weights")
        async with await r.raw(request(BODY, "Accept-Encoding: gzip", path=PATH + "?beta=true")) as stream:
            got = await engine.next()
            assert got.head.startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")
            asked = json.loads(got.body)
            assert (asked["model"], asked["messages"]) == ("weights", ASK["messages"])
            assert got.header("accept-encoding") == ["identity"]
            await got.write(CHAT_ANSWER)
            body = (await receive_until(stream, b"}}")).partition(b"\r\n\r\n")[2]
        assert b'"type":"message"' in body
        assert b'"text":"hi!"' in body
        await r.idle()


async def test_a_translated_stream_that_breaks_ends_with_an_error_and_without_its_proper_end() -> None:
    async with rig() as r, scripted() as engine:
        r.publish(made("command"))
        r.open(engine.port)
        async with await r.raw(request(json.dumps({**ASK, "stream": True}).encode(), path=PATH)) as stream:
            got = await engine.next()
            chunk = json.dumps({"choices": [{"index": 0, "delta": {"content": "hi"}}]}).encode()
            event = b"data: %b\n\n" % chunk
            head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
            await got.write(head + b"%x\r\n%b\r\n" % (len(event), event))
            start = await receive_until(stream, b"text_delta")
            assert b"event: message_start" in start
            got.writer.close()
            rest = await receive_all(stream)
        assert b"event: error\ndata: " in rest
        assert b"upstream_error" in rest
        assert b"message_stop" not in rest
        assert not rest.endswith(b"0\r\n\r\n")
        await r.idle()


@pytest.mark.parametrize("engine", ["command", "llama.cpp"])
async def test_what_is_refused_is_said_in_the_shape_these_clients_know(engine: str) -> None:
    async with rig() as r:
        r.publish(made(engine))
        wrong = [({**ASK, "model": "chatt"}, 404, "not_found_error", "model_not_found")]
        if engine == "command":
            wrong.append(({**ASK, "messages": 7}, 400, "invalid_request_error", ""))
        for body, status, kind, code in wrong:
            got = await r.post(body, PATH)
            said = got.json()
            assert (got.status_code, said["type"], said["error"]["type"]) == (status, "error", kind)
            assert code in said["error"]["code"]
        assert r.book.demands() == ()
        got = await r.post(ASK, PATH, headers={"host": "evil.example"})
        assert (got.status_code, got.json()["type"], got.json()["error"]["type"]) == (
            403,
            "error",
            "permission_error",
        )


async def test_tokens_of_a_model_that_is_not_there_are_estimated_and_nothing_is_loaded() -> None:
    async with rig() as r:
        for engine in ("command", "llama.cpp"):
            r.publish(made(engine))
            got = await r.post(ASK, COUNT)
            assert got.status_code == 200
            assert 1 < got.json()["input_tokens"] < 100
            assert got.headers["x-reconciler-estimate"] == "estimate"
            assert (r.book.demands(), r.wakes) == ((), [])


async def test_an_engine_that_counts_is_asked() -> None:
    async with rig() as r, scripted() as engine:
        r.publish(made("llama.cpp"))
        r.open(engine.port)
        async with await r.raw(request(BODY, path=COUNT)) as stream:
            got = await engine.next()
            assert got.head.startswith(b"POST /v1/messages/count_tokens HTTP/1.1\r\n")
            assert r.book.active("chat") == 0
            await got.write(answer({"input_tokens": 42}))
            text = await receive_until(stream, b"}")
        assert b'{"input_tokens": 42}' in text
        assert b"x-reconciler-estimate" not in text


@pytest.mark.parametrize("streams", [False, True])
async def test_the_tokens_that_a_translated_answer_tells_are_on_the_record(streams: bool) -> None:
    async with rig() as r, scripted() as engine:
        r.publish(made("command"))
        r.open(engine.port)
        async with await r.raw(request(json.dumps({**ASK, "stream": streams}).encode(), path=PATH)) as stream:
            got = await engine.next()
            await got.write(TOKEN_STREAM if streams else CHAT_ANSWER)
            await receive_until(stream, b"message_stop" if streams else b"}}")
        await r.idle()
    [ended] = r.book.taken()[1]
    assert (ended.outcome, ended.tokens) == ("ok", (7, 4) if streams else (3, 2))
