"""What a server wrote into the folder it was given for its state."""

import os
import posixpath
import stat
from pathlib import Path

from reconciler.engines.base import EngineError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def saved_files(folder: Path) -> tuple[str, ...]:
    """Return the names of the regular files below a folder, sorted. Blocks.

    A link is no file, and what lies behind one is not looked at. Raises EngineError if the folder itself is none any
    more.
    """
    try:
        above = os.open(folder, _FOLDER)
    except OSError as error:
        raise EngineError(f"the folder it was given is none any more ({error.strerror})") from error
    found = []
    try:
        for root, _, files, here in os.fwalk(".", dir_fd=above, follow_symlinks=False):
            regular = (name for name in files if _is_regular(name, here))
            found += [posixpath.normpath(posixpath.join(root, name)) for name in regular]
    finally:
        os.close(above)
    return tuple(sorted(found))


def _is_regular(name: str, folder: int) -> bool:
    return stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
