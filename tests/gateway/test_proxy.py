"""What an engine gets of a request, and what the client gets of the answer."""

import gzip
import json
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import httpx
import pytest

from gateway_rig import CHAT, receive_until, request, rig, scripted, sha256, snapshot
from reconciler.core.types import ModelSpec
from reconciler.leases import QueueLimits
from reconciler.manifest.applied import RequestLimits
from support import get_json

pytestmark = pytest.mark.anyio

ASK = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/embeddings"])
async def test_a_request_is_answered_by_the_engine_of_its_model(path: str) -> None:
    async with rig() as r:
        port = r.engine()
        r.open(port)
        answer = await r.post({**ASK, "input": "x"}, path)
        assert answer.status_code == 200
        assert answer.json()["model"] == "chat"
        assert answer.headers["x-reconciler-model"] == "chat"
        assert "x-reconciler-waited" not in answer.headers
        await r.idle()


async def test_an_alias_is_answered_and_leaves_the_body_untouched() -> None:
    async with rig() as r, scripted() as engine:
        r.publish(snapshot(ModelSpec("chat", "d"), aliases={"gpt-4o": "chat"}))
        r.open(engine.port)
        body = b'{ "model" : "gpt-4o",\n "x": 1.50 }'
        async with await r.raw(request(body, path=CHAT + "?a=%2F&b=1+2")) as stream:
            got = await engine.next()
            await got.write(OK)
            head = await receive_until(stream, b"{}")
        assert got.body == body
        assert got.head.startswith(b"POST /v1/chat/completions?a=%2F&b=1+2 HTTP/1.1\r\n")
        assert b"x-reconciler-model: chat\r\n" in head


async def test_the_model_is_renamed_only_for_engines_that_want_it() -> None:
    async with rig() as r, scripted() as engine:
        r.open(engine.port, upstream_model="weights.gguf")
        async with await r.raw(request(b'{"model":"chat","n":[1,2]}')):
            got = await engine.next()
        assert json.loads(got.body) == {"model": "weights.gguf", "n": [1, 2]}
        assert got.header("content-length") == [str(len(got.body))]


async def test_no_key_no_cookie_and_no_connection_header_reaches_the_engine() -> None:
    sent = (
        "Authorization: Bearer CANARY",
        "X-Api-Key: CANARY",
        "Cookie: CANARY",
        "Origin: http://127.0.0.1",
        "Connection: keep-alive, X-Private",
        "X-Private: CANARY",
        "Expect: 100-continue",
        "X-Stainless-Os: Linux",
        "Accept-Encoding: br",
    )
    async with rig() as r, scripted() as engine:
        r.open(engine.port)
        async with await r.raw(request(b'{"model":"chat"}', *sent)):
            got = await engine.next()
        assert b"CANARY" not in got.head
        assert got.header("x-stainless-os") == ["Linux"]
        assert got.header("accept-encoding") == ["br"]
        assert got.header("origin") == got.header("expect") == got.header("transfer-encoding") == []
        assert got.header("connection") == []
        assert got.header("host") == [f"127.0.0.1:{engine.port}"]


async def test_a_client_without_accept_encoding_asks_for_none() -> None:
    async with rig() as r, scripted() as engine:
        r.open(engine.port)
        async with await r.raw(request(b'{"model":"chat"}')):
            got = await engine.next()
        assert got.header("accept-encoding") == []


async def test_a_chunked_body_of_4_mb_arrives_whole_and_framed_once() -> None:
    body = b'{"model":"chat","image":"' + os.urandom(2 << 20).hex().encode() + b'"}'

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 100_000):
            yield body[start : start + 100_000]

    async with rig() as r:
        port = r.engine()
        r.open(port)
        answer = await r.client.post(CHAT, content=pieces())
        assert answer.status_code == 200
        seen = (await anyio.to_thread.run_sync(get_json, f"http://127.0.0.1:{port}/stats"))["last_bodies"][0]
        assert (seen["sha256"], seen["length"]) == (sha256(body), len(body))
        assert seen["headers"] == {"content-length": str(len(body))}
        await r.idle()


async def test_each_event_reaches_the_client_before_the_next_is_sent() -> None:
    async with rig() as r, scripted() as engine:
        r.open(engine.port)
        async with await r.raw(request(b'{"model":"chat","stream":true}')) as stream:
            got = await engine.next()
            start = (
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
            )
            await got.write(start)
            head = await receive_until(stream, b"\r\n\r\n")
            assert b"content-type: text/event-stream\r\n" in head
            assert b"x-accel-buffering: no\r\n" in head
            assert head.count(b"transfer-encoding: chunked") == 1
            assert b"content-length" not in head
            for number in range(5):
                event = b"data: %d\n\n" % number
                await got.write(b"%x\r\n%s\r\n" % (len(event), event))
                assert await receive_until(stream, event)
                assert r.book.demands()[0].active == 1
            await got.write(b"0\r\n\r\n")
            assert (await receive_until(stream, b"0\r\n\r\n")).endswith(b"0\r\n\r\n")
        await r.idle()


async def test_odd_streams_pass_byte_for_byte() -> None:
    async with rig() as r:
        port = r.engine("--stream", "4", "--odd-stream")
        r.open(port)
        async with r.client.stream("POST", CHAT, json={**ASK, "stream": True}) as answer:
            assert answer.headers["content-type"] == "text/event-stream"
            assert answer.headers.get_list("x-accel-buffering") == ["no"]
            text = b"".join([piece async for piece in answer.aiter_raw()]).decode()
        events = text.split("\n\n")
        assert events[0] == ": a comment"
        tokens = [json.loads(e[6:])["choices"][0]["delta"].get("content") for e in events[1:-2]]
        assert tokens == ["token0 ", "x" * 700_000, "\U0001f600", "token3 ", None]
        assert events[-2:] == ["data: [DONE]", ""]


@pytest.mark.parametrize(("stream", "status"), [(False, "200"), (True, "200"), (False, "400")])
async def test_compressed_answers_pass_as_they_are(stream: bool, status: str) -> None:
    async with rig() as r:
        port = r.engine("--gzip", "--status", status)
        r.open(port)
        ask = {**ASK, "stream": stream}
        headers = {"accept-encoding": "gzip"}
        async with r.client.stream("POST", CHAT, json=ask, headers=headers) as answer:
            packed = b"".join([piece async for piece in answer.aiter_raw()])
        assert answer.status_code == int(status)
        assert answer.headers["content-encoding"] == "gzip"
        assert gzip.decompress(packed).startswith(b"data:" if stream else b"{")
        if not stream:
            assert answer.headers["content-length"] == str(len(packed))
        plain = await r.exchange(request(json.dumps(ask).encode(), "Connection: close"))
        head, _, body = plain.partition(b"\r\n\r\n")
        assert b"content-encoding" not in head
        assert b"data: [DONE]" in body if stream else json.loads(body)


async def test_an_answer_that_ends_with_its_connection_gets_a_framing() -> None:
    async with rig() as r, scripted() as engine:
        r.open(engine.port)
        async with await r.raw(request(b'{"model":"chat"}')) as stream:
            got = await engine.next()
            await got.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: X-Odd\r\nX-Odd: 1\r\n\r\nhello"
            )
            got.writer.close()
            data = await receive_until(stream, b"0\r\n\r\n")
        assert b"transfer-encoding: chunked" in data
        assert b"hello" in data
        assert b"x-odd" not in data


async def test_the_engines_cors_headers_and_date_are_not_passed_on() -> None:
    async with rig() as r, scripted() as engine:
        r.open(engine.port)
        async with await r.raw(request(b'{"model":"chat"}')) as stream:
            got = await engine.next()
            extra = b"\r\nAccess-Control-Allow-Origin: *\r\nDate: then\r\nServer: engine\r\n\r\n"
            await got.write(OK.replace(b"\r\n\r\n", extra))
            data = (await receive_until(stream, b"{}")).lower()
        assert b"access-control" not in data
        assert data.count(b"\r\ndate:") == 1
        assert b"date: then" not in data
        assert b"server: engine" in data
        assert b" gmt\r\n" in data


@pytest.mark.parametrize(
    ("status", "retry_after"), [("400", None), ("429", "7"), ("503", "3"), ("500", None)]
)
async def test_errors_of_the_engine_pass_verbatim(status: str, retry_after: str | None) -> None:
    async with rig() as r:
        port = r.engine("--status", status, *(("--retry-after", retry_after) if retry_after else ()))
        r.open(port)
        answer = await r.post({**ASK, "stream": True})
        assert answer.status_code == int(status)
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers.get("retry-after") == retry_after
        assert answer.json() == {
            "error": {"message": f"scripted {status}", "type": "fake_error", "code": int(status)}
        }
        await r.idle()


async def test_a_stream_that_the_engine_breaks_ends_with_an_error_event_and_no_clean_end() -> None:
    async with rig() as r:
        port = r.engine("--stream", "5", "--cut-after", "2")
        r.open(port)
        before = len(r.wakes)
        pieces: list[bytes] = []

        async def read() -> None:
            async with r.client.stream("POST", CHAT, json={**ASK, "stream": True}) as answer:
                async for piece in answer.aiter_raw():
                    pieces.append(piece)  # noqa: PERF401  what came before the break counts

        with pytest.raises(httpx.RemoteProtocolError):
            await read()
        events = b"".join(pieces).decode().strip().split("\n\n")
        assert len(events) == 3
        assert json.loads(events[-1].removeprefix("data: "))["error"]["code"] == "upstream_error"
        assert len(r.wakes) > before, "the loop is asked to look"
        await r.idle()


async def test_a_broken_answer_with_a_length_is_cut_short() -> None:
    async with rig() as r, scripted() as engine:
        r.open(engine.port)
        async with await r.raw(request(b'{"model":"chat"}')) as stream:
            got = await engine.next()
            await got.write(OK.replace(b"Length: 2", b"Length: 50"))
            got.writer.close()
            data = await receive_until(stream, b"{}")
            with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)), anyio.fail_after(5):
                data += await stream.receive()
        assert data.endswith(b"\r\n\r\n{}")


async def test_an_engine_that_is_not_there_is_a_502_with_its_last_words(tmp_path: Path) -> None:
    log = tmp_path / "chat.log"
    log.write_text("ready\nfatal: out of memory, started with --api-key CANARY\x1b[0m\n--- ended\n\n")
    with socket.socket() as nobody:  # bound, so that nobody else takes the port, but not listening
        nobody.bind(("127.0.0.1", 0))
        await ask_nobody(nobody.getsockname()[1], log)


async def ask_nobody(port: int, log: Path) -> None:
    async with rig() as r:
        limits = RequestLimits(queue=QueueLimits(timeout=0.1))
        r.publish(snapshot(ModelSpec("chat", "d"), log_paths={"chat": str(log)}, limits=limits))
        r.open(port)
        answer = await r.post(ASK)
        assert answer.status_code == 502
        error = answer.json()["error"]
        assert (error["type"], error["code"]) == ("server_error", "upstream_error")
        assert "fatal: out of memory, started with --api-key ***" in error["message"]
        assert "CANARY" not in answer.text
        assert r.wakes, "the loop is asked to look"
        await r.idle()


async def test_a_reset_before_the_first_byte_is_a_502() -> None:
    async with rig() as r, scripted() as engine, anyio.create_task_group() as group:
        r.open(engine.port)

        async def ask() -> None:
            answer = await r.post(ASK)
            assert answer.status_code == 502
            assert answer.json()["error"]["code"] == "upstream_error"

        group.start_soon(ask)
        (await engine.next()).writer.transport.abort()


async def test_an_engine_that_says_nothing_is_a_504() -> None:
    async with rig() as r, scripted() as engine:
        r.publish(snapshot(ModelSpec("chat", "d"), limits=RequestLimits(first_byte=0.05)))
        r.open(engine.port)
        answer = await r.post(ASK)
        assert (answer.status_code, answer.json()["error"]["code"]) == (504, "upstream_timeout")
        await (await engine.next()).left()
        await r.idle()


async def test_a_request_that_takes_too_long_is_ended_where_it_is() -> None:
    async with rig() as r, scripted() as engine:
        r.publish(snapshot(ModelSpec("chat", "d"), limits=RequestLimits(request=0.3)))
        r.open(engine.port)
        async with await r.raw(request(b'{"model":"chat"}')) as stream:
            got = await engine.next()
            await got.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
            data = await receive_until(stream, b"upstream_timeout")
            await got.left()
        assert b"data: 1\n\n" in data
        await r.idle()
