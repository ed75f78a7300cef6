"""Two thousand clients at once: each gets the right answer, and nothing of them is left behind."""

import asyncio
import collections
import gc
import sys

import anyio
import psutil
import pytest

from crowd import Caller, SwiftEngine, call, chat, need_descriptors
from gateway_rig import Rig, rig, snapshot
from reconciler.core.types import ModelSpec
from reconciler.leases import Admission, QueueLimits
from reconciler.manifest.applied import RequestLimits
from support import wait_for_async

pytestmark = pytest.mark.anyio

CLIENTS = 2_000
QUEUE = 1_500
LEAVERS = 200
#: Objects that one round may leave alive: caches, counters. A single client has hundreds.
TOLERATED_BLOCKS = 3_000
#: Bytes that may stay with the allocator, which gives back whole arenas only.
TOLERATED_BYTES = 64 << 20


class Engine(SwiftEngine):
    """The engine of this test."""

    served = 0


async def crowd(port: int, count: int) -> list[Caller]:
    """Connect so many clients; not all in one step, as they do not come in one step either."""
    callers: list[Caller] = []
    while len(callers) < count:
        step = min(250, count - len(callers))
        callers += await asyncio.gather(*(call(port, chat("chat")) for _ in range(step)))
    return callers


def waiting(r: Rig) -> int:
    return sum(demand.waiting for demand in r.book.demands())


async def round_of(r: Rig, engine_port: int, clients: int, queue: int, leavers: int) -> None:
    """Let clients queue for a model that is not loaded, some of them leave, and then load it."""
    r.publish(
        snapshot(ModelSpec("chat", "d"), limits=RequestLimits(queue=QueueLimits(max=queue, timeout=60)))
    )
    r.book.assign({"chat": Admission(concurrency=16)})
    served = Engine.served
    callers = await crowd(r.port, clients)

    def settled() -> bool:
        return waiting(r) == queue and sum(c.status.done() for c in callers) == clients - queue

    await wait_for_async(settled, 20, "all to wait or to be turned away")
    for caller in [c for c in callers if not c.status.done()][:leavers]:
        caller.leave()
    await wait_for_async(lambda: waiting(r) == queue - leavers, 10, "those who left to be out of the queue")
    r.open(engine_port)
    with anyio.fail_after(20):
        await asyncio.gather(*(c.ended for c in callers))
    codes = collections.Counter(c.status.result() for c in callers)
    assert codes == {200: queue - leavers, 429: clients - queue, 0: leavers}
    assert all(c.clean for c in callers if c.status.result())
    assert all(b'"queue_full"' in c.body for c in callers if c.status.result() == 429)
    assert Engine.served - served == queue - leavers
    for caller in callers:
        caller.leave()
    await r.idle()
    traffic = r.book.traffic()
    assert traffic.granted == traffic.ended
    assert traffic.queues == ()
    arrivals, ended = r.book.taken()  # as the loop does: what is not taken is kept
    assert (len(arrivals), len(ended)) == (clients, clients)
    r.book.close("chat")
    await r.pool.close("chat")
    await wait_for_async(lambda: not r.server.server_state.connections, 10, "no connection to be left")


async def test_two_thousand_clients_get_the_right_answers_and_leave_nothing_behind() -> None:
    need_descriptors(3 * CLIENTS)
    me = psutil.Process()
    async with rig() as r:
        server = await asyncio.get_running_loop().create_server(Engine, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            await round_of(r, port, 200, 150, 20)  # what is made once is there now
            gc.collect()
            files, memory, tasks = me.num_fds(), me.memory_info().rss, len(asyncio.all_tasks())
            blocks = sys.getallocatedblocks()
            await round_of(r, port, CLIENTS, QUEUE, LEAVERS)
            gc.collect()
            assert sys.getallocatedblocks() - blocks < TOLERATED_BLOCKS
            assert me.memory_info().rss - memory < TOLERATED_BYTES
            await wait_for_async(lambda: me.num_fds() <= files, 5, "every descriptor to be closed")
            assert len(asyncio.all_tasks()) <= tasks
        finally:
            server.close()
            await server.wait_closed()
