"""Folders that somebody else writes into, too: no link is followed, and nothing outside of them is touched.

A name is looked up in a folder that is open already, never as a path: whoever replaces a part of a path by a link to
files of the user's would have them changed or removed. All functions block and raise OSError.
"""

import errno
import os
import shutil
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def opened(name: str | Path, above: int | None = None) -> Iterator[int]:
    """Yield the descriptor of a folder; a link to one is none."""
    descriptor = os.open(name, _OPEN, dir_fd=above)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def is_folder(name: str, above: int) -> bool:
    """Return whether there is a folder of this name; a link to one is none."""
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def make(name: str, above: int) -> None:
    """Let there be a folder of this name; a link or a file that bears it is removed."""
    if not is_folder(name, above):
        remove(name, above)
        os.mkdir(name, 0o700, dir_fd=above)


def remove(name: str, above: int) -> None:
    """Remove a file, a link (not what it leads to) or a folder with all that is in it, if it is there."""
    try:
        if is_folder(name, above):
            shutil.rmtree(name, dir_fd=above)
        else:
            os.unlink(name, dir_fd=above)
    except FileNotFoundError:
        return
    except RecursionError as error:
        raise OSError(errno.ENAMETOOLONG, "its folders are nested too deep to be removed", name) from error


def clear(folder: int, keep: Collection[str] = ()) -> None:
    """Remove all that is in a folder but what bears one of these names."""
    for name in sorted(os.listdir(folder)):
        if name not in keep:
            remove(name, folder)


def measure(folder: int) -> tuple[int, int]:
    """Return the bytes of all files below a folder, and how many entries there are. Others may write meanwhile."""
    found = entries = 0
    try:
        for _, folders, files, here in os.fwalk(".", dir_fd=folder, follow_symlinks=False):
            entries += len(folders) + len(files)
            for name in files:
                with suppress(FileNotFoundError):
                    found += os.stat(name, dir_fd=here, follow_symlinks=False).st_size
    except RecursionError as error:
        raise OSError(errno.ENAMETOOLONG, "its folders are nested too deep", ".") from error
    return found, entries
