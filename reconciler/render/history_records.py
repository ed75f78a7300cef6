"""What a history is made of, as the ledger has it. Reading blocks."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from reconciler.store.records import BUCKET_SECONDS, ArrivalBucket, EvictionRecord, LoadRecord, RequestRecord

if TYPE_CHECKING:  # a verb that only shows what the loop says opens no database
    from reconciler.store import Store

#: Rows that are read: all there may be of loads and evictions, the newest of the single requests.
MOST_ACTIONS: Final = 20_000
MOST_REQUESTS: Final = 10_000

Row = TypeVar("Row", LoadRecord, EvictionRecord, ArrivalBucket, RequestRecord)


@dataclass(frozen=True, slots=True)
class Records:
    """What is kept of one model, oldest first."""

    loads: tuple[LoadRecord, ...] = ()
    evictions: tuple[EvictionRecord, ...] = ()
    arrivals: tuple[ArrivalBucket, ...] = ()
    requests: tuple[RequestRecord, ...] = ()


def read_records(store: "Store", since: float, model: str | None = None) -> dict[str, Records]:
    """Return what happened at `since` (wall-clock seconds) or later, by model, sorted; of one model if it is given.

    Arrivals are kept by five minutes: those in which `since` lies are there as a whole.
    """
    first = since - since % BUCKET_SECONDS
    loads = _by_model(store.loads(model, MOST_ACTIONS, since=since, newest=True))
    evictions = _by_model(store.evictions(model, MOST_ACTIONS, since=since, newest=True))
    arrivals = _by_model(tuple(b for b in store.arrivals(first) if model in (None, b.model)))
    requests = _by_model(store.requests(model, MOST_REQUESTS, since=since, newest=True))
    return {
        name: Records(
            tuple(loads.get(name, ())),
            tuple(evictions.get(name, ())),
            tuple(arrivals.get(name, ())),
            tuple(requests.get(name, ())),
        )
        for name in sorted({*loads, *evictions, *arrivals, *requests})
    }


def _by_model(rows: tuple[Row, ...]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.model, []).append(row)
    return found


def known_models(store: "Store") -> tuple[str, ...]:
    """Return the models of which anything is kept, sorted."""
    found = {r.model for r in store.loads(None, MOST_ACTIONS)} | {b.model for b in store.arrivals()}
    return tuple(sorted(found | {r.model for r in store.requests(None, MOST_REQUESTS, newest=True)}))
