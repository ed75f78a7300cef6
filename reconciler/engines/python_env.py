"""The virtual environment that a Python engine runs in: its interpreter, its programs, its packages' versions."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from reconciler.core.launch import LaunchSpec
from reconciler.engines import programs


def interpreter(spec: LaunchSpec) -> Path | None:
    """Return the interpreter that `python:` names, by itself or by its environment's folder; ours without one.

    None = there is none there. Reads the file system.
    """
    if spec.python is None:
        return Path(sys.executable)
    named = Path(spec.python)
    candidates = [named / "bin" / "python", named / "bin" / "python3"] if named.is_dir() else [named]
    return next((path for path in candidates if path.is_file() and os.access(path, os.X_OK)), None)


def why_no_interpreter(spec: LaunchSpec) -> str:
    """Say in one sentence why `interpreter` found nothing."""
    named = Path(spec.python or "")
    if named.is_dir():
        return f"{named} is no virtual environment: it has no bin/python (make one: python3 -m venv {named})"
    if named.exists():
        return f"the interpreter {named} is not executable"
    return f"the interpreter or environment {named} does not exist (make one: python3 -m venv {named})"


def script(spec: LaunchSpec, name: str) -> str | None:
    """Return the path of a program that a package brings: of the model's environment, else on PATH, else of ours."""
    if spec.python is not None:
        found = interpreter(spec)
        own = found.parent / name if found else None
        return str(own) if own and own.is_file() and os.access(own, os.X_OK) else None
    if path := programs.resolve(spec, name):
        return path
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.is_file() and os.access(beside, os.X_OK) else None


def dist_version(python: Path, distribution: str) -> str | None:
    """Return the version of a package installed for the interpreter `python`, or None. Reads folders only."""
    wanted = re.compile(rf"{_pattern(distribution)}-(?P<version>[^-]+)\.(?:dist|egg)-info", re.IGNORECASE)
    for folder in _site_packages(python):
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        for name in names:
            if found := wanted.fullmatch(name):
                return found["version"]
    return None


def _pattern(distribution: str) -> str:
    """Return a pattern for a distribution's name as folders are called: runs of `-_.` are one."""
    return "[-_.]+".join(re.escape(part) for part in re.split(r"[-_.]+", distribution))


def _site_packages(python: Path) -> Iterator[Path]:
    """Yield where the packages of an interpreter lie: of a program of an environment, `lib/python3.*`."""
    lib = python.parent.parent / "lib"
    yield from sorted(lib.glob("python3*/site-packages"))
    yield from sorted(lib.glob("python3*/dist-packages"))
