"""The SQLite store: launches (to recognise our processes), the ledger, events, the generation."""

import json
from dataclasses import asdict, astuple, dataclass, fields, replace
from pathlib import Path
from typing import Final

from reconciler.boot import boot_id as this_boot
from reconciler.core.crashes import FailureKind
from reconciler.core.memory import Said
from reconciler.core.types import LedgerEntry
from reconciler.store.records import LaunchRecord
from reconciler.store.runs import Runs

#: Events kept; older ones are dropped.
EVENT_LIMIT: Final = 20_000


@dataclass(frozen=True, slots=True)
class EventRecord:
    """One line of history. `id` only grows; `at` is wall-clock seconds."""

    id: int
    at: float
    kind: str
    model: str | None
    reason: str
    message: str


class Store(Runs):
    """The open store. Every method blocks, from any thread; what was written is in the file on return.

    All methods raise sqlite3.Error when the file cannot be read or written (a full disk, for example).
    """

    def __init__(
        self, path: Path, *, boot_id: str | None = None, event_limit: int = EVENT_LIMIT, repair: bool = True
    ) -> None:
        """Open or create the file at `path`, whose directory exists. A damaged one goes aside, or is refused.

        `boot_id` None = ask the system. Raises DamagedError (only without `repair`), NewerSchemaError, OSError
        or sqlite3.Error.
        """
        super().__init__(path, repair=repair)
        self._boot = this_boot() if boot_id is None else boot_id
        self._event_limit = event_limit

    def launches(self) -> tuple[LaunchRecord, ...]:
        """Return all launch records, oldest first."""
        with self._lock:
            rows = self._db.execute(
                "SELECT launch_id, model, digest, pid, started, port, boot_id, ready, created, admitted, asleep,"
                " weights, committed_at_ready, served, last_used, stage FROM launches ORDER BY created, launch_id"
            ).fetchall()
        records = (LaunchRecord(*row) for row in rows)
        return tuple(
            replace(record, ready=bool(record.ready), asleep=bool(record.asleep)) for record in records
        )  # SQLite has no booleans

    def put_launch(self, record: LaunchRecord) -> None:
        """Insert the record, or replace the one with its `launch_id`."""
        with self._write() as db:
            db.execute(
                "INSERT OR REPLACE INTO launches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                astuple(record),
            )

    def drop_launch(self, launch_id: str) -> None:
        """Forget a launch; an unknown id is fine."""
        with self._write() as db:
            db.execute("DELETE FROM launches WHERE launch_id = ?", (launch_id,))

    def entries(self) -> tuple[LedgerEntry, ...]:
        """Return the ledger by model and digest. Times of another boot are None: its clock is gone."""
        with self._lock:
            rows = self._db.execute(
                "SELECT model, digest, peak, failures, retry_at, last_error, load_seconds, build, said, weights,"
                " kind, raised, raised_until, retry_boot FROM ledger ORDER BY model, digest"
            ).fetchall()
        return tuple(self._entry(*row) for row in rows)

    def _entry(
        self,
        model: str,
        digest: str,
        peak: int,
        failures: int,
        retry_at: float | None,
        last_error: str,
        load_seconds: float | None,
        build: str,
        said: str | None,
        weights: str,
        kind: str | None,
        raised: int,
        raised_until: float | None,
        boot: str,
    ) -> LedgerEntry:
        known = boot != "" and boot == self._boot
        heard = Said(**json.loads(said)) if said is not None else None
        return LedgerEntry(
            model,
            digest,
            peak,
            failures,
            retry_at if known else None,
            last_error,
            load_seconds,
            build,
            heard,
            weights,
            FailureKind(kind) if kind in set(FailureKind) else None,
            raised,
            raised_until if known else None,
        )

    def put_entry(self, entry: LedgerEntry) -> None:
        """Insert the entry, or replace the one of its model and digest."""
        said = json.dumps(asdict(entry.said)) if entry.said is not None else None
        values = {**{f.name: getattr(entry, f.name) for f in fields(entry)}, "said": said, "boot": self._boot}
        with self._write() as db:
            db.execute(
                "INSERT OR REPLACE INTO ledger"
                " (model, digest, peak, failures, retry_at, last_error, load_seconds, build, said, weights, kind,"
                " raised, raised_until, retry_boot)"
                " VALUES (:model, :digest, :peak, :failures, :retry_at, :last_error, :load_seconds, :build, :said,"
                " :weights, :kind, :raised, :raised_until, :boot)",
                values,
            )

    def add_event(self, at_wall: float, kind: str, model: str | None, reason: str, message: str) -> int:
        """Append to the history and return the new id; the oldest beyond the limit are dropped."""
        with self._write() as db:
            cursor = db.execute(
                "INSERT INTO events (at, kind, model, reason, message) VALUES (?, ?, ?, ?, ?)",
                (at_wall, kind, model, reason, message),
            )
            number = int(cursor.lastrowid or 0)
            db.execute("DELETE FROM events WHERE id <= ?", (number - self._event_limit,))
        return number

    def events(self, after: int = 0, limit: int = 200) -> tuple[EventRecord, ...]:
        """Return up to `limit` events with an id above `after`, oldest first; the last id leads on."""
        with self._lock:
            rows = self._db.execute(
                "SELECT id, at, kind, model, reason, message FROM events WHERE id > ? ORDER BY id LIMIT ?",
                (after, limit),
            ).fetchall()
        return tuple(EventRecord(*row) for row in rows)

    def last_event(self) -> int:
        """Return the id of the newest event, 0 for none."""
        with self._lock:
            return int(self._db.execute("SELECT max(id) FROM events").fetchone()[0] or 0)

    def events_of(self, *kinds: str, since: float, reason: str | None = None) -> tuple[EventRecord, ...]:
        """Return the events of these kinds, of one reason or (None) of any, at `since` (wall) or later, by id."""
        marks = ", ".join("?" for _ in kinds)
        with self._lock:
            rows = self._db.execute(
                f"SELECT id, at, kind, model, reason, message FROM events WHERE kind IN ({marks})"  # noqa: S608
                " AND at >= ? AND (? IS NULL OR reason = ?) ORDER BY id",
                (*kinds, since, reason, reason),
            ).fetchall()
        return tuple(EventRecord(*row) for row in rows)

    def generation(self, digest: str) -> int:
        """Return the manifest's generation: one more whenever `digest` is not the last one seen."""
        with self._write() as db:
            row = db.execute("SELECT number, digest FROM generation").fetchone()
            if row is not None and row[1] == digest:
                return int(row[0])
            number = int(row[0]) + 1 if row is not None else 1
            db.execute("INSERT OR REPLACE INTO generation VALUES (1, ?, ?)", (number, digest))
        return number

    def set_generation(self, number: int, digest: str) -> None:
        """Put the manifest's generation into a file that was begun anew."""
        with self._write() as db:
            db.execute("INSERT OR REPLACE INTO generation VALUES (1, ?, ?)", (number, digest))
