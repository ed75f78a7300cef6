"""One connection to an engine: a request out, its answer in, and whether another request may follow."""

import asyncio
import re
import select
from collections.abc import AsyncIterator, Callable
from functools import lru_cache
from typing import Final, cast

import anyio

from reconciler.awake import awake
from reconciler.gateway.deadline import Deadline
from reconciler.gateway.upstream.answer import Incoming, UpstreamError
from reconciler.gateway.upstream.headers import first
from reconciler.gateway.upstream.request import Body, Outgoing

#: Larger bodies are sent in pieces, so that no second copy of them piles up in a socket's buffer.
PIECE_BYTES: Final = 256 * 1024
#: An engine that drops idle connections sooner than this many seconds is never sent a second request on one.
SHORTEST_KEEP_ALIVE: Final = 3
#: After one of these llama.cpp closes the connection, whatever its head said.
EVENT_STREAM: Final = b"text/event-stream"


class Connection(asyncio.Protocol):
    """The protocol of one connection. `lost` is called once, when it is closed for whatever reason."""

    def __init__(self, lost: Callable[["Connection"], None]) -> None:
        self.transport: asyncio.Transport = cast("asyncio.Transport", None)
        self.incoming: Incoming | None = None
        #: Requests sent over it.
        self.used = 0
        self.closed = False
        #: Whether it was closed by us.
        self.aborted = False
        #: For whoever uses the connection: it is waited for one thing at a time.
        self.deadline = Deadline(awake())
        self._lost = lost
        self._poll = select.poll()
        self._unsent = False
        self._writable: asyncio.Future[None] | None = None
        self._paused = False

    # --- towards the pool ---

    def begin(self, method: str, exited: anyio.Event | None = None) -> Incoming:
        """Return what will be the answer to the request that is sent next; `exited` tells of the engine's death."""
        self.used += 1
        self._unsent = True
        self.incoming = Incoming(method, self._flow, exited)
        return self.incoming

    def send_at_once(self, head: bytes, body: Body) -> None:
        """Send a whole request with a small body."""
        self.transport.write(b"".join((head, body)))
        self._unsent = False

    async def send(self, outgoing: Outgoing, head: bytes, progress: Callable[[bool], None]) -> None:
        """Send a request piece by piece, no faster than the engine takes it.

        `progress(True)` is called whenever the engine is waited for, `progress(False)` while the source is.
        """
        self.transport.write(head)
        chunked = not outgoing.replayable and outgoing.length is None
        left = outgoing.length
        async for piece in _pieces(outgoing.body, progress):
            if not piece:
                continue
            if left is not None:
                left -= len(piece)
            if left is not None and left < 0:
                raise UpstreamError("the body is longer than was said")
            progress(True)
            self.transport.write(b"".join((b"%x\r\n" % len(piece), piece, b"\r\n")) if chunked else piece)
            await self._drained()
        if left:
            raise UpstreamError("the body is shorter than was said")
        if chunked:
            self.transport.write(b"0\r\n\r\n")
        self._unsent = False
        progress(True)

    @property
    def fit(self) -> bool:
        """Whether an idle connection may carry a request: open, and nothing (an end, above all) arrived on it.

        The event loop may not have got round to an end that is already here: the socket is asked itself.
        """
        return not self.closed and not self.transport.is_closing() and not self._poll.poll(0)

    def finish(self) -> bool:
        """Take the exchange off; return whether another one may follow."""
        incoming, self.incoming = self.incoming, None
        if incoming is not None:
            incoming.release()
        if incoming is None or not (incoming.drained and incoming.reusable) or self._unsent or self.closed:
            return False
        if self.transport.is_closing() or first(incoming.headers, b"content-type").startswith(EVENT_STREAM):
            return False
        return _keeps(first(incoming.headers, b"keep-alive"))

    def abort(self) -> None:
        """Close at once; what was not sent yet never is."""
        if not self.closed:
            self.aborted = True
            self.transport.abort()

    # --- towards the event loop ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start."""
        self.transport = cast("asyncio.Transport", transport)
        self._poll.register(self.transport.get_extra_info("socket").fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        """Hand on what came; an idle connection must not get anything."""
        if self.incoming is None:
            self.transport.abort()
        else:
            self.incoming.feed(data)

    def eof_received(self) -> None:
        """Take the engine's end; the transport closes itself afterwards."""
        if self.incoming is not None:
            self.incoming.end()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell everybody who waits."""
        self.closed = True
        self.deadline.close()
        if self.incoming is not None:
            broke = UpstreamError(f"the connection broke: {exc or 'it was closed'}")
            self.incoming.lost(broke, orderly=exc is None and not self.aborted)
        self.resume_writing()
        self._lost(self)

    def pause_writing(self) -> None:
        """The engine takes no more for now."""
        self._paused = True

    def resume_writing(self) -> None:
        """The engine takes more, or is gone."""
        self._paused = False
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)

    async def _drained(self) -> None:
        if self._paused and not self.closed:
            self._writable = asyncio.get_running_loop().create_future()
            await self._writable
        if self.closed or self.transport.is_closing():
            raise UpstreamError("it closed the connection while it was sent the request")

    def _flow(self, on: bool) -> None:
        if self.closed or self.transport.is_closing():
            return
        if on:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()


async def _pieces(body: Body | AsyncIterator[bytes], progress: Callable[[bool], None]) -> AsyncIterator[Body]:
    if isinstance(body, Body):
        view = memoryview(body)
        for start in range(0, len(view), PIECE_BYTES):
            yield view[start : start + PIECE_BYTES]
        return
    progress(False)
    async for piece in body:
        yield piece
        progress(False)


@lru_cache(maxsize=64)
def _keeps(keep_alive: bytes) -> bool:
    """Return whether a server with this `Keep-Alive` header waits long enough for another request.

    >>> _keeps(b""), _keeps(b"timeout=5, max=99"), _keeps(b"timeout=1")
    (True, True, False)
    """
    found = re.search(rb"timeout\s*=\s*(\d{1,9})", keep_alive.lower())
    return found is None or int(found[1]) >= SHORTEST_KEEP_ALIVE
