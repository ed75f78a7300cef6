"""The manifest's files as bytes. Everything here blocks: call it in a worker thread."""

import errno
import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class FileBytes:
    """One file as it was read. `name` is for people; `error` says why there is no `data`."""

    name: str
    directory: Path
    data: bytes = field(default=b"", repr=False)
    error: str = ""


@dataclass(frozen=True, slots=True)
class Content:
    """The manifest as bytes, at one moment."""

    #: What was asked for, as people wrote it.
    path: str
    files: tuple[FileBytes, ...]
    #: Why there are no files, or nothing.
    error: str = ""
    #: Changes exactly when a byte, a name or an error changes, in these files or in those read besides.
    digest: str = ""
    #: The revision the content was taken from; None = the files as they are.
    rev: str | None = None


def is_manifest_name(name: str) -> bool:
    """Tell whether a directory's entry belongs to the manifest: `*.yaml` or `*.yml`, not hidden."""
    return name.endswith(SUFFIXES) and not name.startswith(".")


def read_content(path: Path, also: Iterable[str] = ()) -> Content:
    """Read a manifest file, or all manifest files directly in a directory. Never raises: errors are in the result.

    `also` names further files whose bytes count for the digest.
    """
    files: tuple[FileBytes, ...] = ()
    error = ""
    try:
        paths = manifest_paths(path)
        if not paths:
            error = f"there is no *.yaml file in {path}"
        files = tuple(_read(p) for p in paths)
    except OSError as problem:
        error = f"{path}: {explain_os_error(problem)}"
    return Content(str(path), files, error, _digest(files, error, also))


def manifest_paths(path: Path) -> list[Path]:
    """Return the files of a manifest, sorted. Raises OSError if the directory cannot be listed."""
    if not path.is_dir():
        return [path]
    return [path / name for name in sorted(os.listdir(path)) if is_manifest_name(name)]


def explain_os_error(problem: OSError) -> str:
    """Return the reason of a failed read for people."""
    if problem.errno == errno.ENOENT:
        return "there is no such file or directory"
    return problem.strerror or type(problem).__name__


def _read(path: Path) -> FileBytes:
    directory = path.absolute().parent
    try:
        return FileBytes(str(path), directory, path.read_bytes())
    except OSError as problem:
        return FileBytes(str(path), directory, error=explain_os_error(problem))


def _digest(files: tuple[FileBytes, ...], error: str, also: Iterable[str]) -> str:
    digest = hashlib.sha256(error.encode())
    besides = [_read(Path(name)) for name in sorted(also)]
    for file in (*files, *besides):
        for part in (file.name.encode(errors="surrogateescape"), file.error.encode(), file.data):
            digest.update(len(part).to_bytes(8) + part)
    return digest.hexdigest()
