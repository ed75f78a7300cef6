"""What a server may answer when it is asked to sleep, to wake or to count: none of it is more than an EngineError."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio.to_thread
import httpx
import pytest

from reconciler.core.launch import LaunchSpec
from reconciler.engines import requests
from reconciler.engines.base import EngineError, Server
from scripted_server import CUT, Answer, Scripted, scripted

pytestmark = pytest.mark.anyio

DEEP = b"[" * 300_000


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[tuple[Scripted, Server]]:
    async with httpx.AsyncClient(trust_env=False, verify=False) as client:
        with scripted({"GET /it": [answer], "POST /it": [answer]}) as script:
            yield script, Server(LaunchSpec("m", "command"), script.url, client)


@pytest.mark.parametrize("body", [DEEP, b'{"a":' * 200_000, b"\xff\xfe<html>", b"", b"[1,"])
async def test_an_answer_that_is_no_document_is_none(body: bytes) -> None:
    async with serving((200, body)) as (_, server):
        assert await requests.get(server, "/it") is None
        assert await requests.post(server, "/it") is None


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ((500, DEEP), r"/it answers 500: \[\[\["),
        ((503, b"\xff" * 100_000), "/it answers 503: "),
        ((500, {"error": {"message": "no"}}), "/it answers 500: no$"),
        (CUT, "/it got no answer: "),
        ((200, b" " * (requests.MOST + 1)), "/it answers with more than 1 MiB"),
    ],
)
async def test_a_refusal_and_an_endless_answer_are_errors(answer: Answer, says: str) -> None:
    async with serving(answer) as (_, server):
        with pytest.raises(EngineError, match=says) as caught:
            await requests.get(server, "/it")
        assert len(str(caught.value)) < 300


async def test_a_large_answer_is_read_in_a_worker_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[Callable[..., Any]] = []
    run = anyio.to_thread.run_sync

    async def noted(call: Callable[..., Any], *args: object) -> Any:
        threads.append(call)
        return await run(call, *args)

    monkeypatch.setattr(anyio.to_thread, "run_sync", noted)
    async with serving((200, [0] * 50_000)) as (_, server):
        assert await requests.get(server, "/it") == [0] * 50_000
        assert threads == [requests._json]
    async with serving((200, [0])) as (_, server):
        assert await requests.get(server, "/it") == [0]
        assert len(threads) == 1
