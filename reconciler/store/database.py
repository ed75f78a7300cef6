"""Opening the SQLite file: private, journaled, migrated; a damaged one is moved aside, never deleted."""

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Final

from reconciler.store.schema import DamagedError, migrate

#: Seconds to wait for a lock another process holds for a moment.
BUSY_SECONDS: Final = 5.0
#: The same once it is open: a turn of the loop waits for it, and what cannot be written is kept.
SHORT_BUSY_SECONDS: Final = 1.0
#: KiB of pages that SQLite itself keeps. With its usual 2,000 the process grows by as much over its first 100,000
#: requests, and nothing is faster: writes go to the end of a table, and reads find the file in the system's own cache.
CACHE_KIB: Final = 256
_DAMAGE: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


def open_database(path: Path, *, repair: bool = True) -> tuple[sqlite3.Connection, str | None]:
    """Return a connection to an up-to-date database at `path`, and a sentence if a damaged one went aside.

    The directory must exist. The file is 0600. Without `repair` a damaged one stays where it is, and DamagedError says
    what is wrong with it. Raises NewerSchemaError, OSError or sqlite3.Error. Blocking.
    """
    try:
        return _open(path), None
    except (DamagedError, sqlite3.DatabaseError) as error:
        if not is_damage(error):
            raise
        if not repair:
            raise DamagedError(str(error)) from error
        aside = move_aside(path)
        return _open(
            path
        ), f"{path.name} was damaged ({error}); it is kept as {aside.name}, a new one was begun"


def is_damage(error: Exception) -> bool:
    """Return whether an error says that the file itself is broken, and not that it cannot be used now."""
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE
    return isinstance(error, DamagedError)


def damage_of(path: Path) -> str:
    """Return what is wrong with the file as it lies on the disk, or "". Blocking; a fraction of a second.

    An open connection reads much from memory, and may go on for days with a file that is ruined.
    """
    try:
        db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=SHORT_BUSY_SECONDS)
        try:
            problems = [str(row[0]) for row in db.execute("PRAGMA quick_check(1)")]
        finally:
            db.close()
    except sqlite3.Error as error:
        return str(error) if is_damage(error) else ""
    return "" if problems == ["ok"] else problems[0]


def rescue(db: sqlite3.Connection, path: Path) -> Path | None:
    """Copy all that an open connection reads into a file beside `path`; None = that is not possible. Blocking."""
    draft = path.with_name(f"{path.name}.rescued")
    try:
        draft.unlink(missing_ok=True)
        os.close(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        copy = sqlite3.connect(draft)
        try:
            db.backup(copy)
        finally:
            copy.close()
    except (sqlite3.Error, OSError):
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        return None
    return draft


def _open(path: Path) -> sqlite3.Connection:
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    path.chmod(0o600)  # the journal files take over the mode of this one
    # One thread uses it at a time, but not always the same one: see AsyncStore.
    db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        migrate(db)
        db.execute(f"PRAGMA busy_timeout = {SHORT_BUSY_SECONDS * 1000:.0f}")
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


def move_aside(path: Path) -> Path:
    """Rename a file and its journal, as far as they are there, and return the new name. Blocking. Raises OSError."""
    aside = place_aside(path)
    for suffix in ("", "-wal", "-shm"):
        part = path.with_name(path.name + suffix)
        if part.exists():
            part.rename(aside.with_name(aside.name + suffix))
    return aside
