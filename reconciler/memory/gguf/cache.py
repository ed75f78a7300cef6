"""Remembers what was made of files, as long as they are the same: looking again costs only asking for their times."""

from collections import OrderedDict
from dataclasses import dataclass
from os import stat_result
from pathlib import Path
from threading import Lock
from typing import Final, Generic, TypeVar

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Stamp:
    """A file as it was when it was looked at. One that was written since has another stamp."""

    path: Path
    device: int
    inode: int
    size: int
    modified_ns: int
    #: Also changes when a file was overwritten and then given its old time of writing.
    changed_ns: int

    @classmethod
    def of(cls, path: Path, found: stat_result) -> "Stamp":
        """Return the stamp of `path`, for which the system says `found`."""
        return cls(path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


class Remembered(Generic[_T]):
    """Results by key, the most recently used ones, of bounded weight together. Safe to use from several threads."""

    def __init__(self, most: int, heaviest: int) -> None:
        """Keep at most `most` results, which weigh at most `heaviest` together."""
        self._most: Final = most
        self._heaviest: Final = heaviest
        self._lock = Lock()
        self._results: OrderedDict[tuple[Stamp, ...], tuple[int, _T]] = OrderedDict()
        self._weight = 0

    def get(self, key: tuple[Stamp, ...]) -> _T | None:
        """Return what is kept for `key`."""
        with self._lock:
            found = self._results.get(key)
            if found is None:
                return None
            self._results.move_to_end(key)
            return found[1]

    def put(self, key: tuple[Stamp, ...], result: _T, weight: int) -> None:
        """Keep `result`; the least recently used ones give way to it."""
        with self._lock:
            before = self._results.pop(key, None)
            self._weight += weight - (before[0] if before else 0)
            self._results[key] = (weight, result)
            while self._results and (len(self._results) > self._most or self._weight > self._heaviest):
                _, (lighter, _) = self._results.popitem(last=False)
                self._weight -= lighter
