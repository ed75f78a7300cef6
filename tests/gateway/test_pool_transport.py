"""Questions of our own to an engine go over the connections that carry its requests."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx
import pytest

from gateway_rig import scripted
from reconciler.gateway.upstream.pool import UpstreamPool
from reconciler.gateway.upstream.transport import PoolTransport
from reconciler.leases import Endpoint
from support import free_port

pytestmark = pytest.mark.anyio
ANSWER = b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


@asynccontextmanager
async def asking(
    pool: UpstreamPool, port: int, abort: Callable[[], None] = lambda: None
) -> AsyncIterator[httpx.AsyncClient]:
    endpoint = Endpoint("chat", f"http://127.0.0.1:{port}")
    transport = PoolTransport(pool, endpoint, abort)
    async with httpx.AsyncClient(transport=transport, base_url=endpoint.base_url, trust_env=False) as client:
        yield client
    await pool.aclose()


async def test_questions_share_one_connection() -> None:
    pool = UpstreamPool()
    async with scripted() as engine, asking(pool, engine.port) as client:
        writers = []
        for status in (200, 503):
            asked = asyncio.create_task(client.post("/tokenize?a=b", json={"content": "hi"}))
            seen = await engine.next()
            writers.append(seen.writer)
            assert seen.head.startswith(b"POST /tokenize?a=b HTTP/1.1\r\n")
            assert (seen.body, seen.header("content-type")) == (b'{"content":"hi"}', ["application/json"])
            await seen.write(ANSWER % status)
            answer = await asked
            assert (answer.status_code, answer.json()) == (status, {})
        assert writers[0] is writers[1]
        assert pool.idle("chat") == 1


@pytest.mark.parametrize("begun", [False, True])
async def test_an_engine_that_takes_too_long_is_a_timeout(begun: bool) -> None:
    async with scripted() as engine, asking(UpstreamPool(), engine.port) as client:
        asked = asyncio.create_task(client.post("/tokenize", json={}, timeout=0.1))
        seen = await engine.next()
        if begun:
            await seen.write((ANSWER % 200)[:-1])
        with pytest.raises(httpx.ReadTimeout):
            await asked
        await seen.left()


async def test_nobody_there_is_a_broken_network() -> None:
    async with asking(UpstreamPool(), free_port()) as client:
        with pytest.raises(httpx.NetworkError):
            await client.post("/tokenize", json={})


async def test_a_model_that_goes_ends_the_question() -> None:
    pool, asked = UpstreamPool(), list[asyncio.Task[httpx.Response]]()

    def end() -> None:
        asked[0].cancel()

    async with scripted() as engine, asking(pool, engine.port, end) as client:
        asked.append(asyncio.create_task(client.post("/tokenize", json={})))
        seen = await engine.next()
        await pool.close("chat")
        with pytest.raises(asyncio.CancelledError):
            await asked[0]
        await seen.left()
