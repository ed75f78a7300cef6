"""What goes wrong with the store's file while the program runs."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class StoreError(Exception):
    """The file cannot be opened, read or written now. The text is for people; a later call may succeed."""


@contextmanager
def explained(path: Path, action: str) -> Iterator[None]:
    """Turn what the system or SQLite says of the file into a StoreError; `action` is `opened`, `read` or `written`.

    A value the tables refuse and a call after `close` are faults of the program, and stay what they are.
    """
    try:
        yield
    except (sqlite3.IntegrityError, sqlite3.ProgrammingError):
        raise
    except (sqlite3.Error, OSError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        raise StoreError(f"the ledger {path} cannot be {action}: {reason}") from error
