"""The open database: one connection, one call at a time, and writes that happen whole or not at all."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from reconciler.store.database import open_database


class Connection:
    """The open file. Every method blocks, from any thread; what was written is in the file on return."""

    def __init__(self, path: Path, *, repair: bool = True) -> None:
        """Open or create the file at `path`, whose directory exists. Without `repair` a damaged one is refused.

        Raises DamagedError, NewerSchemaError, OSError or sqlite3.Error.
        """
        self.path = path
        self._lock = threading.Lock()
        self._db, opened = open_database(path, repair=repair)
        #: A sentence when a damaged file was moved aside, else None.
        self.recovered: str | None = opened

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Fold the journal into the file and close it; closing twice is fine."""
        with self._lock:
            self._db.close()

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if self._db.in_transaction:  # a disk that was full may have refused even to take it back
                self._db.execute("ROLLBACK")
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:  # SQLite takes back by itself what a full disk refused
                    with suppress(sqlite3.Error):  # the next write tries it again
                        self._db.execute("ROLLBACK")
                raise
