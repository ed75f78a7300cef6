"""`GET /api/v1/stream`: status, plan and events as they come, for screens that show what the loop does.

A client that is slow gets the newest documents when it has taken the last ones: nothing is queued for it.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import anyio
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from reconciler.board import Board
from reconciler.gateway import event_stream, ledger
from reconciler.gateway.errors import ApiError
from reconciler.gateway.event_stream import ALIVE, HEADERS, OVER, PAGE, RETRY, encoded, until_gone
from reconciler.gateway.history import after_id
from reconciler.gateway.live import Documents, Frame, LiveFeed, piece
from reconciler.render.event_query import EventQuery

if TYPE_CHECKING:
    from reconciler.render.history_shapes import EventsDocument
    from reconciler.store import Store

#: Streams at once.
STREAMS_MOST: Final = 16
_END: Final = piece(b"end", b"{}") + OVER


class Streams:
    """The endpoint, and the streams that are open."""

    def __init__(self, board: Board, documents: Documents, clock: Callable[[], float]) -> None:
        self._board = board
        self._feed = LiveFeed(board, documents, clock)
        self._open: set[LiveStream] = set()

    def routes(self) -> list[Route]:
        """Return the route."""
        return [Route("/api/v1/stream", self.stream)]

    async def stream(self, request: Request) -> ASGIApp:
        """Begin a stream."""
        after = after_id(request, stream=True)
        if after is None:  # before the first document: what happens after it is never missed
            after = await _newest(self._board)
        frame = await self._feed.now()
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        if len(self._open) >= STREAMS_MOST:
            text = f"{STREAMS_MOST} live streams are open, as many as may be"
            raise ApiError("too_many_connections", text, retry_after=5)
        return LiveStream(self._board, self._feed, frame, after, self._open)


class LiveStream:
    """Answers one client until it leaves or the loop has ended."""

    def __init__(
        self,
        board: Board,
        feed: LiveFeed,
        frame: Frame,
        after: int | None,
        open_ones: "set[LiveStream]",
    ) -> None:
        self._board = board
        self._feed = feed
        self._frame = frame
        #: Id of the event after which they are sent; None = the newest was not to be had yet.
        self._event = after
        self._open = open_ones

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream; an end in good order is the loop's, or that of the keys in force when it began."""
        self._open.add(self)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(until_gone, receive, tasks.cancel_scope)
                await send({"type": "http.response.start", "status": 200, "headers": list(HEADERS)})
                writer = _Writer(send, tasks.cancel_scope)
                await writer.put(RETRY + self._frame.after(None))
                tasks.start_soon(self._show, writer)
                tasks.start_soon(writer.breathe)
                await self._tell(writer)
                await writer.end(await self._feed.last(self._frame) + _END)
        finally:
            self._open.discard(self)

    async def _show(self, writer: "_Writer") -> None:
        """Send documents while the keys stay those the client was let in by."""
        keys = self._frame.keys
        while (frame := await self._feed.next(self._frame)).keys == keys:
            news, self._frame = frame.after(self._frame), frame
            await writer.put(news)
        await writer.end(b"")

    async def _tell(self, writer: "_Writer") -> None:
        """Send events until the loop has ended. Where the ledger cannot be read, the next one is tried."""
        over = False
        while not over:
            # Both are taken before one looks: what happens meanwhile is seen at the next turn.
            news, over = self._board.news, self._board.over
            while await self._pass_on(writer):
                pass
            if not over:
                await news.wait()

    async def _pass_on(self, writer: "_Writer") -> bool:
        """Send a page of events; return whether there are more."""
        if self._event is None:
            self._event = await _newest(self._board)
            return False
        query = EventQuery(after=self._event, limit=PAGE)
        try:
            page = await ledger.ask(self._board, lambda store: _events(store, query))
        except ApiError:
            return False
        self._event = page.last
        if page.events:
            await writer.put(encoded(page.events, b"event: event\n"))
        return page.more


async def _newest(board: Board) -> int | None:
    """Return the id of the newest event; None = it cannot be read now."""
    try:
        return await ledger.ask(board, lambda store: store.last_event())
    except ApiError:
        return None


def _events(store: "Store", query: EventQuery) -> "EventsDocument":
    from reconciler.render.events_document import events

    return events(store, query)


class _Writer:
    """Writes to one client, a piece at a time; one that takes nothing for a minute is left."""

    def __init__(self, send: Send, scope: anyio.CancelScope) -> None:
        self._send = send
        self._scope = scope
        self._lock = anyio.Lock()

    async def put(self, data: bytes) -> None:
        """Send a piece."""
        async with self._lock:
            if not await event_stream.put(self._send, data):
                self._scope.cancel()

    async def breathe(self) -> None:
        """Say now and then that the stream is alive."""
        while True:
            await anyio.sleep(event_stream.KEEP_ALIVE_SECONDS)
            await self.put(ALIVE)

    async def end(self, data: bytes) -> None:
        """Send the last piece, and end the stream."""
        async with self._lock:
            await self._send({"type": "http.response.body", "body": data, "more_body": False})
            self._scope.cancel()
