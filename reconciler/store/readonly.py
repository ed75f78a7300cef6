"""Reading the store of a stopped loop without leaving a trace in its directory."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reconciler.store.database import place_aside
from reconciler.store.errors import StoreError
from reconciler.store.ledger import Store
from reconciler.store.schema import DamagedError


@contextmanager
def peek(path: Path, *, whole: bool = False) -> Iterator[Store]:
    """Yield a Store on a throw-away copy of the file at `path` (empty if there is none).

    Even a read-only connection to a WAL database makes files beside it, so a copy, journal included, is
    opened instead. What is written to the copy is lost. A damaged file is as good as none, as it is to the next loop,
    which puts it aside; whoever shows what is in it asks for a `whole` one. Blocking. Raises StoreError where that is
    damaged, OSError, NewerSchemaError or sqlite3.Error.
    """
    with tempfile.TemporaryDirectory(prefix="reconcile-") as folder:
        copy = Path(folder, path.name)
        for suffix in ("", "-wal"):
            source = path.with_name(path.name + suffix)
            if source.is_file():
                shutil.copyfile(source, copy.with_name(copy.name + suffix))
        try:
            store = Store(copy, repair=not whole)
        except DamagedError as error:
            raise StoreError(
                f"the ledger {path} is damaged ({error}), and nothing in it can be read; at its next start"
                f" `reconcile` will keep it as {place_aside(path).name} and begin a new one"
            ) from error
        with store:
            yield store
