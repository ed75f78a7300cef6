"""Remembers what was read of a model's files for as long as the files stay as they are."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

from reconciler.memory.gguf import Unreadable, WeightsError

T = TypeVar("T")

_MOST: Final = 256
#: Files that belong to a model beside the one that is named.
_BELONG: Final = (".safetensors", ".json", ".gguf")

_Signature = tuple[tuple[str, tuple[int, ...]], ...]


class StatCache(Generic[T]):
    """Calls `read` for a path only when a file of that folder (or beside that file) has changed.

    A look costs one listing and a stat for each file of the model. What `read` raises as `WeightsError` is remembered
    as well, but not `Unreadable`: that may change while the files stay the same. May be used by several threads: at
    worst two of them read the same.
    """

    def __init__(self, read: Callable[[Path], T]) -> None:
        self._read = read
        self._known: dict[Path, tuple[_Signature, T | WeightsError]] = {}

    def get(self, path: Path) -> T:
        """Return what `read` makes of `path`. Blocks. Raises `WeightsError`, as `read` does, and `OSError`."""
        signature = _signature(path)
        known = self._known.get(path)
        if known is None or known[0] != signature:
            known = (signature, self._look(path))
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[path] = known
        if isinstance(known[1], WeightsError):
            raise WeightsError(*known[1].args)
        return known[1]

    def _look(self, path: Path) -> T | WeightsError:
        try:
            return self._read(path)
        except Unreadable:
            raise
        except WeightsError as error:
            return error


def _signature(path: Path) -> _Signature:
    folder, others = (path, "") if path.is_dir() else (path.parent, path.name)
    with os.scandir(folder) as entries:
        return tuple(
            sorted((e.name, _stat(e)) for e in entries if e.name == others or e.name.endswith(_BELONG))
        )


def _stat(entry: os.DirEntry[str]) -> tuple[int, ...]:
    try:
        status = entry.stat()
    except OSError as error:
        # A link to nothing, or closed: this too may change.
        return (error.errno or 0,)
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
