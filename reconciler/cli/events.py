"""`reconcile events`: what happened, and what happens."""

import json as json_module
import sys
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from reconciler.cli import options
from reconciler.cli.completing import models
from reconciler.cli.output import UsageError, colour, note, say, say_json

if TYPE_CHECKING:
    from reconciler.cli.past import Past
    from reconciler.render.event_query import EventQuery

#: Events of one answer of the loop; more are asked for by pages.
PAGE: Final = 1000
#: As many are kept.
MOST: Final = 20_000


def events(
    *,
    model: Annotated[
        str | None,
        Parameter(
            completer=models, name=["--model", "-m"], metavar="MODEL", help="Only those of this model."
        ),
    ] = None,
    kind: Annotated[
        str | None,
        Parameter(name="--kind", metavar="KIND", help="Only those of this kind, like loaded or evict."),
    ] = None,
    follow: Annotated[
        bool, Parameter(name=["--follow", "-f"], negative=(), show_default=False, help="Go on as they come.")
    ] = False,
    since: options.Since = None,
    limit: Annotated[int, Parameter(name=["--limit", "-n"], metavar="N", help="The newest N, at most.")] = 50,
    json: Annotated[
        bool,
        Parameter(
            name="--json",
            negative=(),
            show_default=False,
            help="Print JSON; with --follow one object a line.",
        ),
    ] = False,
    state_dir: options.StateDir = None,
) -> int:
    """Show what the loop did, and why, oldest first, in local time.

    Loads, evictions, failures, manifests that came into force. Works without a running loop too, from its ledger;
    --follow needs one.
    """
    from reconciler.cli.since import since_time
    from reconciler.render.event_query import EventQuery
    from reconciler.store.paths import state_dir as resolve

    most = PAGE if follow else MOST
    if not 1 <= limit <= most:
        raise UsageError(f"--limit must be from 1 to {most}{' with --follow' if follow else ''}, not {limit}")
    begin = since_time(since, 0.0) if since is not None else 0.0
    query = EventQuery(limit=limit, model=model, kind=kind, since=begin)
    directory = resolve(state_dir, create=False)
    if follow:
        return _follow(directory, query, json=json)
    return _show(directory, query, json=json)


def _show(directory: Path, query: "EventQuery", *, json: bool) -> int:
    from reconciler.cli.past import remembered
    from reconciler.render.events_text import EventLines
    from reconciler.render.paint import painter

    with remembered(directory) as past:
        document = _newest(past, query)
        if json:
            say_json(document)
            return 0
        for line in EventLines(painter(colour())).lines(document["events"]):
            say(line)
        if not document["events"]:
            note(_nothing(past, query))
    return 0


def _newest(past: "Past", query: "EventQuery") -> dict[str, Any]:
    """Return the newest events; more than a page of them are found by going through all."""
    from dataclasses import replace

    if query.limit <= PAGE:
        return past.events(query)
    found: deque[Any] = deque(maxlen=query.limit)
    page: dict[str, Any] = {"last": 0, "more": True}
    while page["more"]:
        page = past.events(replace(query, after=page["last"], limit=PAGE))
        found.extend(page["events"])
    return page | {"events": list(found)}


def _nothing(past: "Past", query: "EventQuery") -> str:
    """Return why there is nothing to be seen, and what there is."""
    from reconciler.render.event_query import EventQuery

    everything = _newest(past, EventQuery(limit=MOST))["events"]
    if not everything:
        return "nothing has happened yet: the loop writes down what it does from its first turn on"
    kinds = sorted({event["kind"] for event in everything})
    if query.kind is not None and query.kind not in kinds:
        from reconciler.cli.names import near

        guess = near(query.kind, kinds)
        meant = f'; did you mean "{guess}"?' if guess else ""
        return f'no event is of the kind "{query.kind}"{meant} (there are: {", ".join(kinds)})'
    return (
        f"none of the {len(everything)} events that are kept is meant: ask for less, or since an earlier time"
    )


def _follow(directory: Path, query: "EventQuery", *, json: bool) -> int:
    from reconciler.cli.event_feed import follow
    from reconciler.render.events_text import EventLines
    from reconciler.render.paint import painter

    lines = EventLines(painter(colour()))
    for event in follow(directory, query):
        if json:
            say(json_module.dumps(event, ensure_ascii=False))
        else:
            say(lines.lines([event])[0])
        sys.stdout.flush()
    note("the loop has ended")
    return 0
