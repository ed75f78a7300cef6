"""One request over one connection, and its answer: whose it is, how long it may take, and how it ends."""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Final, Protocol

from reconciler.gateway.errors import ApiError
from reconciler.gateway.interrupt import Interrupt
from reconciler.gateway.upstream.answer import Incoming, UnreachableError, UpstreamError
from reconciler.gateway.upstream.connection import PIECE_BYTES, Connection
from reconciler.gateway.upstream.request import Body, Outgoing, head_of
from reconciler.leases import Endpoint


class Connections(Protocol):
    """Where an exchange gets its connection from."""

    def register(self, exchange: "Exchange") -> None:
        """Note an exchange, to be aborted when its model is closed."""
        ...

    def forget(self, exchange: "Exchange") -> None:
        """Strike out an exchange that is over."""
        ...

    def take(self, endpoint: Endpoint) -> Connection | None:
        """Return an idle connection that is fit for a request; None = there is none."""
        ...

    async def connect(self, endpoint: Endpoint) -> Connection:
        """Open a connection. Raises `UpstreamError`."""
        ...

    def give_back(self, endpoint: Endpoint, connection: Connection, *, keep: bool) -> None:
        """Close a connection, or with `keep` have it wait for the next request if that may be."""
        ...

    def distrust(self, endpoint: Endpoint) -> None:
        """Keep no connections to this engine any more."""
        ...


#: Seconds after a request was sent within which a connection that the engine had closed shows that it was.
STALE_SECONDS: Final = 0.1


class Exchange:
    """The block of one request; it yields the answer. `limits` are those of `UpstreamPool.exchange`, in seconds."""

    def __init__(
        self,
        pool: Connections,
        endpoint: Endpoint,
        outgoing: Outgoing,
        limits: tuple[float, float | None],
        abort: Callable[[], None],
    ) -> None:
        self.endpoint = endpoint
        self.abort = abort
        #: Whether the engine's answer has not begun.
        self.unanswered = True
        #: Whether anything of the request was sent.
        self.sent = False
        self._reaching: Interrupt | None = None
        self._pool = pool
        self._outgoing: Outgoing | None = outgoing
        self._shares = outgoing.shares
        #: When the request began to be sent, by the clock of the event loop.
        self._began = 0.0
        self._first_byte, self._chunk = limits
        self._connection: Connection | None = None
        self._incoming: Incoming | None = None
        self._sender: asyncio.Task[None] | None = None
        #: The source of the body is waited for, and not the engine.
        self._from_source = False

    @property
    def received(self) -> int:
        """How often something of the answer came; see `leases.Flow`."""
        return self._incoming.received if self._incoming is not None else 0

    @property
    def owed(self) -> bool:
        """Whether the engine is waited for; see `leases.Flow`."""
        return self._incoming is not None and self._incoming.awaited and not self._from_source

    async def __aenter__(self) -> Incoming:
        outgoing = self._outgoing
        if outgoing is None:
            raise RuntimeError("an exchange is used once")
        self._pool.register(self)
        try:
            connection = self._pool.take(self.endpoint) if outgoing.shares and outgoing.replayable else None
            try:
                incoming = await self._ask(outgoing, connection or await self._connect())
            except UpstreamError:
                if not self._may_repeat():
                    raise
                self._pool.distrust(self.endpoint)
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

    def miss(self) -> None:
        """Do without it, as nothing was `sent`: the block raises `UnreachableError`."""
        if self._reaching is not None:
            self._reaching.end()

    async def _connect(self) -> Connection:
        self._reaching = reaching = Interrupt()
        with reaching:
            return await self._pool.connect(self.endpoint)
        raise UnreachableError(f"model {self.endpoint.model!r} was stopped")

    def _may_repeat(self) -> bool:
        """Return whether the engine had most likely closed the connection before the request came.

        So it is if a connection that had been idle ends at once, without a byte of the answer. An engine that ends
        it later may have worked on the request, and died of it: that is not to be repeated.
        """
        connection, incoming = self._connection, self._incoming
        if connection is None or incoming is None or connection.used < 2 or incoming.received:
            return False
        return asyncio.get_running_loop().time() - self._began <= STALE_SECONDS

    async def _ask(self, outgoing: Outgoing, connection: Connection) -> Incoming:
        self._connection = connection
        incoming = self._incoming = connection.begin(outgoing.method, self.endpoint.exited)
        if self._chunk is not None:
            incoming.limit(connection.deadline, self._chunk, self._no_more)
        self.sent = True
        head = head_of(outgoing, self.endpoint)
        self._began = asyncio.get_running_loop().time()
        connection.deadline.set(self._first_byte, self._nothing)
        body = outgoing.body
        if isinstance(body, Body) and len(body) <= PIECE_BYTES:
            connection.send_at_once(head, body)
        else:
            self._sender = asyncio.create_task(self._send(outgoing, connection, incoming, head))
        await incoming.begun()
        self.unanswered = False
        connection.deadline.lift()
        return incoming

    async def _send(
        self, outgoing: Outgoing, connection: Connection, incoming: Incoming, head: bytes
    ) -> None:
        try:
            await connection.send(outgoing, head, self._wait_for_engine)
        except Exception as error:  # whatever the source of the body raises is the exchange's to raise
            incoming.fail(error)

    def _wait_for_engine(self, on: bool) -> None:
        """Count the time until the first byte from now on, or not; once that is here there is nothing to count."""
        self._from_source = not on
        if self.unanswered and self._connection is not None:
            if on:
                self._connection.deadline.set(self._first_byte, self._nothing)
            else:
                self._connection.deadline.lift()

    def _nothing(self) -> None:
        self._fail(f"sent nothing for {self._first_byte:g} s, the limit for the first byte")

    def _no_more(self) -> None:
        self._fail(f"sent nothing more for {self._chunk or 0:g} s, the limit between two pieces of an answer")

    def _fail(self, text: str) -> None:
        if self._incoming is not None:
            self._incoming.fail(ApiError("upstream_timeout", f"model {self.endpoint.model!r} {text}"))

    def _end(self) -> None:
        if self._sender is not None:
            self._sender.cancel()
            self._sender = None
        connection, self._connection, self._incoming = self._connection, None, None
        if connection is not None:
            connection.deadline.lift()
            self._pool.give_back(self.endpoint, connection, keep=self._shares)
