"""Whose processes are whose: the name of a state directory, which all it starts carries."""

import os
import uuid
from pathlib import Path
from typing import Final

OWNER_FILE: Final = "owner"


def owner_of(directory: Path) -> str:
    """Return the name by which processes of this state directory are known for good; made at the first run."""
    found = read_owner(directory)
    if found:
        return found
    made = uuid.uuid4().hex
    write_private(directory / OWNER_FILE, made)
    return made


def read_owner(directory: Path) -> str | None:
    """Return the name of a state directory, or None before its first run. Blocks."""
    try:
        return (directory / OWNER_FILE).read_text(encoding="ascii").strip() or None
    except (OSError, ValueError):
        return None


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    draft.replace(path)
