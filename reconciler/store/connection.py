"""The open database: one connection, one call at a time, and writes that happen whole or not at all."""

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self

from reconciler.store.database import damage_of, move_aside, open_database, rescue

#: Bytes of the smallest file that is a database.
_SMALLEST: Final = 512


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
        self._file = _file(path.stat())
        self._looked: int | None = None
        #: It was closed to be begun anew, and that has not succeeded yet: nothing can be read.
        self.gone = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Fold the journal into the file and close it; closing twice is fine."""
        with self._lock:
            self._db.close()

    def astray(self) -> str:
        """Return why what is open is not the file at its place any more, or "": one small look, before each write."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return "was removed while it was in use"
        except OSError:
            return ""  # whether it is there cannot be told: the write itself will say what is wrong
        if self.gone:
            return "could not be begun anew"
        if _file(found) != self._file:
            return "was replaced by another file while it was in use"
        return "was emptied while it was in use" if found.st_size < _SMALLEST else ""

    def damage(self) -> str:
        """Return what is wrong with the file on the disk, or "". It is read only if it changed since the last time."""
        try:
            changed = self.path.stat().st_mtime_ns
        except OSError:
            return ""
        if changed == self._looked:
            return ""
        self._looked = changed
        return damage_of(self.path)

    def renew(self, why: str, *, save: bool) -> str:
        """Put the file aside, if there is one, begin a new one, and return a sentence on that.

        `save`: what is open is whole, so all of it comes into the new file; else that is empty. Raises OSError or
        sqlite3.Error; the next call tries anew.
        """
        with self._lock:
            saved = rescue(self._db, self.path) if save and not self.gone else None
            self.gone = True
            self._db.close()
            there = any(self.path.with_name(self.path.name + s).exists() for s in ("", "-wal", "-shm"))
            aside = move_aside(self.path) if there else None
            if saved is not None:
                saved.rename(self.path)
            self._db, _ = open_database(self.path)
            self._file, self._looked, self.gone = _file(self.path.stat()), None, False
        kept = f"; it is kept as {aside.name}" if aside is not None and aside.exists() else ""
        begun = (
            "all of it was written anew" if saved else "a new one was begun with what is known of the models"
        )
        return f"{self.path.name} {why}{kept}; {begun}"

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


def _file(found: os.stat_result) -> tuple[int, int]:
    """Return what tells a file from all others."""
    return found.st_dev, found.st_ino
