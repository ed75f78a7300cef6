"""Towards the engines: requests over a few kept connections, all of which can be closed at once.

A connection is used again only within a second of its last answer, much sooner than engines drop idle ones (5 s),
and only if the socket shows no end by then. An engine that closes one sooner gets no second request over any.

At most two wait idle for each model: every one that is open holds one of the few threads of llama-server, which
leaves its others to the health probe and to whoever asks it directly.
"""

import asyncio
import os
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from reconciler.awake import move_on_after
from reconciler.gateway.upstream.answer import Incoming, UnreachableError, UpstreamError
from reconciler.gateway.upstream.connection import Connection
from reconciler.gateway.upstream.exchange import Exchange
from reconciler.gateway.upstream.headers import HOP_BY_HOP, NOT_FORWARDED, Headers, answer_headers, kept
from reconciler.gateway.upstream.request import Outgoing, address_of, build_request
from reconciler.leases import Endpoint

__all__ = [
    "HOP_BY_HOP",
    "NOT_FORWARDED",
    "Headers",
    "Incoming",
    "Outgoing",
    "UnreachableError",
    "UpstreamError",
    "UpstreamPool",
    "answer_headers",
    "build_request",
    "kept",
]

T = TypeVar("T")

CONNECT_SECONDS: Final = 5.0
IDLE_SECONDS: Final = 1.0
#: While other requests wait for an engine: one that serves a single connection turns to them only when it is closed.
CROWDED_SECONDS: Final = 0.05
MAX_IDLE: Final = 2
LOOPBACK: Final = ("127.0.0.1", "::1")


class UpstreamPool:
    """Connections to engines and the exchanges over them, by model."""

    def __init__(self) -> None:
        # Dictionaries as sets that keep their order.
        self._exchanges: dict[str, dict[Exchange, None]] = {}
        self._open: dict[str, dict[Connection, None]] = {}
        self._idle: dict[str, list[tuple[Endpoint, Connection]]] = {}
        #: By model, the opening of one whose engine closes connections that are kept.
        self._distrusted: dict[str, Endpoint] = {}
        self._changed: list[asyncio.Future[None]] = []

    def exchange(
        self,
        endpoint: Endpoint,
        outgoing: Outgoing,
        *,
        first_byte: float,
        chunk: float | None = None,
        abort: Callable[[], None],
    ) -> Exchange:
        """Return a context that sends `outgoing` and yields the answer once its head is here.

        `first_byte` is the longest wait for that in seconds, counted anew whenever the engine takes a part of the
        body; `chunk` that between two pieces of the answer. `abort` must end the block at once; `close` calls it.
        Raises `UpstreamError` (`UnreachableError` if nothing was sent), and `ApiError` (504) when a limit is reached;
        so does reading the pieces. What a body that is an iterator raises is passed on.
        """
        return Exchange(self, endpoint, outgoing, (first_byte, chunk), abort)

    def idle(self, model: str) -> int:
        """Return how many connections to a model wait for the next request."""
        return len(self._idle.get(model, ()))

    async def close(self, model: str) -> None:
        """Abort all exchanges with a model and return when none of its connections is open."""
        for exchange in list(self._exchanges.get(model, ())):
            exchange.abort()
        while self._exchanges.get(model) or self._open.get(model):
            self._drop_idle(model)
            changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._changed.append(changed)
            await changed

    async def aclose(self) -> None:
        """Close everything; the pool is not used again."""
        for model in sorted({*self._exchanges, *self._open}):
            await self.close(model)

    # --- for the exchanges ---

    def register(self, exchange: Exchange) -> None:
        """Note an exchange, to be aborted by `close`."""
        self._exchanges.setdefault(exchange.endpoint.model, {})[exchange] = None

    def forget(self, exchange: Exchange) -> None:
        """Strike out an exchange that is over."""
        _strike(self._exchanges, exchange.endpoint.model, exchange)
        self._tell()

    def take(self, endpoint: Endpoint) -> Connection | None:
        """Return an idle connection that is fit for a request, the one used last; None = there is none."""
        waiting = self._idle.get(endpoint.model)
        while waiting:
            opened, connection = waiting.pop()
            connection.deadline.lift()
            if opened is endpoint and connection.fit:
                return connection
            self._look_at_end(opened, connection)
            connection.abort()
        return None

    async def connect(self, endpoint: Endpoint) -> Connection:
        """Open a connection, trying all addresses of the host's name; raise `UpstreamError` if none answers.

        The system still takes connections for a process that is ending, until it comes to close the port, and resets
        them then: nothing is sent over one that was opened to such a process.
        """
        self._drop_idle(endpoint.model)
        host, port, _ = address_of(endpoint.base_url)
        made, error = None, None
        with move_on_after(CONNECT_SECONDS):
            made, error = await self._connect(endpoint.model, host, port)
        if made is None or made.closed:
            what = f"took no connection within {CONNECT_SECONDS:g} s" if error is None else _words(error)
            kind = UpstreamError if error is None else UnreachableError
            raise kind(f"{host} port {port}: {what}") from error
        self._open.setdefault(endpoint.model, {})[made] = None
        if endpoint.ending is not None and endpoint.ending():
            made.abort()
            raise UnreachableError(f"{host} port {port}: its process is ending")
        return made

    async def _connect(self, model: str, host: str, port: int) -> tuple[Connection | None, OSError | None]:
        loop, error = asyncio.get_running_loop(), None
        # "localhost" is both, also where the system's resolver knows of one only (RFC 6761, 6.3).
        for name in LOOPBACK if host == "localhost" else (host,):
            try:
                _, made = await loop.create_connection(
                    lambda: Connection(partial(self._lost, model)), name, port
                )
            except OSError as failed:
                error = error or failed
            else:
                return made, ConnectionResetError("closed at once")
        return None, error

    def distrust(self, endpoint: Endpoint) -> None:
        """Keep no connections to this engine any more, until the model is opened again."""
        self._distrusted[endpoint.model] = endpoint

    def give_back(self, endpoint: Endpoint, connection: Connection, *, keep: bool) -> None:
        """Close a connection, or with `keep` have it wait for the next request, for a while."""
        model = endpoint.model
        waiting = self._idle.get(model)
        if waiting is None:
            waiting = self._idle[model] = []
        keep = keep and self._distrusted.get(model) is not endpoint
        if not (connection.finish() and keep and len(waiting) < MAX_IDLE):
            connection.abort()
            return
        seconds = IDLE_SECONDS
        for exchange in self._exchanges.get(model, ()):
            if exchange.unanswered:
                seconds = CROWDED_SECONDS
                break
        connection.deadline.set(seconds, connection.abort)
        waiting.append((endpoint, connection))

    def _drop_idle(self, model: str) -> None:
        for _, connection in self._idle.pop(model, ()):
            connection.abort()

    def _lost(self, model: str, connection: Connection) -> None:
        _strike(self._open, model, connection)
        left = []
        for opened, idle in self._idle.pop(model, ()):
            if idle is connection:
                self._look_at_end(opened, idle)
            else:
                left.append((opened, idle))
        if left:
            self._idle[model] = left
        self._tell()

    def _look_at_end(self, endpoint: Endpoint, connection: Connection) -> None:
        """Note an idle connection that was not closed by us."""
        if not connection.aborted and not connection.fit:
            self.distrust(endpoint)

    def _tell(self) -> None:
        if not self._changed:
            return
        changed, self._changed = self._changed, []
        for future in changed:
            if not future.done():
                future.set_result(None)


def _words(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error)


def _strike(pages: "dict[str, dict[T, None]]", model: str, entry: T) -> None:
    page = pages.get(model)
    if page is not None:
        page.pop(entry, None)
        if not page:
            del pages[model]
