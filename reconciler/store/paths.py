"""Where this program keeps what it must remember."""

from pathlib import Path
from typing import Final

import platformdirs

#: File names inside the state directory.
DATABASE: Final = "ledger.db"
RUN_FILE: Final = "run.json"


def state_dir(override: Path | None = None, *, create: bool = True) -> Path:
    """Return the absolute state directory; with `create` it exists afterwards, open to its owner only (0700).

    A directory that already exists keeps its mode: it may be a shared one that somebody named on purpose, and
    every file we put into it is private by itself. Raises OSError when it cannot be made. Blocking.
    """
    path = (
        override.expanduser()
        if override
        else Path(platformdirs.user_state_dir("reconciler", appauthor=False))
    )
    path = path.absolute()
    if create and not path.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
    return path
