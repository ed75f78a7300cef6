"""Which directories must be watched so that no way of saving a manifest goes unseen.

A file is watched through its directory, because editors replace files. Every symbolic link on the way adds the
directory it lies in, because clusters swap links; a missing directory is awaited in the one above it.
"""

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

#: Links followed on one path before it counts as a loop.
LINK_LIMIT = 40


@dataclass(frozen=True, slots=True)
class WatchSet:
    """Directories and, for each, the names in it that matter (None = all).

    `identity` tells a directory that was deleted and made anew from the one that was watched.
    """

    names: tuple[tuple[str, frozenset[str] | None], ...] = ()
    identity: tuple[tuple[str, int, int], ...] = ()

    @property
    def directories(self) -> tuple[str, ...]:
        """The directories to watch, sorted."""
        return tuple(name for name, _ in self.names)

    def concerns(self, path: str) -> bool:
        """Tell whether a change of `path` may be a change of the manifest."""
        watched = dict(self.names)
        directory, name = os.path.split(path)
        wanted = watched.get(directory, frozenset())
        return path in watched or wanted is None or name in wanted


def watch_set(path: Path, files: Iterable[str]) -> WatchSet:
    """Return what to watch for the manifest at `path`, and for `files` (its own and others it reads). Blocks."""
    found: dict[str, set[str] | None] = {}
    root = os.path.abspath(path)
    for each in (root, *(os.path.abspath(file) for file in files)):
        _follow(each, found)
    if os.path.isdir(root):
        found[root] = None
        found[os.path.realpath(root)] = None
    names = tuple((d, None if n is None else frozenset(n)) for d, n in sorted(found.items()))
    identity = []
    for directory, _ in names:
        try:
            state = os.stat(directory)
            identity.append((directory, state.st_dev, state.st_ino))
        except OSError:
            identity.append((directory, 0, 0))
    return WatchSet(names, tuple(identity))


def _follow(path: str, found: dict[str, set[str] | None]) -> None:
    """Add the directory of `path`, of every link on the way to it, and of the first part that is missing."""
    parts = path.split(os.sep)[1:]
    at, links = os.sep, 0
    while parts:
        name = parts.pop(0)
        here = os.path.join(at, name)
        try:
            state = os.lstat(here)
        except OSError:
            _add(found, at, name)
            return
        if stat.S_ISLNK(state.st_mode) and links < LINK_LIMIT:
            links += 1
            _add(found, at, name)
            target = os.path.normpath(os.path.join(at, os.readlink(here)))
            parts = [*target.split(os.sep)[1:], *parts]
            at = os.sep
            continue
        if not parts:
            _add(found, at, name)
        at = here


def _add(found: dict[str, set[str] | None], directory: str, name: str) -> None:
    known = found.setdefault(directory, set())
    if known is not None:
        known.add(name)
