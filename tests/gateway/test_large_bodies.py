"""Bodies of tens of megabytes through the whole gateway: whole at the engine, and no memory left behind."""

import hashlib
from collections.abc import AsyncIterator

import anyio
import psutil
import pytest

from gateway_rig import CHAT, Rig, rig
from reconciler.core.types import ModelSpec
from support import get_json, wait_for_async

pytestmark = pytest.mark.anyio

MIB = 1 << 20
PIECE = b"QUJD" * (64 * 1024 // 4)


def head(model: str) -> bytes:
    """Return how a request with a large image begins."""
    return b'{"model":"%b","messages":[{"role":"user","content":"' % model.encode()


TAIL = b'"}]}'


class Most:
    """The most memory this process had while it was looked at, above what it had at first, in bytes."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._first = self._process.memory_info().rss
        self.most = 0

    @property
    def now(self) -> int:
        """What it has now."""
        return self._process.memory_info().rss - self._first

    def look(self) -> None:
        """Look."""
        self.most = max(self.most, self.now)

    async def watch(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            self.look()
            await anyio.sleep(0.002)


async def post(r: Rig, pieces: int, most: Most, *, chunked: bool = False) -> str:
    """Post a large body piece by piece; return its digest."""
    digest = hashlib.sha256()

    async def parts() -> AsyncIterator[bytes]:
        for part in (head("chat"), *[PIECE] * pieces, TAIL):
            digest.update(part)
            yield part

    size = len(head("chat")) + pieces * len(PIECE) + len(TAIL)
    headers = {} if chunked else {"content-length": str(size)}
    async with anyio.create_task_group() as group:
        group.start_soon(most.watch)
        answer = await r.client.post(CHAT, content=parts(), headers=headers)
        group.cancel_scope.cancel()
    assert answer.status_code == 200, answer.text
    return digest.hexdigest()


@pytest.mark.parametrize("chunked", [False, True])
async def test_48_mb_arrive_whole_and_take_their_size_once(chunked: bool) -> None:
    async with rig() as r:
        port = r.engine()
        r.open(port)
        await post(r, 4, Most(), chunked=chunked)
        most = Most()
        digest = await post(r, 48 * MIB // len(PIECE), most, chunked=chunked)
        seen = (await anyio.to_thread.run_sync(get_json, f"http://127.0.0.1:{port}/stats"))["last_bodies"][-1]
        assert seen["sha256"] == digest
        assert list(seen["headers"]) == ["content-length"]
        assert 40 * MIB < most.most < 2 * 48 * MIB
        await wait_for_async(lambda: most.now < 8 * MIB, 2, "the memory to be back")
        await r.idle()


async def test_a_renamed_model_in_48_mb_takes_two_copies_and_leaves_none() -> None:
    async with rig(ModelSpec("chat", "d")) as r:
        port = r.engine()
        r.open(port, upstream_model="weights.gguf")
        most = Most()
        await post(r, 48 * MIB // len(PIECE), most)
        seen = (await anyio.to_thread.run_sync(get_json, f"http://127.0.0.1:{port}/stats"))["last_bodies"][-1]
        whole = head("weights.gguf") + PIECE * (48 * MIB // len(PIECE)) + TAIL
        assert seen["sha256"] == hashlib.sha256(whole).hexdigest()
        assert 48 * MIB < most.most < 3 * 48 * MIB
        del whole
        await wait_for_async(lambda: most.now < 8 * MIB, 2, "the memory to be back")


def waiting(r: Rig) -> int:
    return sum(demand.waiting for demand in r.book.demands())


async def test_large_bodies_of_requests_that_wait_are_bounded_together() -> None:
    async with rig(max_body=2 * MIB) as r:
        most = Most()
        asked: list[str] = []

        async def one() -> None:
            asked.append(await post(r, 2 * MIB // len(PIECE) - 1, most))

        async with anyio.create_task_group() as group:
            for _ in range(7):
                group.start_soon(one)
            # Four times what one may have: the others are not read to their end, so nothing is wanted for them yet.
            await wait_for_async(lambda: waiting(r) >= 2, 5, "some in the queue")
            small = await r.client.post(CHAT, content=b'{"model":"nobody"}')
            assert small.json()["error"]["code"] == "model_not_found"
            assert waiting(r) <= 4
            r.open(r.engine())
        assert len(asked) == 7
        await r.idle()
