"""Walking through folders within bounds: nobody's home folder may keep us busy for minutes."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reconciler.initial.found import LeftOut
from reconciler.manifest.files import explain_os_error

#: Folders of programs and of version control: what lies in them was not put there as a model.
_SKIPPED: Final = frozenset(
    {".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", "site-packages", ".Trash"}
)

#: What the kernel shows of itself; a link to `/` leads there, and on to every process's own `/`.
_KERNELS: Final = ("/proc", "/sys", "/dev")


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far a search goes."""

    #: Folders below a place that is searched. The Hub's cache has its files in the third.
    depth: int = 8
    #: Names looked at in all.
    entries: int = 200_000
    #: In all, reading headers included.
    seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class Folder:
    """One folder and the names of the files in it, sorted; links count as what they lead to."""

    path: Path
    files: tuple[str, ...]


class Walk:
    """Walks through several places, each folder once, however many links lead to it."""

    def __init__(self, bounds: Bounds, clock: Callable[[], float]) -> None:
        self._bounds = bounds
        self._clock = clock
        self._end = clock() + bounds.seconds
        self._seen: set[tuple[int, int]] = set()
        self._kernels = frozenset(_devices(_KERNELS))
        #: Names looked at so far.
        self.entries = 0
        #: Why it ended before everything was seen; "" = it did not.
        self.stopped = ""
        #: Places whose folders were not all entered: too deep.
        self.deep: list[Path] = []
        self.unreadable: list[LeftOut] = []

    def through(self, places: Iterable[Path]) -> Iterator[Folder]:
        """Yield all folders at and below `places`, breadth first, names sorted. A file stands for itself. Blocks."""
        for place in places:
            if place.is_file():
                yield Folder(place.parent, (place.name,))
                continue
            waiting = deque([(place, 0)])
            while waiting and not self._over():
                path, depth = waiting.popleft()
                folder, below = self._look(path)
                if folder.files:
                    yield folder
                if depth < self._bounds.depth:
                    waiting.extend((child, depth + 1) for child in below)
                elif below:
                    self.deep.append(path)

    def _over(self) -> bool:
        if self.entries >= self._bounds.entries:
            self.stopped = f"after {self.entries} names"
        elif self._clock() > self._end:
            self.stopped = f"after {self._bounds.seconds:g} s"
        return bool(self.stopped)

    def _look(self, path: Path) -> tuple[Folder, list[Path]]:
        """Return the files of a folder, and the folders in it; nothing of one that was seen before."""
        files: list[str] = []
        below: list[Path] = []
        try:
            own = path.stat()
            if (own.st_dev, own.st_ino) in self._seen or own.st_dev in self._kernels:
                return Folder(path, ()), []
            self._seen.add((own.st_dev, own.st_ino))
            with os.scandir(path) as entries:
                for entry in entries:
                    self.entries += 1
                    if _is_folder(entry):
                        below += [path / entry.name] if entry.name not in _SKIPPED else []
                    else:
                        files.append(entry.name)
                    if self.entries >= self._bounds.entries:
                        break
        except OSError as error:
            self.unreadable.append(LeftOut(path, f"cannot be looked into: {explain_os_error(error)}"))
        return Folder(path, tuple(sorted(files))), sorted(below)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Say whether it is a folder, or a link to one; one that leads nowhere or to itself is a file to be named."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _devices(mounts: Iterable[str]) -> Iterator[int]:
    """Yield the devices of those of `mounts` that are file systems of their own."""
    root = os.stat("/").st_dev
    for mount in mounts:
        with suppress(OSError):
            if (device := os.stat(mount).st_dev) != root:
                yield device
