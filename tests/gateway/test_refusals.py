"""Requests that are not served: every error has the OpenAI shape, the right status, and loads nothing."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway_rig import CHAT, receive_until, request, rig, scripted, snapshot
from reconciler.core.types import Account, ModelSpec, Outcome, Plan, Reason, Verdict
from reconciler.leases import QueueLimits, Refusal
from reconciler.manifest.applied import RequestLimits
from support import wait_for_async

pytestmark = pytest.mark.anyio

ASK = {"model": "chat"}


def error_of(answer: Any) -> dict[str, str]:
    """Return the error after checking its shape."""
    body = answer.json()
    assert list(body) == ["error"]
    assert sorted(body["error"]) == ["code", "message", "type"]
    assert answer.headers["content-type"] == "application/json"
    error: dict[str, str] = body["error"]
    return error


BAD: list[tuple[bytes, int, str, str]] = [
    (b"", 400, "invalid_json", "not JSON"),
    (b"{", 400, "invalid_json", "not JSON"),
    (b"[1]", 400, "invalid_json", "not an object"),
    (b'{"model":"chat"} x', 400, "invalid_json", "not JSON"),
    (b'{"model":"ch\xff"}', 400, "invalid_json", "not JSON"),
    (b'{"x":' + b"[" * 100_000, 400, "invalid_json", "nested"),
    (b'{"x":NaN}', 400, "invalid_json", "not JSON"),
    (b'{"model":"chat","x":"\xff"}', 400, "invalid_json", "not JSON"),
    (b'{"x":' + b"9" * 5000 + b"}", 400, "invalid_model", "is missing"),
    (b"{}", 400, "invalid_model", "is missing"),
    (b'{"model":null}', 400, "invalid_model", "is missing"),
    (b'{"model":""}', 400, "invalid_model", "is empty"),
    (b'{"model":7}', 400, "invalid_model", "not a string"),
    (b'{"model":["chat"]}', 400, "invalid_model", "not a string"),
    (b'{"model":"Chat"}', 404, "model_not_found", "did you mean 'chat'? Known: chat, gpt-4o, other"),
    (b'{"model":"chat:latest"}', 404, "model_not_found", "did you mean 'chat'?"),
    (b'{"model":"gpt4o"}', 404, "model_not_found", "did you mean 'gpt-4o'?"),
    (b'{"model":"zzz\\ud800\\n"}', 404, "model_not_found", "Known: chat, gpt-4o, other"),
]


async def test_a_bad_request_is_refused_and_loads_nothing() -> None:
    async with rig() as r:
        r.publish(snapshot(ModelSpec("chat", "d"), ModelSpec("other", "d"), aliases={"gpt-4o": "chat"}))
        for body, status, code, words in BAD:
            answer = await r.client.post(CHAT, content=body)
            error = error_of(answer)
            assert (answer.status_code, error["code"]) == (status, code), body[:99]
            assert words in error["message"]
            assert error["type"] == "invalid_request_error"
        assert r.book.demands() == ()
        assert r.wakes == []


async def test_a_request_waits_for_the_load_and_is_told_how_long() -> None:
    async with rig() as r:
        port = r.engine()
        asked = asyncio.create_task(r.post(ASK))
        await wait_for_async(r.book.demands, 5, "the demand")
        r.open(port)
        answer = await asked
        assert answer.status_code == 200
        # Only a request that waited bears the header; here it may have been for less than a millisecond.
        assert float(answer.headers["x-reconciler-waited"]) >= 0
        assert r.wakes


async def test_one_more_than_the_queue_takes_is_refused_at_once() -> None:
    async with rig() as r:
        limits = RequestLimits(queue=QueueLimits(2, 60))
        r.publish(snapshot(ModelSpec("chat", "d"), limits=limits))
        held = [await r.raw(request(json.dumps(ASK).encode())) for _ in range(2)]
        await wait_for_async(lambda: [d.waiting for d in r.book.demands()] == [2], 5, "a full queue")
        answer = await r.post(ASK)
        error = error_of(answer)
        assert (answer.status_code, error["code"], error["type"]) == (429, "queue_full", "rate_limit_error")
        assert int(answer.headers["retry-after"]) >= 1
        assert answer.headers["x-reconciler-model"] == "chat"
        for stream in held:
            await stream.aclose()
        await r.idle()


async def test_a_wait_that_runs_out_is_a_503() -> None:
    async with rig() as r:
        verdict = Verdict("chat", Outcome.BLOCKED, Reason.VICTIMS_BUSY, detail="2.0 GiB short")
        limits = RequestLimits(queue=QueueLimits(2, 0.05))
        r.publish(snapshot(ModelSpec("chat", "d"), limits=limits, plan=Plan(0, 1, Account(), (), (verdict,))))
        answer = await r.post(ASK)
        assert (answer.status_code, error_of(answer)["code"]) == (503, "queue_timeout")
        assert error_of(answer)["message"].endswith("(chat waits for room: 2.0 GiB short)")
        assert int(answer.headers["retry-after"]) >= 1
        await r.idle()


@pytest.mark.parametrize(
    ("refusal", "retry_after"),
    [
        (Refusal(507, "never_fits", "needs 9 GiB of 8"), None),
        (Refusal(503, "insufficient_memory", "7 GiB short", 12.2), "13"),
        (Refusal(502, "load_failed", "exit 3: no such file: 'weights.gguf'"), None),
        (Refusal(503, "backing_off", "failed twice", 0.2), "1"),
        (Refusal(503, "a_code_of_the_loop", "for some reason"), None),
    ],
)
async def test_what_the_loop_refuses_is_passed_on(refusal: Refusal, retry_after: str | None) -> None:
    async with rig() as r:
        asked = asyncio.create_task(r.post(ASK))
        await wait_for_async(r.book.demands, 5, "the demand")
        r.book.refuse("chat", refusal)
        answer = await asked
        assert answer.status_code == refusal.status
        assert error_of(answer) == {"message": refusal.message, "type": "server_error", "code": refusal.code}
        assert answer.headers.get("retry-after") == retry_after
        # Clients of the OpenAI kind repeat every 5xx several times, unless they are told that it will not help.
        assert answer.headers.get("x-should-retry") == (None if retry_after else "false")
        await r.idle()


async def test_waiters_of_a_removed_model_are_told() -> None:
    async with rig() as r:
        asked = asyncio.create_task(r.post(ASK))
        await wait_for_async(r.book.demands, 5, "the demand")
        r.publish(snapshot(ModelSpec("other", "d")))
        answer = await asked
        assert (answer.status_code, error_of(answer)["code"]) == (404, "model_not_found")


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_over_the_limit_is_a_413_and_the_connection_serves_on(chunked: bool) -> None:
    async with rig(max_body=1 << 20) as r, scripted():
        body = b"x" * (5 << 20)

        async def pieces() -> AsyncIterator[bytes]:
            yield body

        answer = await r.client.post(CHAT, content=pieces() if chunked else body)
        error = error_of(answer)
        assert (answer.status_code, error["code"]) == (413, "request_too_large")
        assert "1 MiB" in error["message"]
        assert (await r.client.get("/v1/models")).status_code == 200


async def test_expect_continue_is_answered_at_once_either_way() -> None:
    async with rig(max_body=1000) as r, scripted() as engine:
        r.open(engine.port)
        head = request(b"", "Expect: 100-continue").replace(b"Length: 0", b"Length: 5000")
        async with await r.raw(head) as stream:
            refused = await receive_until(stream, b"}}")
        assert refused.startswith(b"HTTP/1.1 413 ")
        assert b"connection: close" in refused
        body = json.dumps(ASK).encode()
        head = request(body, "Expect: 100-continue").removesuffix(body)
        async with await r.raw(head) as stream:
            assert (await receive_until(stream, b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
            await stream.send(body)
            assert (await engine.next()).body == body


async def test_a_fault_of_ours_is_a_500_in_the_same_shape() -> None:
    async with rig() as r:
        r.publish(snapshot(ModelSpec("chat", "d")))
        assert r.board.snapshot is not None
        object.__setattr__(r.board.snapshot.applied, "routes", None)
        answer = await r.client.get("/v1/models")
        assert (answer.status_code, error_of(answer)["code"]) == (500, "internal_error")
