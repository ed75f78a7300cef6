"""Towards the engines: requests over a few kept connections, all of which can be closed at once.

A connection is used again only within a second of its last answer, much sooner than engines drop idle ones (5 s),
and only if the socket shows no end by then. At most two wait idle for each model: every one that is open holds one
of the few threads of llama-server, which leaves its others to the health probe and to whoever asks it directly.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from functools import lru_cache, partial
from types import TracebackType
from typing import Final, TypeVar
from urllib.parse import urlsplit

import anyio

from reconciler.gateway.errors import ApiError
from reconciler.gateway.upstream_answer import Incoming, UpstreamError
from reconciler.gateway.upstream_connection import PIECE_BYTES, Body, Connection, Outgoing
from reconciler.gateway.upstream_headers import HOP_BY_HOP, NOT_FORWARDED, Headers, answer_headers, kept
from reconciler.leases import Endpoint

__all__ = [
    "HOP_BY_HOP",
    "NOT_FORWARDED",
    "Headers",
    "Incoming",
    "Outgoing",
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
        self._exchanges: dict[str, dict[_Exchange, None]] = {}
        self._open: dict[str, dict[Connection, None]] = {}
        self._idle: dict[str, list[tuple[str, Connection, asyncio.TimerHandle]]] = {}
        self._changed: list[asyncio.Future[None]] = []

    def exchange(
        self,
        endpoint: Endpoint,
        outgoing: Outgoing,
        *,
        first_byte: float,
        chunk: float | None = None,
        abort: Callable[[], None],
    ) -> "_Exchange":
        """Return a context that sends `outgoing` and yields the answer once its head is here.

        `first_byte` is the longest wait for that in seconds, counted anew whenever the engine takes a part of the
        body; `chunk` that between two pieces of the answer. `abort` must end the block at once; `close` calls it.
        Raises `UpstreamError`, and `ApiError` (504) when a limit is reached; so does reading the pieces. What a
        body that is an iterator raises is passed on.
        """
        return _Exchange(self, endpoint, outgoing, (first_byte, chunk), abort)

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

    def register(self, exchange: "_Exchange") -> None:
        """Note an exchange, to be aborted by `close`."""
        self._exchanges.setdefault(exchange.endpoint.model, {})[exchange] = None

    def forget(self, exchange: "_Exchange") -> None:
        """Strike out an exchange that is over."""
        _strike(self._exchanges, exchange.endpoint.model, exchange)
        self._tell()

    def take(self, endpoint: Endpoint) -> Connection | None:
        """Return an idle connection that is fit for a request, the one used last; None = there is none."""
        waiting = self._idle.get(endpoint.model)
        while waiting:
            url, connection, timer = waiting.pop()
            timer.cancel()
            if url == endpoint.base_url and connection.fit:
                return connection
            connection.abort()
        return None

    async def connect(self, endpoint: Endpoint) -> Connection:
        """Open a connection, trying all addresses of the host's name; raise `UpstreamError` if none answers."""
        self._drop_idle(endpoint.model)
        host, port, _ = _address(endpoint.base_url)
        made, error = None, None
        with anyio.move_on_after(CONNECT_SECONDS):
            made, error = await self._connect(endpoint.model, host, port)
        if made is None or made.closed:
            what = f"took no connection within {CONNECT_SECONDS:g} s" if error is None else _words(error)
            raise UpstreamError(f"{host} port {port}: {what}") from error
        self._open.setdefault(endpoint.model, {})[made] = None
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

    def give_back(self, endpoint: Endpoint, connection: Connection) -> None:
        """Keep a connection for the next request, for a while, or close it."""
        waiting = self._idle.setdefault(endpoint.model, [])
        if not connection.finish() or len(waiting) >= MAX_IDLE:
            connection.abort()
            return
        crowded = any(e.unanswered for e in self._exchanges.get(endpoint.model, ()))
        seconds = CROWDED_SECONDS if crowded else IDLE_SECONDS
        timer = asyncio.get_running_loop().call_later(seconds, connection.abort)
        waiting.append((endpoint.base_url, connection, timer))

    def _drop_idle(self, model: str) -> None:
        for _, connection, timer in self._idle.pop(model, ()):
            timer.cancel()
            connection.abort()

    def _lost(self, model: str, connection: Connection) -> None:
        _strike(self._open, model, connection)
        left = [entry for entry in self._idle.pop(model, ()) if entry[1] is not connection]
        if left:
            self._idle[model] = left
        self._tell()

    def _tell(self) -> None:
        changed, self._changed = self._changed, []
        for future in changed:
            if not future.done():
                future.set_result(None)


class _Exchange:
    """One request and its answer."""

    def __init__(
        self,
        pool: UpstreamPool,
        endpoint: Endpoint,
        outgoing: Outgoing,
        limits: tuple[float, float | None],
        abort: Callable[[], None],
    ) -> None:
        self.endpoint = endpoint
        self.abort = abort
        #: Whether the engine's answer has not begun.
        self.unanswered = True
        self._pool = pool
        self._outgoing: Outgoing | None = outgoing
        self._first_byte, self._chunk = limits
        self._connection: Connection | None = None
        self._incoming: Incoming | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._sender: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Incoming:
        outgoing = self._outgoing
        if outgoing is None:
            raise RuntimeError("an exchange is used once")
        self._pool.register(self)
        try:
            connection = self._pool.take(self.endpoint) if outgoing.replayable else None
            try:
                incoming = await self._ask(outgoing, connection or await self._pool.connect(self.endpoint))
            except UpstreamError:
                if not self._may_repeat():
                    raise
                self._end()
                incoming = await self._ask(outgoing, await self._pool.connect(self.endpoint))
        except BaseException:
            self._end()
            self._pool.forget(self)
            raise
        # A large body need not be in memory as long as the answer takes.
        self._outgoing = None
        return incoming

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        self._pool.forget(self)

    def _may_repeat(self) -> bool:
        """Return whether the engine cannot have seen the request, so that sending it again is sending it once.

        So it is if it closed a connection that had been idle, and its kernel threw bytes of ours away unread. A
        mere end without an answer proves nothing: the engine may have begun.
        """
        connection, incoming = self._connection, self._incoming
        if connection is None or incoming is None:
            return False
        return connection.used > 1 and connection.refused and not incoming.touched

    async def _ask(self, outgoing: Outgoing, connection: Connection) -> Incoming:
        self._connection = connection
        incoming = self._incoming = connection.begin(outgoing.method)
        incoming.chunk = self._chunk
        incoming.late = self._no_more
        head = _head(outgoing, self.endpoint)
        self._wait_for_engine(True)
        body = outgoing.body
        if isinstance(body, Body) and len(body) <= PIECE_BYTES:
            connection.send_at_once(head, body)
        else:
            self._sender = asyncio.create_task(self._send(outgoing, connection, incoming, head))
        await incoming.begun()
        self.unanswered = False
        self._wait_for_engine(False)
        return incoming

    async def _send(
        self, outgoing: Outgoing, connection: Connection, incoming: Incoming, head: bytes
    ) -> None:
        try:
            await connection.send(outgoing, head, self._wait_for_engine)
        except Exception as error:  # whatever the source of the body raises is the exchange's to raise
            incoming.fail(error)

    def _wait_for_engine(self, on: bool) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if on and self.unanswered and self._incoming is not None:
            fail, late = self._incoming.fail, self._nothing
            self._timer = asyncio.get_running_loop().call_later(self._first_byte, lambda: fail(late()))

    def _nothing(self) -> ApiError:
        text = f"model {self.endpoint.model!r} sent nothing for {self._first_byte:g} s"
        return ApiError("upstream_timeout", f"{text}, the limit for the first byte")

    def _no_more(self) -> ApiError:
        text = f"model {self.endpoint.model!r} sent nothing more for {self._chunk or 0:g} s"
        return ApiError("upstream_timeout", f"{text}, the limit between two pieces of an answer")

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._sender is not None:
            self._sender.cancel()
        if self._connection is not None:
            self._pool.give_back(self.endpoint, self._connection)
        self._timer = self._sender = self._connection = self._incoming = None


def build_request(
    endpoint: Endpoint,
    path: bytes,
    headers: Headers,
    body: Body | AsyncIterator[bytes],
    *,
    method: str = "POST",
    length: int | None = None,
) -> Outgoing:
    """Return the request for the engine: the client's path, query, headers and body, framed anew.

    `length` is that of a body that is an iterator, if it is known.
    """
    return Outgoing(method, path, kept(headers, NOT_FORWARDED), body, length)


def _head(outgoing: Outgoing, endpoint: Endpoint) -> bytes:
    parts = [
        b"%b %b HTTP/1.1\r\nhost: %b\r\n"
        % (outgoing.method.encode(), outgoing.path, _address(endpoint.base_url)[2])
    ]
    parts += [b"%b: %b\r\n" % header for header in outgoing.headers]
    length = len(outgoing.body) if isinstance(outgoing.body, Body) else outgoing.length
    if length is None:
        parts.append(b"transfer-encoding: chunked\r\n")
    elif length or outgoing.method not in _USUALLY_EMPTY:
        parts.append(b"content-length: %d\r\n" % length)
    parts.append(b"\r\n")
    return b"".join(parts)


_USUALLY_EMPTY: Final = frozenset({"GET", "HEAD", "OPTIONS", "DELETE"})


@lru_cache(maxsize=256)
def _address(base_url: str) -> tuple[str, int, bytes]:
    """Return host, port, and the value of `Host`.

    >>> _address("http://[::1]:18100"), _address("http://localhost")
    (('::1', 18100, b'[::1]:18100'), ('localhost', 80, b'localhost'))
    """
    parts = urlsplit(base_url)
    if parts.scheme != "http" or parts.hostname is None:
        raise UpstreamError(f"{base_url} is no address of an engine")
    return parts.hostname, parts.port or 80, parts.netloc.encode()


def _words(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error)


def _strike(pages: "dict[str, dict[T, None]]", model: str, entry: T) -> None:
    page = pages.get(model)
    if page is not None:
        page.pop(entry, None)
        if not page:
            del pages[model]
