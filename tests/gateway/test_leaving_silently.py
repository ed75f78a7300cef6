"""Clients that leave are no fault: whenever they do, the log says nothing of it, and nothing is left."""

import logging
import random
import socket
import struct
from contextlib import suppress

import anyio
import anyio.lowlevel
import pytest
from structlog.testing import capture_logs

from gateway_rig import Exchange, Rig, request, rig, scripted
from support import wait_for_async

pytestmark = pytest.mark.anyio

EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
RESET = struct.pack("ii", 1, 0)
TWICE = request(b'{"model":"chat"}') * 2
REQUESTS = [
    TWICE,
    TWICE[:-60],
    request(b'{"model":"chat","pad":"%b"}' % (b"x" * 300_000)),
    request(bytes(300_000), path="/upstream/chat/x"),
    request(bytes(300_000), path="/upstream/chat/x")[:200_000],
    request(b"", path="/healthz", method="GET") * 20,
    b"nonsense\r\n\r\n",
]


@pytest.fixture(params=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    """Each loop closes connections in its own way."""
    return "asyncio", {"use_uvloop": request.param == "uvloop"}


async def test_clients_that_leave_at_any_time_are_no_fault(caplog: pytest.LogCaptureFixture) -> None:
    chance = random.Random(7)
    with capture_logs() as said, caplog.at_level(logging.WARNING):
        async with rig() as r, scripted() as engine, anyio.create_task_group() as group:
            r.open(engine.port)

            async def answer() -> None:
                while True:
                    group.start_soon(stream_to, await engine.requests.get())

            group.start_soon(answer)
            async with anyio.create_task_group() as clients:
                for _ in range(4):
                    clients.start_soon(come_and_go, r, chance)
            await wait_for_async(lambda: not r.server.server_state.connections, 5, "all to be gone")
            await r.idle()
            group.cancel_scope.cancel()
    faults = [line for line in said if line["log_level"] in ("error", "critical")]
    assert faults == []
    assert [record.getMessage() for record in caplog.records] == []


async def stream_to(got: Exchange) -> None:
    """Send two megabytes of events to a client that has left by then."""
    with suppress(ConnectionError), anyio.move_on_after(2):
        await got.write(EVENTS)
        for _ in range(40):
            await got.write(b"data: %b\n\n" % (b"x" * 50_000))
            await anyio.lowlevel.checkpoint()
    got.writer.close()


async def come_and_go(r: Rig, chance: random.Random) -> None:
    """Be thirty clients, one after the other, of whom none waits for its answer."""
    for _ in range(30):
        stream = await anyio.connect_tcp("127.0.0.1", r.port)
        with (
            suppress(anyio.BrokenResourceError, anyio.EndOfStream),
            anyio.move_on_after(chance.choice([0, 0.001, 0.005, 0.02])),
        ):
            await stream.send(chance.choice(REQUESTS))
            while True:
                await stream.receive(chance.choice([100, 100_000]))
        if chance.random() < 0.6:
            sock = stream.extra(anyio.abc.SocketAttribute.raw_socket)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        await stream.aclose()
