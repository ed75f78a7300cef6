"""Messages through the whole gateway to an engine that only knows chat completions."""

import asyncio
import contextlib
import json
from typing import Any

import httpx
import pytest

from gateway_rig import Rig, rig, scripted, snapshot
from messages_streams import events, kinds, shown
from reconciler.core.types import ModelSpec
from reconciler.manifest.applied import ApiKey, GatewaySettings

pytestmark = pytest.mark.anyio

MESSAGES = "/v1/messages"
ASK: dict[str, Any] = {
    "model": "chat",
    "max_tokens": 9,
    "messages": [{"role": "user", "content": "hi"}],
}
TOOL = {"name": "listen", "input_schema": {"type": "object"}}


async def test_the_engine_is_asked_for_a_chat() -> None:
    async with rig() as r, scripted() as engine:
        r.publish(snapshot(ModelSpec("chat", "d"), aliases={"claude": "chat"}))
        r.open(engine.port, upstream_model="inner")
        headers = {"anthropic-version": "2023-06-01", "x-api-key": "secret", "accept-encoding": "gzip"}
        body = {**ASK, "model": "claude", "system": "Be brief."}
        asking = asyncio.create_task(r.post(body, f"{MESSAGES}?beta=true", headers=headers))
        seen = await engine.next()
        assert seen.head.startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")
        assert json.loads(seen.body) == {
            "model": "inner",
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
            "max_tokens": 9,
        }
        assert seen.header("accept-encoding") == ["identity"]
        assert not seen.header("anthropic-version") + seen.header("x-api-key")
        said = {"id": "chatcmpl-1", "choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}]}
        data = json.dumps(said).encode()
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        await seen.write(head % len(data) + data)
        answer = await asking
        assert answer.status_code == 200
        assert answer.headers["x-reconciler-model"] == "chat"
        assert (answer.json()["model"], answer.json()["content"]) == (
            "claude",
            [{"type": "text", "text": "yes"}],
        )


async def test_a_stream_with_all_that_is_odd() -> None:
    async with rig() as r:
        r.open(r.engine("--odd-stream"))
        answer = await r.post({**ASK, "stream": True}, MESSAGES)
        assert answer.headers["content-type"] == "text/event-stream"
        assert shown(answer.content) == [("text", "token0 " + "x" * 700_000 + "\U0001f600")]
        assert kinds(answer.content)[-1] == "message_stop"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_tool_is_called(stream: bool) -> None:
    async with rig() as r:
        r.open(r.engine())
        answer = await r.post({**ASK, "tools": [TOOL], "stream": stream}, MESSAGES)
        if stream:
            assert shown(answer.content) == [("tool_use", '{"role": "user", "heard": "hi"}')]
            assert events(answer.content)[-2]["delta"]["stop_reason"] == "tool_use"
        else:
            [block] = answer.json()["content"]
            assert (block["name"], block["input"]) == ("listen", {"role": "user", "heard": "hi"})


async def test_an_engine_that_breaks_off_is_an_error_and_no_clean_end() -> None:
    async with rig() as r:
        r.open(r.engine("--cut-after", "2"))
        got = b""
        async with r.client.stream("POST", MESSAGES, json={**ASK, "stream": True}) as answer:
            pieces = answer.aiter_bytes()
            with contextlib.suppress(httpx.RemoteProtocolError):
                while True:
                    got += await anext(pieces)
        assert kinds(got)[0] == "message_start"
        assert events(got)[-1]["error"]["code"] == "upstream_error"
        assert "message_stop" not in kinds(got)
        await r.idle()


@pytest.mark.parametrize("stream", [False, True])
async def test_an_error_of_the_engine_keeps_status_and_headers(stream: bool) -> None:
    async with rig() as r:
        r.open(r.engine("--status", "429", "--retry-after", "7"))
        answer = await r.post({**ASK, "stream": stream}, MESSAGES)
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")
        assert answer.json() == {
            "type": "error",
            "error": {"type": "rate_limit_error", "message": "scripted 429", "code": "fake_error"},
        }


async def refused(r: Rig, value: object, **kwargs: Any) -> tuple[int, str, str]:
    """Return status, type and code of a refusal, which must have Anthropic's shape."""
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    answer = await r.client.post(MESSAGES, content=data, **kwargs)
    assert answer.json()["type"] == "error"
    assert answer.headers["content-type"] == "application/json"
    return answer.status_code, answer.json()["error"]["type"], answer.json()["error"]["code"]


async def test_refusals_have_the_shape_of_the_api_and_load_nothing() -> None:
    async with rig() as r:
        assert await refused(r, b"{") == (400, "invalid_request_error", "invalid_json")
        assert await refused(r, {"max_tokens": 1}) == (400, "invalid_request_error", "invalid_model")
        assert await refused(r, {**ASK, "model": "nobody"}) == (404, "not_found_error", "model_not_found")
        assert await refused(r, {**ASK, "max_tokens": 0}) == (400, "invalid_request_error", "invalid_request")
        assert r.book.demands() == ()
        r.settings(GatewaySettings(api_keys=(ApiKey("right"),)))
        assert await refused(r, ASK) == (401, "authentication_error", "invalid_api_key")
        answer = await r.client.get("/v1/messages/batches", headers={"x-api-key": "right"})
        assert (answer.status_code, answer.json()["error"]["type"]) == (404, "not_found_error")
        wrong = {"x-api-key": "wrong"}
        assert await refused(r, ASK, headers=wrong) == (401, "authentication_error", "invalid_api_key")


async def test_half_a_character_is_passed_on() -> None:
    """JSON can say half of a surrogate pair; UTF-8 cannot."""
    async with rig() as r:
        r.open(r.engine())
        body = b'{"model":"chat","max_tokens":9,"messages":[{"role":"user","content":"\\ud83d"}]}'
        answer = await r.client.post(MESSAGES, content=body)
        assert answer.status_code == 200, answer.text


async def test_what_is_nested_too_deeply_is_refused() -> None:
    """There are depths that can be read but not be written again."""
    async with rig() as r:
        r.open(r.engine())
        seen = set()
        for depth in (10, *range(900, 1000, 3), 5000):
            deep = b'{"a":' * depth + b"1" + b"}" * depth
            call = b'{"type":"tool_use","id":"t","name":"n","input":%s}' % deep
            messages = b'[{"role":"assistant","content":[%s]}]' % call
            tools = b'[{"name":"n","input_schema":%s}]' % deep
            for more in (
                b'"messages":%s' % messages,
                b'"messages":[{"role":"user","content":"x"}],"tools":%s' % tools,
            ):
                answer = await r.client.post(MESSAGES, content=b'{"model":"chat","max_tokens":9,%s}' % more)
                seen.add(answer.status_code)
        assert seen == {200, 400}
