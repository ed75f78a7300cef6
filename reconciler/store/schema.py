"""The tables, and the way from each version of them to the next."""

import sqlite3
from typing import Final

#: Script `n` leads from version `n` to `n + 1` (`PRAGMA user_version`). Released ones are never edited.
MIGRATIONS: Final = (
    """
    CREATE TABLE launches (
        launch_id TEXT PRIMARY KEY, model TEXT NOT NULL, digest TEXT NOT NULL, pid INTEGER, started INTEGER,
        port INTEGER NOT NULL, boot_id TEXT NOT NULL, ready INTEGER NOT NULL, created REAL NOT NULL,
        admitted INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE ledger (
        model TEXT NOT NULL, digest TEXT NOT NULL, peak INTEGER NOT NULL, failures INTEGER NOT NULL,
        retry_at REAL, retry_boot TEXT NOT NULL, last_error TEXT NOT NULL, load_seconds REAL,
        PRIMARY KEY (model, digest)
    ) STRICT;
    CREATE TABLE events (
        id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, kind TEXT NOT NULL, model TEXT,
        reason TEXT NOT NULL, message TEXT NOT NULL
    ) STRICT;
    CREATE TABLE generation (
        one INTEGER PRIMARY KEY CHECK (one = 1), number INTEGER NOT NULL, digest TEXT NOT NULL
    ) STRICT;
    """,
    # What a peak was measured with, and what the engine's log said then (JSON).
    """
    ALTER TABLE ledger ADD COLUMN build TEXT NOT NULL DEFAULT '';
    ALTER TABLE ledger ADD COLUMN said TEXT;
    """,
    # Processes that sleep, and the weights a process was started with and a peak was measured with.
    """
    ALTER TABLE launches ADD COLUMN asleep INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE launches ADD COLUMN weights TEXT NOT NULL DEFAULT '';
    ALTER TABLE launches ADD COLUMN committed_at_ready INTEGER;
    ALTER TABLE ledger ADD COLUMN weights TEXT NOT NULL DEFAULT '';
    """,
    # Requests a process has served in all.
    """
    ALTER TABLE launches ADD COLUMN served INTEGER NOT NULL DEFAULT 0;
    """,
    # What came of the use: loads, evictions, requests one by one and in buckets.
    """
    CREATE TABLE loads (
        id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, model TEXT NOT NULL, digest TEXT NOT NULL,
        reason TEXT NOT NULL, seconds REAL NOT NULL, peak INTEGER, outcome TEXT NOT NULL, waiting INTEGER NOT NULL,
        kind TEXT NOT NULL, error TEXT NOT NULL
    ) STRICT;
    CREATE TABLE evictions (
        id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, model TEXT NOT NULL, reason TEXT NOT NULL,
        for_model TEXT NOT NULL, frees INTEGER NOT NULL, used REAL, pressure TEXT NOT NULL, seconds REAL NOT NULL,
        resident REAL NOT NULL, idle REAL NOT NULL, wanted_after REAL, outcome TEXT NOT NULL
    ) STRICT;
    CREATE TABLE requests (
        id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, model TEXT NOT NULL, client TEXT NOT NULL,
        waited REAL NOT NULL, cold REAL NOT NULL, seconds REAL NOT NULL, prompt_tokens INTEGER,
        output_tokens INTEGER, outcome TEXT NOT NULL
    ) STRICT;
    CREATE TABLE arrivals (
        start INTEGER NOT NULL, model TEXT NOT NULL, requests INTEGER NOT NULL, cold INTEGER NOT NULL,
        waited REAL NOT NULL, PRIMARY KEY (start, model)
    ) STRICT, WITHOUT ROWID;
    """,
    # When a process was used last, and what was being done with it.
    """
    ALTER TABLE launches ADD COLUMN last_used REAL;
    ALTER TABLE launches ADD COLUMN stage TEXT NOT NULL DEFAULT '';
    """,
    # Why launches failed, what is charged for want of memory, and how runs of the manager ended.
    """
    ALTER TABLE ledger ADD COLUMN kind TEXT;
    ALTER TABLE ledger ADD COLUMN raised INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE ledger ADD COLUMN raised_until REAL;
    ALTER TABLE loads ADD COLUMN failure TEXT NOT NULL DEFAULT '';
    CREATE TABLE runs (
        id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, boot_id TEXT NOT NULL, risk TEXT NOT NULL,
        ended INTEGER NOT NULL, left_safe_mode INTEGER NOT NULL
    ) STRICT;
    """,
)

TABLES: Final = frozenset(
    {"launches", "ledger", "events", "generation", "loads", "evictions", "requests", "arrivals", "runs"}
)


class NewerSchemaError(Exception):
    """The database was written by a newer version of this program; reading it as ours would lose data."""


class DamagedError(Exception):
    """The file is not a database of ours, or not a whole one."""


def migrate(db: sqlite3.Connection) -> None:
    """Bring the open database to the newest version, all or nothing.

    Raises NewerSchemaError, DamagedError, or sqlite3.Error when the file cannot be read or written now.
    """
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if version > len(MIGRATIONS):
        raise NewerSchemaError(
            f"schema version {version} is newer than {len(MIGRATIONS)}, the newest known here"
        )
    if version < len(MIGRATIONS):
        script = "".join(MIGRATIONS[version:])
        try:
            db.executescript(f"BEGIN IMMEDIATE; {script} PRAGMA user_version = {len(MIGRATIONS)}; COMMIT;")
        except sqlite3.OperationalError as error:
            if db.in_transaction:
                db.execute("ROLLBACK")
            # Our tables are there, but not as their version says.
            if error.sqlite_errorcode == sqlite3.SQLITE_ERROR:
                raise DamagedError(str(error)) from error
            raise
    found = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if missing := TABLES - found:
        raise DamagedError(f"tables are missing: {', '.join(sorted(missing))}")
    problems = [row[0] for row in db.execute("PRAGMA quick_check(1)")]
    if problems != ["ok"]:
        raise DamagedError(str(problems[0]))
