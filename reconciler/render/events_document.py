"""Events and single requests as documents, a page at a time, read from the ledger. Reading blocks."""

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from reconciler.render.event_query import EventQuery
from reconciler.render.history_shapes import (
    EventDocument,
    EventsDocument,
    RequestDocument,
    RequestListDocument,
)
from reconciler.render.plan_document import as_json

if TYPE_CHECKING:
    from reconciler.store import EventRecord, Store

#: Rows fetched at a time: whoever writes waits no longer than for these.
ROWS: Final = 1000


def events(store: "Store", query: EventQuery) -> EventsDocument:
    """Return the events that are meant, at most `limit`, oldest first."""
    return _newest(store, query) if query.after is None else _next(store, query, query.after)


def events_json(document: EventsDocument) -> dict[str, Any]:
    """Return a page of events as plain data."""
    return as_json(document)


def event_kinds(store: "Store") -> tuple[str, ...]:
    """Return the kinds of which there are events, sorted."""
    return tuple(sorted({event.kind for event in _all(store, 0)}))


def event_models(store: "Store") -> tuple[str, ...]:
    """Return the models of which there are events, sorted."""
    return tuple(sorted({event.model for event in _all(store, 0) if event.model is not None}))


def _newest(store: "Store", query: EventQuery) -> EventsDocument:
    found: deque[EventRecord] = deque(maxlen=query.limit)
    last = 0
    for event in _all(store, 0):
        last = event.id
        if query.wants(event):
            found.append(event)
    return EventsDocument(tuple(map(_event, found)), last, more=False)


def _next(store: "Store", query: EventQuery, after: int) -> EventsDocument:
    if after > store.last_event():  # of a ledger that was lost: the one that was begun anew counts from 1
        after = 0
    found: list[EventRecord] = []
    last = after
    for event in _all(store, after):
        if query.wants(event):
            if len(found) == query.limit:
                return EventsDocument(tuple(map(_event, found)), last, more=True)
            found.append(event)
        last = event.id
    return EventsDocument(tuple(map(_event, found)), last, more=False)


def _all(store: "Store", after: int) -> "Iterator[EventRecord]":
    while rows := store.events(after, ROWS):
        yield from rows
        after = rows[-1].id
        if len(rows) < ROWS:
            return


def _event(event: "EventRecord") -> EventDocument:
    return EventDocument(event.id, event.at, event.kind, event.model, event.reason, event.message)


def requests_page(
    store: "Store", after: int = 0, limit: int = ROWS, model: str | None = None, since: float = 0.0
) -> RequestListDocument:
    """Return single requests with an id above `after` that came at `since` or later, at most `limit`."""
    rows = store.requests(model, limit + 1, after, since=since)
    made = tuple(
        RequestDocument(
            r.id,
            r.at,
            r.model,
            r.client,
            r.waited,
            r.cold,
            r.seconds,
            r.prompt_tokens,
            r.output_tokens,
            r.outcome,
        )
        for r in rows[:limit]
    )
    return RequestListDocument(made, made[-1].id if made else after, more=len(rows) > limit)
