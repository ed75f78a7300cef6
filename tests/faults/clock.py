"""A wall clock that tests set: `time.time` of this process, moved by as many seconds as a file says.

To be imported before anything that keeps `time.time` for itself. The monotonic clock stays what it is.
"""

import errno
import time
from pathlib import Path

_FILE: list[Path] = []
#: By how many seconds the clock was off when that could be read last.
_OFF = [0.0]
_true = time.time


def set_by(file: Path) -> None:
    """Look at `file` from now on."""
    _FILE[:] = [file]


def moved() -> float:
    """Return the wall clock as it is set. A clock never fails, also where no file can be opened."""
    try:
        _OFF[0] = float(_FILE[0].read_text()) if _FILE else 0.0
    except FileNotFoundError:
        _OFF[0] = 0.0
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
    return _true() + _OFF[0]


time.time = moved
