"""The manifest's files as bytes. Everything here blocks: call it in a worker thread."""

import errno
import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from reconciler.memory import regular

SUFFIXES = (".yaml", ".yml")
#: Bytes one file may have; no more are ever read.
FILE_LIMIT: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class FileBytes:
    """One file as it was read. `name` is for people; `error` says why there is no `data`.

    `entry` is its name in `directory`, as the system has it.
    """

    name: str
    directory: Path
    data: bytes = field(default=b"", repr=False)
    error: str = ""
    entry: str = ""


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
            error = f"there is no *.yaml file in {shown(path)}"
        files = tuple(_read(p) for p in paths)
    except OSError as problem:
        error = f"{shown(path)}: {explain_os_error(problem)}"
    return Content(shown(path), files, error, _digest(files, error, also))


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


def read_regular(path: Path) -> bytes:
    """Return the bytes of a regular file, at most FILE_LIMIT + 1 of them. Raises OSError, for anything else too."""
    return regular.read_regular(path, FILE_LIMIT + 1)


def shown(path: Path | str) -> str:
    r"""Return a path as text that any output can take: what cannot be printed or is not UTF-8 is written out.

    >>> shown("a\udcff\n.yaml"), shown("modèles/a b.yaml")
    ('a\\xff\\x0a.yaml', 'modèles/a b.yaml')
    """
    return "".join(c if c.isprintable() else _escaped(ord(c)) for c in str(path))


def odd_name(name: str) -> str:
    """Return why a file of this name is not read, or nothing: names end up in logs and JSON, which are UTF-8."""
    return "its name is not UTF-8: rename it" if any("\ud800" <= c <= "\udfff" for c in name) else ""


def _escaped(code: int) -> str:
    # Python's stand-ins for the bytes 0x80 to 0xFF where they are not part of any UTF-8 character.
    code = code - 0xDC00 if 0xDC80 <= code <= 0xDCFF else code
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _read(path: Path) -> FileBytes:
    directory, name = path.absolute().parent, shown(path)
    if error := odd_name(path.name):
        return FileBytes(name, directory, error=error, entry=path.name)
    try:
        return FileBytes(name, directory, read_regular(path), entry=path.name)
    except OSError as problem:
        return FileBytes(name, directory, error=explain_os_error(problem), entry=path.name)


def _digest(files: tuple[FileBytes, ...], error: str, also: Iterable[str]) -> str:
    digest = hashlib.sha256(error.encode())
    besides = [_read(Path(name)) for name in sorted(also)]
    for file in (*files, *besides):
        for part in (file.name.encode(), file.error.encode(), file.data):
            digest.update(len(part).to_bytes(8) + part)
    return digest.hexdigest()
