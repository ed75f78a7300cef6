"""Where this program keeps what it must remember."""

import os
from pathlib import Path
from typing import Final

import platformdirs

#: File names inside the state directory.
DATABASE: Final = "ledger.db"
RUN_FILE: Final = "run.json"
#: Names the state directory where the command line does not.
VARIABLE: Final = "RECONCILE_STATE_DIR"


def state_dir(override: Path | None = None, *, create: bool = True) -> Path:
    """Return the absolute state directory; with `create` it exists afterwards, open to its owner only (0700).

    It is `override`, else what RECONCILE_STATE_DIR says, else the user's.

    A directory that already exists keeps its mode: it may be a shared one that somebody named on purpose, and
    every file we put into it is private by itself. Raises OSError when it cannot be made, or is none. Blocking.
    """
    named = override or os.environ.get(VARIABLE)
    if not named:
        named = platformdirs.user_state_dir("reconciler", appauthor=False)
    path = Path(named).expanduser()
    path = path.absolute()
    _check(path)
    if create and not path.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
    return path


def _check(path: Path) -> None:
    """Raise OSError if the directory is a file, or would have to lie in one; else it would read as empty."""
    for part in (path, *path.parents):
        if part.is_dir():
            return
        if part.exists():
            where = "" if part == path else f" cannot be there: {part}"
            raise NotADirectoryError(f"the state directory {path}{where} is not a directory")
