"""Where the class of a Python worker lies, found without an import: that may load a framework, or run anything."""

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reconciler.core.launch import LaunchSpec
from reconciler.engines import python_env

_LARGEST: Final = 4 << 20
_CFG_VERSION: Final = re.compile(r"^version(?:_info)?\s*=\s*(\d+\.\d+\.\d+)", re.MULTILINE)
_HIDES_NAMES: Final = re.compile(r"import\s*\*|__getattr__|globals\(\)|setattr|exec\(")


@dataclass(frozen=True, slots=True)
class Entry:
    """The file of the module. `None` = it is in none of the folders that are known to be searched."""

    module: str
    cls: str
    file: Path | None

    @property
    def changed(self) -> int | None:
        """Nanoseconds since the epoch at which the file was changed last; None = there is none."""
        try:
            return self.file.stat().st_mtime_ns if self.file is not None else None
        except OSError:
            return None

    def problem(self) -> str | None:
        """Return why the file cannot define the class, as far as its text tells, or None. Reads the file."""
        if self.file is None:
            return None
        try:
            with self.file.open("rb") as file:
                text = file.read(_LARGEST).decode("utf-8", "replace")
        except OSError as error:
            return f"{self.file} cannot be read: {error.strerror}"
        if re.search(rf"\b{re.escape(self.cls)}\b", text) or _HIDES_NAMES.search(text):
            return None
        return f"{self.file} has no class {self.cls}"


def find(spec: LaunchSpec) -> Entry:
    """Return the module that `entry` names, looked for where the worker will. Reads the file system."""
    module, _, cls = (spec.entry or "").partition(":")
    below = Path(*module.split("."))
    for folder in _searched(spec):
        for file in (folder / below / "__init__.py", (folder / below).with_suffix(".py")):
            if file.is_file():
                return Entry(module, cls, file)
    return Entry(module, cls, None)


def _searched(spec: LaunchSpec) -> Iterator[Path]:
    cwd = Path(spec.cwd)
    yield cwd
    for folder in dict(spec.env).get("PYTHONPATH", "").split(os.pathsep):
        if folder:
            yield cwd / folder
    if (python := python_env.interpreter(spec)) is not None:
        yield from python_env.packages(python)


def interpreter_version(spec: LaunchSpec) -> str | None:
    """Return the version of the interpreter as files tell it, or None. Reads files; starts nothing."""
    if spec.python is None:
        return ".".join(map(str, sys.version_info[:3]))
    python = python_env.interpreter(spec)
    if python is None:
        return None
    try:
        text = (python.parent.parent / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = _CFG_VERSION.search(text)
    return found[1] if found else None
