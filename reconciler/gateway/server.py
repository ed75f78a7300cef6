"""The listening socket and the HTTP server, embedded: signals and the event loop stay the owner's."""

import contextlib
import errno
import os
import socket
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import anyio
import psutil
import uvicorn
from starlette.types import ASGIApp

from reconciler.gateway.accepting import Acceptor
from reconciler.gateway.protocol.config import ClientLimits, GatewayConfig
from reconciler.gateway.protocol.connection import GatewayProtocol
from reconciler.manifest.applied import GatewaySettings

#: Connections that may wait to be accepted: a crowd that arrives at once is not sent away by the kernel.
BACKLOG: Final = 4096
#: Seconds that answers under way get when the server stops.
GRACE_SECONDS: Final = 5
#: Longer than clients keep idle connections, so that it is they who close and no request meets a closed one.
KEEP_ALIVE_SECONDS: Final = 75


class BindError(Exception):
    """The gateway's address cannot be listened on; the message says why and what to do."""


class AddressInUse(BindError):
    """Another process listens there."""


def bind(settings: GatewaySettings) -> socket.socket:
    """Return a listening socket that no child inherits. Blocking (names, and a look for who is in the way).

    Raises `BindError`. Clients may connect at once; they are answered when `serve` runs. SO_REUSEADDR lets it
    bind again right after a killed manager whose connections are still winding down.
    """
    where = f"{settings.host}:{settings.port}"
    try:
        family, kind, protocol, _, address = _resolve(settings)
        sock = socket.socket(family, kind, protocol)
    except OSError as error:
        raise BindError(f"cannot listen on {where}: {error.strerror or error}") from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind(address)
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise _bind_error(error, settings, where) from error
    return sock


class GatewayServer(uvicorn.Server):
    """uvicorn without its signal handling, and asleep while nothing happens instead of waking ten times a second."""

    def __init__(self, config: GatewayConfig, started: Callable[["GatewayServer"], None]) -> None:
        self._stopping = anyio.Event()
        self._tell_started = started
        self._acceptors: list[Acceptor] = []
        self._config = config
        super().__init__(config)

    def stop(self) -> None:
        """End `serve`: no new connection, answers under way get their grace."""
        self.should_exit = True
        self._stopping.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone: the owner ends us."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept, then tell the owner."""
        await super().startup([])
        protocol = partial(
            GatewayProtocol,
            config=self._config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        self._acceptors = [Acceptor(sock, protocol) for sock in sockets or ()]
        self._tell_started(self)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept nothing more, then end what is under way."""
        for acceptor in self._acceptors:
            acceptor.close()
        self._acceptors = []
        await super().shutdown(sockets)

    async def main_loop(self) -> None:
        """Sleep until told to stop. (The `Date` header, which uvicorn would refresh here, is the protocol's.)"""
        await self._stopping.wait()


async def serve(
    app: ASGIApp,
    settings: GatewaySettings,
    *,
    sock: socket.socket | None = None,
    started: Callable[[GatewayServer], None] = lambda _server: None,
    newest: Callable[[], GatewaySettings] | None = None,
    limits: ClientLimits | None = None,
) -> None:
    """Serve until `stop()` of the server that `started` was given, or until cancelled; close the socket.

    `sock` comes from `bind`; without it the settings' address is bound here. `newest` returns the settings in
    force, for what may change while it serves (`max_connections`). Raises `BindError`.
    """
    in_force = newest or (lambda: settings)
    listening = sock if sock is not None else await anyio.to_thread.run_sync(bind, settings)
    config = _config(app, limits or ClientLimits(), lambda: in_force().max_connections)
    server = GatewayServer(config, started)
    try:
        await server.serve(sockets=[listening])
    finally:
        if server.started and not server.should_exit:  # cancelled: nobody waits for the answers any more
            server.force_exit = True
            with anyio.CancelScope(shield=True):
                await server.shutdown(sockets=[listening])
            for task in list(server.server_state.tasks):
                task.cancel()
        listening.close()


def _config(app: ASGIApp, limits: ClientLimits, max_connections: Callable[[], int]) -> GatewayConfig:
    return GatewayConfig(
        app,
        GatewayProtocol,
        limits=limits,
        max_connections=max_connections,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )


def _resolve(
    settings: GatewaySettings,
) -> tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[str, int] | tuple[str, int, int, int]]:
    found = socket.getaddrinfo(
        settings.host or None, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    # IPv4 first: "localhost" is then what clients without IPv6 reach as well.
    return min(found, key=lambda item: item[0] != socket.AF_INET)  # type: ignore[return-value]


def _bind_error(error: OSError, settings: GatewaySettings, where: str) -> BindError:
    if error.errno == errno.EADDRINUSE:
        holder = port_holder(settings.port)
        who = f"pid {holder[0]} ({holder[1]})" if holder else "another process"
        text = f"{where} is in use by {who}: stop it, or choose another port with gateway.listen or --listen"
        return AddressInUse(text)
    hint = ": ports below 1024 need privileges; choose a higher one" if error.errno == errno.EACCES else ""
    return BindError(f"cannot listen on {where}: {error.strerror or error}{hint}")


def port_holder(port: int) -> tuple[int, str] | None:
    """Return pid and name of a process that listens on a port, if we may see it. Blocking."""
    try:
        connections = psutil.net_connections(kind="tcp")
    except (psutil.Error, OSError):
        connections = []  # macOS shows other processes' sockets to root only
    for item in connections:
        if item.status == psutil.CONN_LISTEN and item.laddr and item.laddr.port == port and item.pid:
            return item.pid, "this very process" if item.pid == os.getpid() else _name(item.pid)
    return None


def _name(pid: int) -> str:
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return "gone by now"
