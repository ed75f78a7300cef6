"""Events as they happen, as server-sent events: what is written to the ledger is passed on at once.

A stream holds one page at most, and reads the next when its client has taken that: one that is slow costs no memory,
one that takes nothing for a minute is left, and comes back with the id of what it had last.
"""

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Final

import anyio
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from reconciler.board import Board
from reconciler.gateway import ledger
from reconciler.gateway.errors import ApiError
from reconciler.render.event_query import EventQuery

if TYPE_CHECKING:
    from reconciler.render.history_shapes import EventDocument, EventsDocument

#: Seconds after which a comment says that the stream is alive.
KEEP_ALIVE_SECONDS: Final = 15.0
#: Seconds a client may take nothing of what is sent to it.
STALL_SECONDS: Final = 60.0
#: Events read at a time.
PAGE: Final = 100
#: What a client of the browser's kind waits before it comes back, in milliseconds.
RETRY: Final = b"retry: 2000\n\n"
ALIVE: Final = b": alive\n\n"
#: The last words: without them a stream broke off, which the framing alone does not tell every client.
OVER: Final = b": over\n\n"
HEADERS: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)


def asks_for_stream(request: Request) -> bool:
    """Return whether a client wants the events as they come."""
    return request.method == "GET" and "text/event-stream" in request.headers.get("accept", "").lower()


class EventStream:
    """Answers one client until it leaves or the loop has ended. `first` is what it gets at once."""

    def __init__(
        self,
        board: Board,
        query: EventQuery,
        first: "EventsDocument",
        open_ones: "set[EventStream]",
    ) -> None:
        self._board = board
        self._query = query
        self._first = first
        self._open = open_ones

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream; an end in good order is the loop's."""
        self._open.add(self)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(until_gone, receive, tasks.cancel_scope)
                await self._run(send)
                tasks.cancel_scope.cancel()
        finally:
            self._open.discard(self)

    async def _run(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": list(HEADERS)})
        if not await put(send, RETRY + encoded(self._first.events)):
            return
        last = self._first.last
        over = False
        while not over:
            # Both are taken before one looks: what happens meanwhile is seen at the next turn.
            news, over = self._board.news, self._board.over
            passed = await self._pass_on(send, last)
            if passed is None or (not over and not await _alive(news, send)):
                return
            last = passed
        await send({"type": "http.response.body", "body": OVER, "more_body": False})

    async def _pass_on(self, send: Send, last: int) -> int | None:
        """Send what came after `last` and return the newest of it; None = the client takes nothing, or nothing can
        be read: it comes back and finds out why.
        """
        while page := await self._page(last):
            last = page.last
            if page.events and not await put(send, encoded(page.events)):
                return None
            if not page.more:
                return last
        return None

    async def _page(self, last: int) -> "EventsDocument | None":
        from reconciler.render.events_document import (
            events,  # long since there: the first page was made with it
        )

        query = replace(self._query, after=last, limit=PAGE)
        try:
            return await ledger.ask(self._board, lambda store: events(store, query))
        except ApiError:
            return None


def encoded(found: "tuple[EventDocument, ...]", kind: bytes = b"") -> bytes:
    """Return events in the form of a stream; `kind` is a line that says what they are."""
    return b"".join(
        b"%bid: %d\ndata: %b\n\n"
        % (kind, event.id, json.dumps(asdict(event), separators=(",", ":")).encode())
        for event in found
    )


async def until_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    """Cancel a stream when its client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def _alive(news: anyio.Event, send: Send) -> bool:
    """Return once there is news, with a comment to the client now and then; False = it takes nothing."""
    while not news.is_set():
        with anyio.move_on_after(KEEP_ALIVE_SECONDS):
            await news.wait()
        if not news.is_set() and not await put(send, ALIVE):
            return False
    return True


async def put(send: Send, data: bytes) -> bool:
    """Send a piece; return whether the client takes what it is sent."""
    with anyio.move_on_after(STALL_SECONDS) as scope:
        await send({"type": "http.response.body", "body": data, "more_body": True})
    return not scope.cancelled_caught
