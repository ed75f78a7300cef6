"""The request that a summary takes: how urgent it is, how long it may last, and what its client is told of it."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from gateway_rig import CHAT, Exchange, Rig, Scripted, receive_until, request, rig, scripted, snapshot
from reconciler.core.types import ModelSpec
from reconciler.manifest.applied import ApiKey, ContextLimits, GatewaySettings, Overflow, RequestLimits
from support import wait_for_async

pytestmark = pytest.mark.anyio

TURNS = [{"role": role, "content": "word " * 120} for role in ("user", "assistant") * 4]
LONG = [{"role": "system", "content": "be kind"}, *TURNS, {"role": "user", "content": "and now?"}]
BODY = json.dumps({"model": "chat", "messages": LONG}).encode()
KEYS = GatewaySettings(api_keys=(ApiKey("batch-key", "batch", priority=100), ApiKey("desk-key", "desk")))
DESK = "X-Api-Key: desk-key"
SUMMARIZES = RequestLimits(context=ContextLimits(500, Overflow.SUMMARIZE, "other"), priority=700)


@asynccontextmanager
async def summarizing(
    chat: RequestLimits = SUMMARIZES, **other: Any
) -> AsyncIterator[tuple[Rig, Scripted, Scripted]]:
    """Serve chat, loaded, whose long conversations are summarised by other, which is not; and their engines."""
    async with rig() as r, scripted() as engine, scripted() as summarizer:
        made = snapshot(ModelSpec("chat", "d"), ModelSpec("other", "d"), settings=KEYS)
        limits = {"chat": chat, "other": RequestLimits(**other)}
        r.publish(replace(made, applied=replace(made.applied, limits=limits)))
        r.open(engine.port)
        yield r, engine, summarizer


async def waits(r: Rig, model: str) -> None:
    """Return when a request waits for the model to be loaded."""
    await wait_for_async(lambda: any(d.model == model and d.waiting for d in r.book.demands()), 2, model)


async def answer(exchange: Exchange, value: object) -> None:
    said = json.dumps(value).encode()
    await exchange.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(said), said))


@pytest.mark.parametrize(
    ("headers", "priority"),
    [
        ([DESK], 700),
        (["X-Api-Key: batch-key"], 100),
        ([DESK, "X-Reconciler-Priority: 50"], 50),
    ],
)
async def test_a_summary_is_as_urgent_as_the_request_that_needs_it(headers: list[str], priority: int) -> None:
    async with summarizing(priority=900) as (r, _, _):
        async with await r.raw(request(BODY, *headers, path=CHAT)):
            await waits(r, "other")
            [head] = [queue.head for queue in r.book.traffic().queues if queue.model == "other"]
            assert head is not None
            assert head.priority == priority
        await r.idle()


async def test_a_summary_takes_no_longer_than_its_model_may_and_then_the_chat_is_trimmed() -> None:
    async with summarizing(request=0.1) as (r, engine, summarizer):
        r.open(summarizer.port, "other")
        async with await r.raw(request(BODY, DESK, path=CHAT)) as stream:
            asked = await summarizer.next()
            await asked.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{")
            await asked.left()
            await answer(await engine.next(), {})
            head = await receive_until(stream, b"{}")
        assert b"x-reconciler-context: trimmed " in head
        assert b", no summary: other failed (it did not finish within 0.1 s)\r\n" in head
        await r.idle()


async def test_a_chat_that_waits_again_after_its_summary_tells_what_for_once() -> None:
    """The summarizer was loaded in its place."""
    async with summarizing() as (r, engine, summarizer):
        r.book.close("chat")
        async with await r.raw(request(BODY, DESK, path=CHAT)) as stream:
            await waits(r, "chat")
            r.open(engine.port)
            await waits(r, "other")
            r.book.close("chat")
            r.open(summarizer.port, "other")
            await answer(await summarizer.next(), {"choices": [{"message": {"content": "They said word."}}]})
            await waits(r, "chat")
            r.open(engine.port)
            await answer(await engine.next(), {})
            head = await receive_until(stream, b"{}")
        assert b"x-reconciler-context: summarized " in head
        assert head.count(b"x-reconciler-waited-for: load, place 1\r\n") == 1
        assert head.count(b"x-reconciler-waited") == 2
        await r.idle()


async def test_what_an_engine_says_of_a_summary_is_told_without_its_secrets() -> None:
    async with summarizing() as (r, engine, summarizer):
        r.open(summarizer.port, "other")
        async with await r.raw(request(BODY, DESK, path=CHAT)) as stream:
            said = b'{"error": "bad api_key: CANARY"}'
            refusal = await summarizer.next()
            await refusal.write(b"HTTP/1.1 500 No\r\nContent-Length: %d\r\n\r\n%b" % (len(said), said))
            await answer(await engine.next(), {})
            head = await receive_until(stream, b"\r\n\r\n")
        assert b"api_key: ***" in head
        assert b"CANARY" not in head
        await r.idle()
