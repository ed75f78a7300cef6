"""Putting the first manifest where it belongs: whole or not at all, and nothing that was there is lost."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from reconciler.manifest.applied import Applied
from reconciler.manifest.files import SUFFIXES, Content, FileBytes, read_content, shown
from reconciler.manifest.load import apply_content

#: The file in a manifest's folder.
FILE: Final = "models.yaml"
_MODE: Final = 0o644


class OccupiedError(Exception):
    """There is a manifest already; the message says what to do."""


def target(out: Path) -> Path:
    """Return the file that is written for `--out OUT`: itself where it is named like one, else one in that folder."""
    return out if out.suffix in SUFFIXES and not out.is_dir() else out / FILE


def check(path: Path, *, force: bool) -> None:
    """Raise OccupiedError if writing `path` would meet a manifest. Blocks."""
    if force:
        return
    content = read_content(path.parent if path.name == FILE else path)
    names = [file.name for file in content.files if not file.error]
    if names or path.exists():
        raise OccupiedError(
            f"{', '.join(names) or shown(path)} is there already: --out names another folder; with --force it is kept "
            f"beside the new {FILE}"
        )


def proved(path: Path, text: str, environ: Mapping[str, str]) -> Applied:
    """Return what the folder's manifest would be with `text` as the file at `path`. Blocks. Raises ManifestError."""
    ours = FileBytes(shown(path), path.absolute().parent, text.encode(), entry=path.name)
    beside = read_content(path.parent).files if path.name == FILE and path.parent.is_dir() else ()
    others = [file for file in beside if file.entry != path.name]
    files = tuple(sorted([*others, ours], key=lambda file: file.entry))
    return apply_content(Content(shown(path), files), environ=environ)


def write(path: Path, text: str, *, force: bool) -> Path | None:
    """Write the file; return where the one that was there is kept now, if there was one. Blocks.

    Raises OccupiedError, OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent)
    draft = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.chmod(_MODE)
        kept = _kept(path) if force else None
        # A link, not a rename: whoever made the file a moment ago keeps theirs.
        os.link(draft, path)
    except FileExistsError:
        raise OccupiedError(f"{shown(path)} is there already") from None
    finally:
        draft.unlink(missing_ok=True)
    return kept


def _kept(path: Path) -> Path | None:
    """Give the file that is there another name, one that is free and that no manifest reads; return it."""
    if not os.path.lexists(path):
        return None
    number = 1
    while True:
        beside = path.with_name(f"{path.name}.{number}.bak")
        try:
            os.link(path, beside, follow_symlinks=False)
        except FileExistsError:
            number += 1
            continue
        path.unlink()
        return beside
