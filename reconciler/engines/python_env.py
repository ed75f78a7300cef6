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
        return _why_no_environment(named)
    if named.exists():
        return f"the interpreter {named} is not executable"
    return f"the interpreter or environment {named} does not exist (make one: python3 -m venv {named})"


def _why_no_environment(named: Path) -> str:
    for path in (named / "bin" / "python", named / "bin" / "python3"):
        if path.is_symlink() and not path.exists():
            # As after an update of the system's Python, or where an environment was copied.
            gone = os.path.realpath(path)
            return f"{path} leads to {gone}, which is not there: make the environment anew"
        if path.is_file():
            return f"the interpreter {path} is not executable"
    text = f"{named} is no virtual environment: it has no bin/python"
    # A folder that holds other things is no place to make one.
    empty = os.access(named, os.R_OK) and not any(named.iterdir())
    return f"{text} (make one: python3 -m venv {named})" if empty else text


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


def activation(spec: LaunchSpec) -> dict[str, str]:
    """Return the variables that a virtual environment sets where it is activated; empty without `python:`.

    Programs that compile at run time look for the tools of their environment (`ninja`) on PATH.
    """
    found = interpreter(spec) if spec.python is not None else None
    if found is None:
        return {}
    path = dict(spec.env).get("PATH", os.environ.get("PATH", os.defpath))
    return {"PATH": f"{found.parent}{os.pathsep}{path}", "VIRTUAL_ENV": str(found.parent.parent)}


def dist_version(python: Path, distribution: str) -> str | None:
    """Return the version of a package installed for the program `python` of its environment, or None.

    A program that is a link belongs where the link leads, unless it lies in a virtual environment. Reads folders only.
    """
    name = rf"{_pattern(distribution)}-(?P<version>[^-]+)(?:-py[\d.]+)?\.(?:dist|egg)-info"
    wanted = re.compile(name, re.IGNORECASE)
    for folder in dict.fromkeys(_site_packages(python)):
        try:
            entries = sorted(os.listdir(folder))
        except OSError:
            continue
        for entry in entries:
            if found := wanted.fullmatch(entry):
                return found["version"]
    return None


def packages(program: Path) -> tuple[Path, ...]:
    """Return the folders of the packages of the environment that `program` belongs to. Reads folders only."""
    return tuple(dict.fromkeys(_site_packages(program)))


def _pattern(distribution: str) -> str:
    """Return a pattern for a distribution's name as folders are called: runs of `-_.` are one."""
    return "[-_.]+".join(re.escape(part) for part in re.split(r"[-_.]+", distribution))


def _site_packages(program: Path) -> Iterator[Path]:
    """Yield where the packages of the environment that `program` belongs to lie."""
    roots = [program.parent.parent]
    if not (roots[0] / "pyvenv.cfg").is_file():
        # `~/.local/bin/vllm` may be a link into an environment of its own.
        roots.append(Path(os.path.realpath(program)).parent.parent)
    for root in roots:
        for lib in ("lib", "lib64", "local/lib"):
            yield from sorted((root / lib).glob("python3*/site-packages"))
            yield from sorted((root / lib).glob("python3*/dist-packages"))
