"""The file that makes a service: written whole or not at all, and only over one of ours."""

import difflib
import os
from pathlib import Path

from reconciler.service.settings import MARKER, RECORD, ServiceError, read


def check_ours(path: Path) -> str | None:
    """Return the text of the file, None if there is none. Blocking. Raises ServiceError for one that is not ours."""
    try:
        text = read(path)
    except OSError as error:
        raise ServiceError(f"{path} cannot be read: {error.strerror or error}") from error
    if text is not None and MARKER not in text:
        raise ServiceError(
            f"{path} was not written by reconcile: it stays as it is; move it away, or choose another --name"
        )
    return text


def write(path: Path, text: str, mode: int) -> None:
    """Put the file in place, with its folder. Blocking. Raises ServiceError."""
    draft = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.unlink(missing_ok=True)
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), mode)  # whatever the umask takes away
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise ServiceError(f"{path} cannot be written: {error.strerror or error}") from error


def remove(path: Path) -> None:
    """Remove the file; it may be gone already. Blocking. Raises ServiceError."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise ServiceError(f"{path} cannot be removed: {error.strerror or error}") from error


def changes(path: Path, old: str, new: str) -> str:
    """Return what differs between two texts of the file, as a unified diff without a final newline.

    The line of settings is left out: all of them stand once more in what is made of them.
    """
    before, after = ([line for line in text.splitlines() if RECORD not in line] for text in (old, new))
    return "\n".join(difflib.unified_diff(before, after, f"{path} (now)", f"{path} (new)", lineterm="", n=1))
