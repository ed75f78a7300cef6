"""Opening the SQLite file: private, journaled, migrated; a damaged one is moved aside, never deleted."""

import os
import sqlite3
from pathlib import Path
from typing import Final

from reconciler.store.schema import DamagedError, migrate

#: Seconds to wait for a lock another process holds for a moment.
BUSY_SECONDS: Final = 5.0
_DAMAGE: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


def open_database(path: Path, *, repair: bool = True) -> tuple[sqlite3.Connection, str | None]:
    """Return a connection to an up-to-date database at `path`, and a sentence if a damaged one went aside.

    The directory must exist. The file is 0600. Without `repair` a damaged one stays where it is, and DamagedError says
    what is wrong with it. Raises NewerSchemaError, OSError or sqlite3.Error. Blocking.
    """
    try:
        return _open(path), None
    except (DamagedError, sqlite3.DatabaseError) as error:
        if isinstance(error, sqlite3.DatabaseError) and error.sqlite_errorcode & 0xFF not in _DAMAGE:
            raise
        if not repair:
            raise DamagedError(str(error)) from error
        aside = _move_aside(path)
        return _open(
            path
        ), f"{path.name} was damaged ({error}); it is kept as {aside.name}, a new one was begun"


def _open(path: Path) -> sqlite3.Connection:
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    path.chmod(0o600)  # the journal files take over the mode of this one
    # One thread uses it at a time, but not always the same one: see AsyncStore.
    db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        migrate(db)
    except BaseException:
        db.close()
        raise
    return db


def place_aside(path: Path) -> Path:
    """Return where a damaged file at `path` is kept: the first name that is free."""
    number = 1
    while (aside := path.with_name(f"{path.name}.corrupt-{number}")).exists():
        number += 1
    return aside


def _move_aside(path: Path) -> Path:
    aside = place_aside(path)
    path.rename(aside)
    for suffix in ("-wal", "-shm"):
        journal = path.with_name(path.name + suffix)
        if journal.exists():
            journal.rename(aside.with_name(aside.name + suffix))
    return aside
