"""Opening files that people name, or a download left behind: regular ones only, and never more than so many bytes.

Opening a FIFO waits for a writer, a device has no end, and opening one may do something.
"""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

_KINDS: Final = (
    (stat.S_ISDIR, errno.EISDIR, "directory"),
    (stat.S_ISFIFO, errno.EINVAL, "FIFO"),
    (stat.S_ISSOCK, errno.EINVAL, "socket"),
    (stat.S_ISCHR, errno.EINVAL, "device"),
    (stat.S_ISBLK, errno.EINVAL, "device"),
)
#: Bytes read at once.
_CHUNK: Final = 1 << 20


def open_regular(path: Path) -> BinaryIO:
    """Return a regular file, opened for reading without a buffer. Raises OSError, for anything else too.

    The kind is asked for first, and once more of what was opened: it may have been replaced in between.
    """
    _check_kind(path, os.stat(path))
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    file = os.fdopen(descriptor, "rb", buffering=0)
    try:
        _check_kind(path, os.fstat(descriptor))
    except OSError:
        file.close()
        raise
    return file


def read_regular(path: Path, most: int) -> bytes:
    """Return the first bytes of a regular file, at most `most` of them. Raises OSError, for anything else too."""
    parts = []
    with open_regular(path) as file:
        # None where the kernel has nothing yet (a few files of /proc).
        while most > 0 and (part := file.read(min(most, _CHUNK))):
            parts.append(part)
            most -= len(part)
    return b"".join(parts)


def _check_kind(path: Path, state: os.stat_result) -> None:
    for is_kind, number, name in _KINDS:
        if is_kind(state.st_mode):
            raise OSError(number, f"it is a {name}, not a file", str(path))
