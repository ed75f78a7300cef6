"""What was, in the document: events, single requests, the history of models."""

from typing import Any, Final

from reconciler.gateway.history import EVENTS_MOST, REQUESTS_MOST
from reconciler.gateway.openapi.hoist import reference
from reconciler.gateway.openapi.refusals import ANYWHERE, answers

_STREAM: Final = (
    "With `Accept: text/event-stream` each one as it comes, its fields in `data`, its id in `id`: the newest `limit`"
    " (or those after `Last-Event-ID` or `after`) first, a comment every 15 s, an end in good order with the loop."
)
_LIVE: Final = (
    "Status, plan and events as they come, as server-sent events: `status` and `plan` at once, then when something but"
    " ages has changed (at most once a second each, at least every 5 s); `event` with its id, from now on or after"
    " `Last-Event-ID` or `after`; a comment every 15 s; `end` with the loop."
)


def paths() -> dict[str, Any]:
    """Return the paths."""
    model = _parameter(
        "model", reference("ModelName"), "Only of this model: a name, an alias, or one that was."
    )
    since = _parameter(
        "since", {"type": "number", "minimum": 0}, "Seconds since 1970: what happened then or later."
    )
    kind = _parameter("kind", {"type": "string"}, "Only events of this kind.")
    events = _operation("get_events", f"The newest events, or those after an id. {_STREAM}", "Events")
    events["responses"]["200"]["content"]["text/event-stream"] = {"schema": {"type": "string"}}
    seen = {
        "name": "Last-Event-ID",
        "in": "header",
        "schema": {"type": "string"},
        "description": "For a stream.",
    }
    paged = [*_page(200, EVENTS_MOST), model, kind, since, seen]
    requests = _operation("get_requests", "Single requests that have ended, a page at a time.", "RequestList")
    history = _operation(
        "get_history", "What became of each model; of the last 7 days by default.", "History"
    )
    timeline = _operation(
        "get_timeline", "How the memory was, and what was done; of the last hour by default.", "Timeline"
    )
    return {
        "/api/v1/timeline": {"get": timeline | {"parameters": [since]}},
        "/api/v1/stream": {"get": _stream() | {"parameters": [paged[0], seen]}},
        "/api/v1/events": {"get": events | {"parameters": paged}},
        "/api/v1/requests": {"get": requests | {"parameters": [*_page(1000, REQUESTS_MOST), model, since]}},
        "/api/v1/history": {"get": history | {"parameters": [model, since]}},
    }


def _stream() -> dict[str, Any]:
    """Return the live stream; its data are the documents of other paths."""
    found = _operation("get_stream", _LIVE, "Status")
    kind = {"enum": ["status", "plan", "event", "end"]}
    fields = {"event": kind, "data": {"type": "string", "description": "JSON."}, "id": {"type": "string"}}
    schema = {"type": "object", "properties": fields, "required": ["event", "data"]}
    found["responses"]["200"]["content"] = {"text/event-stream": {"schema": schema}}
    return found


def _page(default: int, most: int) -> list[dict[str, Any]]:
    limit = {"type": "integer", "minimum": 1, "maximum": most, "default": default}
    return [
        _parameter("after", {"type": "integer", "minimum": 0}, "The `last` of the page before."),
        _parameter("limit", limit, "As many at most."),
    ]


def _parameter(name: str, schema: dict[str, Any], text: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": schema, "description": text}


def _operation(name: str, text: str, schema: str) -> dict[str, Any]:
    good = {"description": "It.", "content": {"application/json": {"schema": reference(schema)}}}
    responses = {"200": good} | answers("Error", ANYWHERE)
    return {"tags": ["past"], "operationId": name, "description": text, "responses": responses}
