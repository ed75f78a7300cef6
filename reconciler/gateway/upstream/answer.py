"""One engine's answer as it arrives: its head, then its body piece by piece, no more held than a little."""

import asyncio
from collections.abc import Callable
from typing import Final

import anyio
import httptools

from reconciler.gateway.deadline import Deadline
from reconciler.gateway.upstream.ending import Tail
from reconciler.gateway.upstream.headers import Headers, first

#: Bytes of an answer's head, and of what may follow its last chunk, at most.
MAX_HEAD_BYTES: Final = 64 * 1024
#: Bytes of the body held for a client that is slower than the engine; beyond, the engine is not read from.
HELD_BYTES: Final = 256 * 1024
#: Seconds after the end of a connection within which a process that has died is found to have: its sockets are closed
#: just before its end is told.
DEATH_SECONDS: Final = 0.25
_FRAMED: Final = frozenset({b"content-length", b"transfer-encoding"})


class UpstreamError(Exception):
    """An engine could not be reached, broke the connection, or sent what is not HTTP/1.1."""


class UnreachableError(UpstreamError):
    """Nothing was sent to the engine: it took no connection, or the model went before there was one."""


class Incoming:
    """The answer to one request. The names of its headers are in lower case; nothing is decompressed.

    The parser calls the `on_...` methods; `feed`, `end` and `fail` are the connection's. All of them are
    synchronous, on the loop that also runs `begun` and `pieces`.
    """

    status = 0
    #: How often something of it came.
    received = 0
    #: Whether it came whole.
    complete = False
    #: Whether the connection is fit for another request afterwards.
    reusable = False
    error: Exception | None = None
    _limit: tuple[Deadline, float, Callable[[], None]] | None = None
    _headed = False
    #: The end of a body that has no length; None = it has one.
    _tail: Tail | None = None
    #: The engine has closed the connection, and that this was the end of the body is not sure yet.
    _ended = False
    _doubt: asyncio.Task[None] | None = None
    _head_bytes = 0
    #: Fed in a row without any of it being body.
    _idle_bytes = 0
    _held = 0
    _paused = False
    _waiter: asyncio.Future[None] | None = None

    def __init__(self, method: str, flow: Callable[[bool], None], exited: anyio.Event | None = None) -> None:
        """`flow` is told to stop (False) or go on (True) reading from the engine; `exited` tells of its death."""
        self.headers: Headers = []
        self._exited = exited
        self._without_body = method == "HEAD"
        self._flow = flow
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._parts: list[bytes] = []

    # --- for the reader ---

    def limit(self, deadline: Deadline, seconds: float, late: Callable[[], None]) -> None:
        """Call `late` when the next piece of the body is waited for so long; it is to `fail` the answer."""
        self._limit = deadline, seconds, late

    async def begun(self) -> None:
        """Return when the head is here; raises what ended the answer before that."""
        while not self._headed:
            if self.error is not None:
                raise self.error
            await self._wait()

    def pieces(self) -> "Incoming":
        """Return the body, piece by piece. Raises `UpstreamError` where it is broken off, and what `fail` was given."""
        return self

    async def whole(self, limit: int) -> bytes | None:
        """Return the whole body, or None as soon as it has more than `limit` bytes. Raises as `pieces` does."""
        parts: list[bytes] = []
        size = 0
        async for piece in self.pieces():
            parts.append(piece)
            size += len(piece)
            if size > limit:
                return None
        return b"".join(parts)

    def __aiter__(self) -> "Incoming":
        return self

    async def __anext__(self) -> bytes:
        while not self._parts:
            if self.error is not None:
                raise self.error
            if self.complete:
                raise StopAsyncIteration
            if self._limit is None:
                await self._wait()
                continue
            deadline, seconds, late = self._limit
            deadline.set(seconds, late)
            try:
                await self._wait()
            finally:
                deadline.lift()
        return self.take()

    def take(self) -> bytes:
        """Return what is here of the body and was not taken yet."""
        piece = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self._held = 0
        if self._paused:
            self._paused = False
            self._flow(True)
        return piece

    @property
    def awaited(self) -> bool:
        """Whether its reader waits for the engine."""
        return self._waiter is not None

    @property
    def waiting(self) -> bool:
        """Whether a piece of the body is here that was not taken."""
        return bool(self._parts)

    @property
    def drained(self) -> bool:
        """Whether it came whole and every piece was taken: there is nothing to wait for."""
        return self.complete and not self._parts

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # --- for the connection ---

    def feed(self, data: bytes) -> None:
        """Take what the engine sent."""
        self.received += 1
        parser = self._parser
        if parser is None:
            return
        try:
            held = self._held
            parser.feed_data(data)
            # A head, chunk sizes and trailers that do not end would be collected by the parser for ever.
            self._idle_bytes = self._idle_bytes + len(data) if held == self._held else 0
            if self._idle_bytes > MAX_HEAD_BYTES:
                raise _too_large()
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.reusable = False  # if the answer is whole, what came behind it is no matter of its reader
            if not self.complete:
                self.fail(_malformed(error))
        self._wake()

    def release(self) -> None:
        """Let go of the parser, which holds this object: what is in no cycle needs no collector to go away."""
        self._parser = None
        if self._doubt is not None:
            self._doubt.cancel()
            self._doubt = None

    def end(self) -> None:
        """Take note that the engine closed the connection in an orderly way, or that the system did for a dead one."""
        if self.complete or self.error is not None:
            return
        tail = self._tail
        if not self._headed or tail is None:
            what = "within its answer" if self.received else "without an answer"
            self.fail(UpstreamError(f"it closed the connection {what}"))
        elif tail.whole():
            self._settle()
        else:
            self._ended = True
            self._doubt = asyncio.get_running_loop().create_task(self._judge(tail))

    def lost(self, error: UpstreamError, *, orderly: bool) -> None:
        """Take note that there is no connection any more; after an orderly end that says nothing new."""
        if not (orderly and self._ended):
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """End the answer with `error`, after what is already here, unless it came whole."""
        if not self.complete and self.error is None:
            self.error = error
            self._wake()

    async def _judge(self, tail: Tail) -> None:
        """Wait whether the process turns out to have died: the system closes the connections of a dead one."""
        if self._exited is not None:
            with anyio.move_on_after(DEATH_SECONDS):
                await self._exited.wait()
            if self._exited.is_set():
                self.fail(UpstreamError("its process ended within its answer"))
                return
        if tail.cut():
            self.fail(UpstreamError("it closed the connection within its answer"))
        else:
            self._settle()

    def _settle(self) -> None:
        if self.error is None:
            self.complete = True
            self._wake()

    # --- for the parser ---

    def on_message_begin(self) -> None:
        """Start, or start again after an informational answer."""
        if self.complete:
            raise httptools.HttpParserError("a second answer came")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take one header. After the body it is a trailer, which is counted and dropped."""
        self._head_bytes += len(name) + len(value) + 4
        if self._head_bytes > MAX_HEAD_BYTES:
            raise _too_large()
        if not self._headed:
            self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Take the head; one with 1xx announces another."""
        assert self._parser is not None, "it is the parser that calls"
        self.status = self._parser.get_status_code()
        if self.status == 101:
            raise httptools.HttpParserError("it changed the protocol, which nobody asked for")
        if self.status < 200:
            self.headers = []
            return
        check_framing(self.status, self.headers)
        self._headed = True
        self._head_bytes = 0
        if not dict(self.headers).keys() & _FRAMED:
            # The end of the connection is the end of the body: what it says itself tells whether it is whole.
            self._tail = Tail(first(self.headers, b"content-type"))
        if self._without_body:
            self.complete = True  # the parser waits for a body that a HEAD never gets: not reusable

    def on_body(self, data: bytes) -> None:
        """Take a part of the body."""
        if self._without_body:
            return
        self._parts.append(data)
        if self._tail is not None:
            self._tail.add(data)
        self._held += len(data)
        if self._held >= HELD_BYTES and not self._paused:
            self._paused = True
            self._flow(False)

    def on_message_complete(self) -> None:
        """Note the end, unless it is that of an informational answer."""
        if self._headed and not self.complete and self._parser is not None:
            self.complete = True
            self.reusable = self._parser.should_keep_alive()


def _too_large() -> httptools.HttpParserError:
    return httptools.HttpParserError(f"its head is larger than {MAX_HEAD_BYTES} bytes")


def check_framing(status: int, headers: Headers) -> None:
    """Raise `HttpParserError` for the head of a final answer that clients could not be told as it is."""
    if not 200 <= status <= 599:
        raise httptools.HttpParserError(f"{status} is no status of an answer")
    if b"transfer-encoding" not in dict(headers):
        return
    codings = [value.lower() for name, value in headers if name == b"transfer-encoding"]
    if codings != [b"chunked"]:
        said = b", ".join(codings)[:100].decode("ascii", "replace")
        raise httptools.HttpParserError(f"the transfer coding {said!r} was not asked for")


def _malformed(error: Exception) -> UpstreamError:
    if isinstance(error, httptools.HttpParserUpgrade):
        return UpstreamError("it changed the protocol, which nobody asked for")
    cause = error.__context__ if isinstance(error, httptools.HttpParserCallbackError) else error
    return UpstreamError(f"what it sent is not HTTP/1.1: {cause}")
