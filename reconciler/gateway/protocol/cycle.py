"""One request and its answer, between the connection and the application.

ASGI, with two additions that spare every request a task and a packet: an application that finds the cycle in its
scope can have itself told when the client leaves, and may announce that the body follows its head at once.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog
from starlette.types import ASGIApp, Message, Scope
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl

from reconciler.gateway.protocol.flow import reset
from reconciler.gateway.protocol.head import BODILESS, head_of

#: Key of `scope` under which an application finds its cycle.
CYCLE: Final = "reconciler.cycle"
#: Key of `scope` that is there if the target ended with a "?" and nothing behind it, which ASGI cannot tell.
EMPTY_QUERY: Final = "reconciler.empty_query"
#: Key of the message that starts an answer: the first piece of the body is sent next, without waiting for anything.
FOLLOWS: Final = "reconciler.follows"

_FAILED: Final = (
    (b"content-type", b"text/plain; charset=utf-8"),
    (b"content-length", b"21"),
    (b"connection", b"close"),
)

log = structlog.get_logger(__name__)


class Cycle:
    """Made by the protocol for each request, which calls `feed`, `whole` and `leave`; the rest is the application's.

    `head_only`: it is a HEAD. `expects`: the client waits for "100 Continue". `chunks`: the client knows a body in
    chunks; else one without a length ends with the connection. `done` is called with the last byte of the answer.
    """

    # What most requests leave as it is stands here: it costs nothing until it is changed.
    disconnected = False
    more_body = True
    response_started = response_complete = False
    #: A head that waits for the first piece of its body.
    _head = b""
    #: Bytes of the body that are still to be sent; None = nobody knows, so it goes in chunks, or to the close.
    _left: int | None = None
    #: Bytes of the request's body that are here and were not asked for.
    _size = 0
    #: Whether there is something that `receive` has not told, and whether anything was told.
    _news = _told = False
    #: Made by whoever waits first: most requests are here as a whole before they are asked for.
    _event: asyncio.Event | None = None
    _on_leave: Callable[[], None] | None = None

    def __init__(
        self,
        transport: asyncio.Transport,
        flow: FlowControl,
        done: Callable[[], None],
        *,
        head_only: bool,
        keep_alive: bool,
        expects: bool,
        chunks: bool = True,
    ) -> None:
        self.keep_alive = keep_alive
        self.waiting_for_100_continue = expects
        self._transport = transport
        self._flow = flow
        self._done: Callable[[], None] | None = done
        self._head_only = head_only
        self._chunks = chunks
        self._parts: list[bytes] = []

    # --- the protocol's side ---

    @property
    def held(self) -> int:
        """Bytes of the request's body that are here and were not asked for."""
        return self._size

    def feed(self, data: bytes) -> None:
        """Take a part of the request's body."""
        self._parts.append(data)
        self._size += len(data)
        if self._size > HIGH_WATER_LIMIT:
            self._flow.pause_reading()
        self._tell()

    def whole(self) -> None:
        """The request's body is complete."""
        self.more_body = False
        self._tell()

    def leave(self) -> None:
        """The client is gone, or as good as: nothing that is sent reaches it any more."""
        self.disconnected = True
        hook, self._on_leave = self._on_leave, None
        self._tell()
        if hook is not None:
            hook()

    async def run(self, app: ASGIApp, scope: Scope, tasks: set[asyncio.Task[None]]) -> None:
        """Have the application answer. What it leaves unfinished ends with the connection: that is how it is seen.

        At its end the task that runs this is struck out of `tasks`.
        """
        try:
            await app(scope, self.receive, self.send)
            if not self.response_started and not self.gone:
                log.error("request without an answer", path=scope["path"])
        except Exception as error:
            log.error("request failed", path=scope["path"], exc_info=error)
        finally:
            self._on_leave = None
            if not self.response_complete and not self.gone:
                await self._break_off()
            self._done = None
            task: asyncio.Task[None] | None = asyncio.current_task()
            if task is not None:
                tasks.discard(task)

    async def _break_off(self) -> None:
        if not self.response_started:
            await self.send({"type": "http.response.start", "status": 500, "headers": _FAILED})
            await self.send({"type": "http.response.body", "body": b"Internal Server Error"})
            return
        if self._head:
            self._transport.write(self._head)
        if self._left is None and not self._chunks:
            reset(self._transport)  # an orderly close would be the end of a whole body
        else:
            self._transport.close()

    # --- the application's side ---

    @property
    def gone(self) -> bool:
        """Whether nothing reaches the client any more. A connection that is being closed must not be written to."""
        return self.disconnected or self._transport.is_closing()

    @property
    def congested(self) -> bool:
        """Whether `send` would wait for the client to take what was sent before."""
        return self._flow.write_paused

    def on_leave(self, hook: Callable[[], None] | None) -> None:
        """Call `hook` when the client leaves before its answer is complete; at once, if it has. None = nobody cares."""
        if self.disconnected and hook is not None:
            hook()
        else:
            self._on_leave = hook

    def arrived(self, most: int) -> bytes | None:
        """Return the request's body if it is here as a whole, less than `most` bytes; None = `receive` must tell."""
        if self.more_body or self._told or self._size >= most:
            return None
        if self.disconnected or self.response_complete or self.waiting_for_100_continue:
            return None
        parts, self._parts, self._size = self._parts, [], 0
        self._news, self._told = False, True
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def receive(self) -> Message:
        """Return what arrived of the body since the last call, or that the client is gone or the answer complete."""
        if self.waiting_for_100_continue and not self._transport.is_closing():
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self.waiting_for_100_continue = False
        if not self.disconnected and not self.response_complete:
            self._flow.resume_reading()
            if not self._news:
                self._event = event = self._event or asyncio.Event()
                event.clear()
                await event.wait()
            self._news, self._told = False, True
        if self.disconnected or self.response_complete:
            return {"type": "http.disconnect"}
        parts, self._parts, self._size = self._parts, [], 0
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    async def send(self, message: Message) -> None:
        """Send a head or a piece of the body. Raises `RuntimeError` and `ValueError` for what makes no answer."""
        if self._flow.write_paused and not self.disconnected:
            await self._flow.drain()
        if self.gone:
            return
        if self.response_complete:
            raise RuntimeError(f"{message['type']!r} was sent after the end of the answer")
        expected = "http.response.body" if self.response_started else "http.response.start"
        if message["type"] != expected:
            raise RuntimeError(f"{message['type']!r} was sent instead of {expected!r}")
        if self.response_started:
            self._send_piece(message.get("body", b""), last=not message.get("more_body", False))
        else:
            head = self._begin(message["status"], list(message.get("headers", ())))
            if FOLLOWS in message:
                self._head = head
            else:
                self._transport.write(head)

    def answer(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        """Send a whole answer, now: what `send` does for two messages. Not while the cycle is `congested`."""
        if self.gone:
            return
        if self.response_started:
            raise RuntimeError("a second answer was sent")
        self._head = self._begin(status, headers)
        self._send_piece(body, last=True)

    def _begin(self, status: int, headers: list[tuple[bytes, bytes]]) -> bytes:
        head, self._left, self.keep_alive = head_of(
            status,
            headers,
            head_only=self._head_only,
            keep_alive=self.keep_alive,
            chunks=self._chunks,
        )
        self._head_only = self._head_only or status in BODILESS
        self.response_started = True
        self.waiting_for_100_continue = False
        return head

    def _send_piece(self, piece: bytes, *, last: bool) -> None:
        if self._head_only:
            piece, self._left = b"", 0
        elif self._left is None and not self._chunks:
            pass
        elif self._left is None:
            piece = b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b""
            if last:
                piece += b"0\r\n\r\n"
        else:
            self._left -= len(piece)
            if self._left < 0 or (last and self._left):
                raise RuntimeError("the body is not as long as its head says")
        if self._head:
            piece, self._head = b"".join((self._head, piece)), b""
        if piece:
            self._transport.write(piece)
        if last:
            self._complete()

    def _complete(self) -> None:
        self.response_complete = True
        self._on_leave = None
        self._tell()
        if not self.keep_alive:
            self._transport.close()
        if self._done is not None:
            self._done()

    def _tell(self) -> None:
        self._news = True
        if self._event is not None:
            self._event.set()
