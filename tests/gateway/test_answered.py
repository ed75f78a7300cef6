"""Which requests count as answered: by these a model proves that it is well."""

import anyio
import pytest

from gateway_rig import Scripted, rig, scripted

pytestmark = pytest.mark.anyio
ASK = {"model": "chat", "messages": []}


async def say(engine: Scripted, answer: bytes, *, close: bool = False) -> None:
    """Answer the next request."""
    exchange = await engine.next()
    await exchange.write(answer)
    if close:
        exchange.writer.close()


@pytest.mark.parametrize(
    ("answer", "close", "status", "counts"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", False, 200, 1),
        (b"HTTP/1.1 400 Bad\r\ncontent-length: 2\r\n\r\n{}", False, 400, 1),
        (b"HTTP/1.1 500 Oh\r\ncontent-length: 2\r\n\r\n{}", False, 500, 0),
        (b"", True, 502, 0),
    ],
)
async def test_only_what_the_server_answered_itself_and_without_fault_counts(
    answer: bytes, close: bool, status: int, counts: int
) -> None:
    async with scripted() as engine, rig() as r:
        r.open(engine.port)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: say(engine, answer, close=close))
            assert (await r.post(ASK)).status_code == status
        await r.idle()
        assert (r.book.answered("chat"), r.book.served("chat")) == (counts, 1)
