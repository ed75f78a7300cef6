"""Where the class of a Python worker lies, found without an import: that may load a framework, or run anything."""

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reconciler.core.launch import LaunchSpec, Role
from reconciler.engines import python_env, python_source

_CFG_VERSION: Final = re.compile(r"^version(?:_info)?\s*=\s*(\d+\.\d+\.\d+)", re.MULTILINE)
#: `python2.7`, `python3.12`: what the program is called that a path leads to.
_NAMED_VERSION: Final = re.compile(r"python(\d+\.\d+)")


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

    def problem(self, version: str | None) -> str | None:
        """Return why an interpreter of `version` will not find the class, as far as the file tells. Reads it."""
        if self.file is None:
            return None
        try:
            source = python_source.read(self.file)
        except OSError as error:
            return f"{self.file} cannot be read: {error.strerror}"
        if broken := python_source.unreadable(source, version):
            return f"{self.file} is no Python: {broken}"
        return None if python_source.may_define(source, self.cls) else f"{self.file} has no class {self.cls}"

    def note(self, role: Role) -> str | None:
        """Return what the class seems to lack, or None. Reads the file."""
        try:
            source = python_source.read(self.file) if self.file is not None else None
        except OSError:
            return None  # `problem` has said so
        method = python_source.lacking(source, self.cls, role) if source is not None else None
        if method is None:
            return None
        return (
            f"class {self.cls} in {self.file} seems to have no method {method}, which role {role.value} needs"
        )


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
        named = _NAMED_VERSION.fullmatch(Path(os.path.realpath(python)).name)
        return named[1] if named else None
    found = _CFG_VERSION.search(text)
    return found[1] if found else None


def of_python(entry: str) -> str | None:
    """Return the module of an entry if it is called like one of Python's own, which would be imported in its place.

    >>> of_python("json.x:Model"), of_python("words:Words")
    ('json', None)
    """
    top = entry.partition(":")[0].partition(".")[0]
    return top if top in sys.stdlib_module_names else None
