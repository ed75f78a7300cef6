"""The files of one state: which of them belong to it, and what is in them. They are looked for in an open folder.

All functions block and raise OSError.
"""

import hashlib
import os
import posixpath
import stat
from collections.abc import Iterator
from typing import Final

from reconciler.loop.states_folder import is_folder, remove
from reconciler.loop.states_record import KeptFile

_CHUNK: Final = 4 << 20
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class UnfitError(Exception):
    """What was written cannot be kept; the message is a sentence."""


def sift(folder: int, wanted: frozenset[str]) -> None:
    """Remove all files, links and folders but the wanted ones, and those in which they lie."""
    above = {parent for name in wanted for parent in _parents(name)}
    for root, folders, files, here in os.fwalk(".", dir_fd=folder, follow_symlinks=False):
        os.fchmod(here, 0o700)
        for name in (*folders, *files):
            path = posixpath.normpath(posixpath.join(root, name))
            if path not in wanted and not (path in above and is_folder(name, here)):
                remove(name, here)
        folders[:] = [name for name in folders if is_folder(name, here)]


def _parents(name: str) -> Iterator[str]:
    while name := posixpath.dirname(name):
        yield name


def look(folder: int, wanted: frozenset[str], *, ours: bool) -> tuple[KeptFile, ...]:
    """Return the wanted files as they are, sorted. Raises UnfitError for others, and for what is no file of its own."""
    found = []
    for root, _, files, here in os.fwalk(".", dir_fd=folder, follow_symlinks=False):
        for name in files:
            path = posixpath.normpath(posixpath.join(root, name))
            if path not in wanted:
                raise UnfitError(f"{path} does not belong to it")
            found.append(_read(name, here, path, ours=ours))
    return tuple(sorted(found, key=lambda file: file.name))


def _read(name: str, here: int, path: str, *, ours: bool) -> KeptFile:
    descriptor = os.open(name, _READ, dir_fd=here)
    digest, count = hashlib.blake2b(digest_size=16), 0
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise UnfitError(f"{path} is no regular file")
        if state.st_nlink != 1:
            raise UnfitError(f"{path} is a hard link to a file that has another name, too: write a copy")
        if ours:
            os.fchmod(descriptor, 0o600)
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            count += len(chunk)
    return KeptFile(path, count, digest.hexdigest(), state.st_mtime_ns)


def entries_of(folder: int) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the path of each file below a folder, and what the system says of it; none is opened."""
    for root, _, files, here in os.fwalk(".", dir_fd=folder, follow_symlinks=False):
        for name in files:
            path = posixpath.normpath(posixpath.join(root, name))
            yield path, os.stat(name, dir_fd=here, follow_symlinks=False)
