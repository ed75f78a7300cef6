"""What was, from the running loop; without one from its ledger, of which nothing is changed."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlencode

from reconciler.cli.client import LoopClient, NotRunningError, RefusedError, running_url
from reconciler.cli.names import near
from reconciler.cli.output import CliError
from reconciler.render.paint import one_line

if TYPE_CHECKING:
    from reconciler.render.event_query import EventQuery
    from reconciler.store import RequestRecord, Store

#: Single requests asked for at a time.
REQUESTS_PAGE: Final = 5000


class Past(Protocol):
    """Who remembers. All methods raise CliError, also for a model of which nobody has heard."""

    def events(self, query: "EventQuery") -> dict[str, Any]:
        """Return a document of events."""
        ...

    def history(self, model: str | None, since: float, until: float) -> dict[str, Any]:
        """Return the history of all models, or of one."""
        ...

    def requests(self, model: str | None, since: float) -> Iterator[dict[str, Any]]:
        """Yield single requests in the order in which they ended."""
        ...


@contextmanager
def remembered(directory: Path) -> "Iterator[Past]":
    """Yield the loop of the state directory, or, if none runs, a copy of its ledger. Raises CliError."""
    url = running_url(directory)
    if url is not None and _answers(url):
        yield LoopPast(LoopClient(url))
        return
    from reconciler.store.paths import DATABASE

    with _ledger(directory) as store:
        yield LedgerPast(store, directory / DATABASE)


def _answers(url: str) -> bool:
    try:
        LoopClient(url).call("GET", "/healthz")
    except NotRunningError:
        return False
    except RefusedError:
        return True  # it may be stuck, and remembers all the same
    return True


@contextmanager
def _ledger(directory: Path) -> "Iterator[Store]":
    from reconciler.store import peek
    from reconciler.store.paths import DATABASE

    path = directory / DATABASE
    if not path.is_file():
        raise CliError(
            f"nothing is remembered in the state directory {directory}: no loop ever ran with it; start one with"
            " `reconcile`, or name another with --state-dir or RECONCILE_STATE_DIR"
        )
    with ExitStack() as stack:
        with _told(path):
            store = stack.enter_context(peek(path, whole=True))
        yield store


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Turn what goes wrong with a ledger into a CliError."""
    from reconciler.store import NewerSchemaError, StoreError
    from reconciler.store.errors import explained

    try:
        with explained(path, "read"):
            yield
    except (StoreError, NewerSchemaError) as error:
        raise CliError(str(error)) from error


class LoopPast:
    """Asks the running loop."""

    def __init__(self, loop: LoopClient) -> None:
        self._loop = loop

    def events(self, query: "EventQuery") -> dict[str, Any]:
        """See Past.events."""
        return self._get("events", events_query(query))

    def history(self, model: str | None, since: float, until: float) -> dict[str, Any]:
        """See Past.history; it ends now."""
        return self._get("history", {"model": model, "since": since})

    def requests(self, model: str | None, since: float) -> Iterator[dict[str, Any]]:
        """See Past.requests."""
        after, more = 0, True
        while more:
            asked = {"model": model, "since": since, "after": after, "limit": REQUESTS_PAGE}
            page = self._get("requests", asked)
            yield from page["requests"]
            after, more = page["last"], page["more"]

    def _get(self, what: str, values: dict[str, Any]) -> dict[str, Any]:
        return self._loop.call("GET", f"/api/v1/{what}?{urlencode(given(values))}")


class LedgerPast:
    """Reads a ledger. There names are those of models only: aliases are the manifest's."""

    def __init__(self, store: "Store", path: Path) -> None:
        self._store = store
        self._path = path

    def events(self, query: "EventQuery") -> dict[str, Any]:
        """See Past.events."""
        from reconciler.render.events_document import event_models, events
        from reconciler.render.plan_document import as_json

        with _told(self._path):
            document = as_json(events(self._store, query))
            if not document["events"]:
                _check_known(query.model, lambda: event_models(self._store))
        return document

    def history(self, model: str | None, since: float, until: float) -> dict[str, Any]:
        """See Past.history."""
        from reconciler.render.history_document import history_json
        from reconciler.render.history_records import read_records

        with _told(self._path):
            found = read_records(self._store, since, model)
            if not found:
                self._check(model)
        return history_json(found, since, until)

    def requests(self, model: str | None, since: float) -> Iterator[dict[str, Any]]:
        """See Past.requests."""
        from dataclasses import asdict

        rows = self._page(model, 0, since)
        if not rows:
            self._check(model)
        while rows:
            yield from map(asdict, rows)
            rows = self._page(model, rows[-1].id, since)

    def _page(self, model: str | None, after: int, since: float) -> "tuple[RequestRecord, ...]":
        with _told(self._path):
            return self._store.requests(model, REQUESTS_PAGE, after, since=since)

    def _check(self, model: str | None) -> None:
        from reconciler.render.history_records import known_models

        _check_known(model, lambda: known_models(self._store))


def events_query(query: "EventQuery") -> dict[str, Any]:
    """Return what is asked for as it stands behind the `?`."""
    return {
        "after": query.after,
        "limit": query.limit,
        "model": query.model,
        "kind": query.kind,
        "since": query.since,
    }


def given(values: dict[str, Any]) -> dict[str, Any]:
    """Return what is not None."""
    return {key: value for key, value in values.items() if value is not None}


def _check_known(model: str | None, names: Callable[[], Iterable[str]]) -> None:
    """Raise CliError for a model of which nothing is written, with the name that was probably meant."""
    if model is None:
        return
    known = sorted(set(names()))
    if model in known:
        return
    guess = near(model, known)
    meant = f'did you mean "{guess}"? ' if guess else ""
    there = f"({meant}remembered: {', '.join(map(one_line, known)) or 'nothing'}; no loop runs that knows aliases)"
    raise CliError(f'nothing is remembered of a model called "{one_line(model)}" {there}')
