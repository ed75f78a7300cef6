"""Writing a converted manifest: never over a file of somebody's, and only what the program's own loader reads."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from reconciler.manifest.files import is_manifest_name
from reconciler.manifest.load import load_manifest
from reconciler.migrate import check

NAME: Final = "models.yaml"


class OutputError(Exception):
    """It cannot be written there; the message says why, and what to do."""


def target(out: Path) -> Path:
    """Return the file that is meant: in a folder, `models.yaml`. What is not there is a folder unless called *.yaml."""
    is_folder = out.is_dir() or not (out.exists() or is_manifest_name(out.name))
    return out / NAME if is_folder else out


def refuse(path: Path, *, force: bool) -> None:
    """Raise OutputError if `path` must not be written."""
    if path.exists() and not path.is_file():
        raise OutputError(f"{path} is there, and is no file")
    if path.exists() and not force:
        raise OutputError(f"{path} is there already: --force writes over it, --out names another file")
    if not is_manifest_name(path.name):
        raise OutputError(f"{path.name} would not be read as a manifest: call it *.yaml")


def write(text: str, path: Path, environ: Mapping[str, str]) -> None:
    """Write the manifest in one step, after it was read from the disk as one. Blocks.

    `environ` is what `${env:NAME}` sees; a variable that is not in it counts as `1`. Raises ManifestError, OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, draft = tempfile.mkstemp(prefix=f".{path.stem}.", suffix=".yaml", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        load_manifest(Path(draft), environ={**check.stand_ins(text), **environ})
        os.chmod(draft, 0o666 & ~_umask())
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def neighbours(path: Path) -> tuple[str, ...]:
    """Return the other manifests in the folder, sorted: given as a folder, all of them are one manifest."""
    names = os.listdir(path.parent) if path.parent.is_dir() else []
    return tuple(sorted(name for name in names if is_manifest_name(name) and name != path.name))
