"""Reading the store of a stopped loop without leaving a trace in its directory."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reconciler.store.ledger import Store


@contextmanager
def peek(path: Path) -> Iterator[Store]:
    """Yield a Store on a throw-away copy of the file at `path` (empty if there is none).

    Even a read-only connection to a WAL database makes files beside it, so a copy, journal included, is
    opened instead. What is written to the copy is lost. Blocking. Raises OSError, NewerSchemaError or
    sqlite3.Error.
    """
    with tempfile.TemporaryDirectory(prefix="reconcile-") as folder:
        copy = Path(folder, path.name)
        for suffix in ("", "-wal"):
            source = path.with_name(path.name + suffix)
            if source.is_file():
                shutil.copyfile(source, copy.with_name(copy.name + suffix))
        with Store(copy) as store:
            yield store
