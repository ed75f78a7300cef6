"""Letting clients in, also after a time in which there was no descriptor left to do so.

The event loop's own server is not used for that: uvloop closes a listening socket for good whose `accept` has failed,
and libuv lets whoever comes meanwhile run into a closed connection.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Final

import structlog

#: Clients let in before others in the event loop have their turn.
AT_ONCE: Final = 64
#: Seconds until the next try where there is nothing to let a client in with; who comes waits in the backlog.
AGAIN: Final = 0.2

log = structlog.get_logger("reconciler.gateway")


class Acceptor:
    """Hands each connection of a listening socket to a new protocol. Belongs to one event loop."""

    def __init__(self, sock: socket.socket, protocol: Callable[[], asyncio.Protocol]) -> None:
        """Begin to accept; must be called in the running event loop, of a socket that does not block."""
        self._sock, self._protocol = sock, protocol
        self._loop = asyncio.get_running_loop()
        self._coming: set[asyncio.Task[None]] = set()
        self._later: asyncio.TimerHandle | None = None
        self._short = False
        self._loop.add_reader(sock.fileno(), self._accept)

    def close(self) -> None:
        """Accept nothing more. The socket stays open: it is its owner's."""
        if self._later is not None:
            self._later.cancel()
        self._loop.remove_reader(self._sock.fileno())
        for task in self._coming:
            task.cancel()

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            try:
                connection, _address = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._rest(error)
                return
            self._enough()
            task = self._loop.create_task(self._begin(connection))
            self._coming.add(task)
            task.add_done_callback(self._coming.discard)

    async def _begin(self, connection: socket.socket) -> None:
        try:
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._loop.connect_accepted_socket(self._protocol, connection)
        except OSError:  # the client has gone already
            connection.close()
        except BaseException:
            connection.close()
            raise

    def _rest(self, error: OSError) -> None:
        """Leave clients in the backlog for a moment: the socket stays readable, and would be tried without end."""
        if not self._short:
            log.error(
                "no client can be let in: who comes waits",
                error=error.strerror or str(error),
                hint="raise the limit of open files (ulimit -n, LimitNOFILE=)",
            )
        self._short = True
        self._loop.remove_reader(self._sock.fileno())
        self._later = self._loop.call_later(AGAIN, self._resume)

    def _resume(self) -> None:
        self._later = None
        self._loop.add_reader(self._sock.fileno(), self._accept)

    def _enough(self) -> None:
        if self._short:
            log.info("clients are let in again")
        self._short = False
