"""Letting clients in, and what becomes of those who come while there is nothing to do that with."""

import asyncio
import errno
import socket

import anyio
import pytest
from structlog.testing import capture_logs

from reconciler.gateway.accepting import Acceptor
from support import wait_for_async

pytestmark = pytest.mark.anyio


class Scant(socket.socket):
    """A listening socket of a process that has no descriptor left while `short` is set."""

    short = False
    tried = 0

    def accept(self) -> tuple[socket.socket, object]:
        self.tried += 1
        if self.short:
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


class Greeter(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"hello")
        transport.close()


async def greeted(address: tuple[str, int]) -> bytes:
    with anyio.fail_after(5):
        stream = await anyio.connect_tcp(*address)
        async with stream:
            return await stream.receive()


async def test_who_comes_while_no_descriptor_is_left_waits_and_is_let_in_later() -> None:
    with Scant() as sock, capture_logs() as said:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        sock.setblocking(False)
        address = sock.getsockname()
        acceptor = Acceptor(sock, Greeter)
        assert await greeted(address) == b"hello"
        sock.short, sock.tried = True, 0
        answers: list[bytes] = []
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(lambda: _note(answers, address))
            await wait_for_async(lambda: sock.tried >= 3, 5, "three tries")
            assert answers == []
            sock.short = False
        assert answers == [b"hello"] * 3
        acceptor.close()
    assert [(line["log_level"], line["event"]) for line in said] == [
        ("error", "no client can be let in: who comes waits"),
        ("info", "clients are let in again"),
    ]


async def _note(answers: list[bytes], address: tuple[str, int]) -> None:
    answers.append(await greeted(address))


async def test_a_closed_one_lets_nobody_in_and_leaves_the_socket_to_its_owner() -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        sock.setblocking(False)
        acceptor = Acceptor(sock, Greeter)
        acceptor.close()
        with socket.create_connection(sock.getsockname()) as client:
            for _ in range(5):  # turns of the event loop, in which it would be let in
                await anyio.lowlevel.checkpoint()
            connection, address = sock.accept()
            connection.close()
            assert address == client.getsockname()
