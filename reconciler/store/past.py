"""What came of the use: loads, evictions, requests. Every table is bounded, its oldest rows are dropped."""

from collections.abc import Iterable
from dataclasses import fields
from operator import attrgetter
from typing import Any, Final, TypeVar

from reconciler.store.connection import Connection
from reconciler.store.records import ArrivalBucket, EvictionRecord, LoadRecord, RequestRecord

#: Rows kept, each.
LOAD_LIMIT: Final = 20_000
EVICTION_LIMIT: Final = 20_000
REQUEST_LIMIT: Final = 100_000
#: Seconds of buckets kept before the newest one, and buckets at most (20 models that are used all the time).
ARRIVAL_SECONDS: Final = 35 * 86_400
ARRIVAL_LIMIT: Final = 200_000

Row = TypeVar("Row", LoadRecord, EvictionRecord, RequestRecord)


class _Table:
    """The statements on the table of one kind of record. Its names come from this file and `records.py` only."""

    def __init__(self, name: str, kind: type[Any], limit: int) -> None:
        names = [f.name for f in fields(kind)]
        columns, given = ", ".join(names), ", ".join(names[1:])
        marks = ", ".join("?" for _ in names[1:])
        some = (
            f"SELECT {columns} FROM {name} WHERE id > :after AND at >= :since"  # noqa: S608
            " AND (:model IS NULL OR model = :model) ORDER BY id"
        )
        self.limit = limit
        #: The fields of a record that are written; `dataclasses.astuple` takes ten times as long.
        self.values = attrgetter(*names[1:])
        self.insert = f"INSERT INTO {name} ({given}) VALUES ({marks})"  # noqa: S608
        self.newest = f"SELECT max(id) FROM {name}"  # noqa: S608
        self.drop = f"DELETE FROM {name} WHERE id <= ?"  # noqa: S608
        self.first, self.last = f"{some} LIMIT :limit", f"{some} DESC LIMIT :limit"


_TABLES: Final[dict[type, _Table]] = {
    LoadRecord: _Table("loads", LoadRecord, LOAD_LIMIT),
    EvictionRecord: _Table("evictions", EvictionRecord, EVICTION_LIMIT),
    RequestRecord: _Table("requests", RequestRecord, REQUEST_LIMIT),
}


class Past(Connection):
    """The tables of what was. Reading: oldest first, with an id above `after`, of one model or (None) of all, and of
    what was at `since` (wall-clock seconds) or later; of more than `limit` the oldest, or with `newest` the newest.
    """

    #: Start of the newest bucket when old ones were dropped last.
    _newest_bucket: int | None = None

    def add_load(self, record: LoadRecord) -> int:
        """Append a load and return its id; the one in the record does not count."""
        return self._append([record])

    def loads(
        self,
        model: str | None = None,
        limit: int = 200,
        after: int = 0,
        *,
        since: float = 0.0,
        newest: bool = False,
    ) -> tuple[LoadRecord, ...]:
        """Return loads; see the class for which."""
        return self._select(LoadRecord, model, limit, after, since, newest)

    def add_eviction(self, record: EvictionRecord) -> int:
        """Append an eviction and return its id; the one in the record does not count."""
        return self._append([record])

    def wanted_again(self, eviction: int, seconds: float) -> None:
        """Note how many seconds after an eviction its model was wanted again; a dropped one is fine."""
        with self._write() as db:
            db.execute("UPDATE evictions SET wanted_after = ? WHERE id = ?", (seconds, eviction))

    def evictions(
        self,
        model: str | None = None,
        limit: int = 200,
        after: int = 0,
        *,
        since: float = 0.0,
        newest: bool = False,
    ) -> tuple[EvictionRecord, ...]:
        """Return evictions; see the class for which."""
        return self._select(EvictionRecord, model, limit, after, since, newest)

    def last_evictions(self) -> tuple[EvictionRecord, ...]:
        """Return the newest eviction of each model that was not called off, by id."""
        with self._lock:
            rows = self._db.execute(
                "SELECT id, at, model, reason, for_model, frees, used, pressure, seconds, resident, idle, wanted_after,"
                " outcome FROM evictions WHERE id IN"
                " (SELECT max(id) FROM evictions WHERE outcome != 'given-up' GROUP BY model) ORDER BY id"
            ).fetchall()
        return tuple(EvictionRecord(*row) for row in rows)

    def begun_last(self, reason: str) -> tuple[str, ...]:
        """Return the models of which the last that is told is an eviction that was begun for this reason, sorted.

        No end of it was written: whoever wrote this died in the middle of it.
        """
        with self._lock:
            rows = self._db.execute(
                "SELECT model FROM events WHERE kind = 'evict' AND reason = ? AND id IN (SELECT max(id) FROM events"
                " WHERE kind IN ('evict', 'evicted', 'asleep', 'given-up', 'load', 'loaded') GROUP BY model)"
                " ORDER BY model",
                (reason,),
            ).fetchall()
        return tuple(str(row[0]) for row in rows)

    def add_requests(self, batch: Iterable[RequestRecord]) -> int:
        """Append requests and return the id of the last, 0 for none; the ids in the records do not count."""
        return self._append(list(batch))

    def requests(
        self,
        model: str | None = None,
        limit: int = 200,
        after: int = 0,
        *,
        since: float = 0.0,
        newest: bool = False,
    ) -> tuple[RequestRecord, ...]:
        """Return requests in the order in which they ended; see the class for which."""
        return self._select(RequestRecord, model, limit, after, since, newest)

    def bump_arrivals(self, batch: Iterable[ArrivalBucket]) -> None:
        """Add the figures of each bucket to what is written of it."""
        rows = [(b.start, b.model, b.requests, b.cold, b.waited) for b in batch]
        if not rows:
            return
        with self._write() as db:
            db.executemany(
                "INSERT INTO arrivals VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
                " requests = requests + excluded.requests, cold = cold + excluded.cold,"
                " waited = waited + excluded.waited",
                rows,
            )
            newest = max(rows)[0]
            if newest != self._newest_bucket:  # counting them takes a while
                self._drop_old_arrivals(newest)
                self._newest_bucket = newest

    def arrivals(self, since: float = 0.0) -> tuple[ArrivalBucket, ...]:
        """Return the buckets that begin at `since` (wall-clock seconds) or later, by start, then model."""
        with self._lock:
            rows = self._db.execute(
                "SELECT model, start, requests, cold, waited FROM arrivals WHERE start >= ? ORDER BY start, model",
                (since,),
            ).fetchall()
        return tuple(ArrivalBucket(*row) for row in rows)

    def _drop_old_arrivals(self, newest: int) -> None:
        self._db.execute("DELETE FROM arrivals WHERE start < ?", (newest - ARRIVAL_SECONDS,))
        self._db.execute(
            "DELETE FROM arrivals WHERE start <= (SELECT start FROM arrivals ORDER BY start DESC LIMIT 1 OFFSET ?)",
            (ARRIVAL_LIMIT,),
        )

    def _append(self, rows: list[Row]) -> int:
        if not rows:
            return 0
        table = _TABLES[type(rows[0])]
        with self._write() as db:
            db.executemany(table.insert, map(table.values, rows))
            number = int(db.execute(table.newest).fetchone()[0])
            db.execute(table.drop, (number - table.limit,))
        return number

    def _select(
        self, kind: type[Row], model: str | None, limit: int, after: int, since: float, newest: bool
    ) -> tuple[Row, ...]:
        table = _TABLES[kind]
        values = {"model": model, "limit": limit, "after": after, "since": since}
        with self._lock:
            rows = self._db.execute(table.last if newest else table.first, values).fetchall()
        return tuple(kind(*row) for row in (reversed(rows) if newest else rows))
