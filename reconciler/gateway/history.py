"""What was: events (also as they come), single requests, and the history of models, read from the ledger.

The documents are imported by the worker thread that makes the first of them: many who start never need one.
"""

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from reconciler.board import Board, Snapshot
from reconciler.gateway import ledger
from reconciler.gateway.access.guard import started
from reconciler.gateway.errors import ApiError
from reconciler.gateway.event_stream import EventStream, asks_for_stream
from reconciler.gateway.naming import unknown
from reconciler.gateway.query import model_name, seconds, whole
from reconciler.render.event_query import EventQuery

if TYPE_CHECKING:
    from reconciler.render.history_records import Records
    from reconciler.render.history_shapes import EventsDocument, HistoryDocument, RequestListDocument
    from reconciler.store import Store

#: Rows of one answer.
EVENTS_MOST: Final = 1000
REQUESTS_MOST: Final = 5000
ID_MOST: Final = 10**17
#: Seconds a history reaches back where nothing else is asked for.
HISTORY_SECONDS: Final = 7 * 86400.0
#: Streams of events at once: each costs a look at the ledger for every event.
STREAMS_MOST: Final = 16


class Past:
    """The endpoints. Whatever they read is read in a worker thread."""

    def __init__(self, board: Board, wall: Callable[[], float] = time.time) -> None:
        self.board = board
        self.wall = wall
        self._streams: set[EventStream] = set()

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/api/v1/events", self.events),
            Route("/api/v1/requests", self.requests),
            Route("/api/v1/history", self.history),
        ]

    async def events(self, request: Request) -> ASGIApp:
        """Show the newest events, those after an id, or every one as it comes."""
        snapshot = started(self.board.snapshot)
        stream = asks_for_stream(request)
        query = EventQuery(
            after=after_id(request, stream=stream),
            limit=whole(request, "limit", 200, 1, EVENTS_MOST),
            model=model_name(request, snapshot),
            kind=request.query_params.get("kind"),
            since=seconds(request, "since", 0.0),
        )

        def read(store: "Store") -> "EventsDocument":
            from reconciler.render.events_document import event_models, events

            found = events(store, query)
            if not found.events and query.model is not None:
                _check_known(snapshot, query.model, lambda: event_models(store))
            return found

        if not stream:
            return await ledger.answer(self.board, read)
        first = await ledger.ask(self.board, read)
        if len(self._streams) >= STREAMS_MOST:
            text = f"{STREAMS_MOST} streams of events are open, as many as may be"
            raise ApiError("too_many_connections", text, retry_after=5)
        return EventStream(self.board, query, first, self._streams)

    async def requests(self, request: Request) -> Response:
        """Show single requests, a page at a time."""
        snapshot = started(self.board.snapshot)
        after = whole(request, "after", 0, 0, ID_MOST)
        limit = whole(request, "limit", 1000, 1, REQUESTS_MOST)
        model, since = model_name(request, snapshot), seconds(request, "since", 0.0)

        def read(store: "Store") -> "RequestListDocument":
            from reconciler.render.events_document import requests_page
            from reconciler.render.history_records import known_models

            found = requests_page(store, after, limit, model, since)
            if not found.requests and model is not None:
                _check_known(snapshot, model, lambda: known_models(store))
            return found

        await ledger.write_down(self.board)
        return await ledger.answer(self.board, read)

    async def history(self, request: Request) -> Response:
        """Show what became of the models since a time."""
        snapshot, now = started(self.board.snapshot), self.wall()
        model, since = model_name(request, snapshot), seconds(request, "since", now - HISTORY_SECONDS)

        def read(store: "Store") -> "HistoryDocument":
            from reconciler.render.history_document import history
            from reconciler.render.history_records import known_models, read_records

            found: dict[str, Records] = read_records(store, since, model)
            if not found and model is not None:
                _check_known(snapshot, model, lambda: known_models(store))
            return history(found, since, now)

        await ledger.write_down(self.board)
        return await ledger.answer(self.board, read)


def after_id(request: Request, *, stream: bool) -> int | None:
    """Return the id to go on from: what a stream that was cut had seen last comes first."""
    seen = request.headers.get("last-event-id", "") if stream else ""
    if seen.isascii() and seen.isdigit() and len(seen) <= 17:
        return int(seen)
    if "after" not in request.query_params:
        return None
    return whole(request, "after", 0, 0, ID_MOST)


def _check_known(snapshot: Snapshot, model: str, recorded: Callable[[], Iterable[str]]) -> None:
    """Raise the 404 `ApiError` for a model that neither the manifest nor the ledger knows."""
    routes = snapshot.applied.routes
    if model in routes.values():
        return
    names = set(recorded())
    if model not in names:
        raise unknown(model, {*routes, *names})
