"""Finding the program a command line starts with, the way the started process will find it."""

import os
import shutil
from pathlib import Path

from reconciler.core.launch import LaunchSpec


def resolve(spec: LaunchSpec, program: str) -> str | None:
    """Return the absolute path of an executable `program`, or None.

    A bare name is looked up on PATH (the model's own `env` comes first); a path with a slash is relative to
    the model's working directory, never to ours. Reads the file system.
    """
    if "/" in program:
        path = Path(spec.cwd) / program
        return str(path) if path.is_file() and os.access(path, os.X_OK) else None
    return shutil.which(program, path=dict(spec.env).get("PATH"))


def server(spec: LaunchSpec, program: str) -> tuple[str, ...] | None:
    """Return the first words of a server's command line: as `command` states them, else `program`; None = not there."""
    words = spec.command or (program,)
    path = resolve(spec, words[0])
    return (path, *words[1:]) if path else None


def why_not(spec: LaunchSpec, program: str) -> str:
    """Say in one sentence why `resolve` found nothing."""
    if "/" not in program:
        return f"the program {program!r} is not on PATH"
    path = Path(spec.cwd) / program
    if path.is_dir():
        return f"the program {path} is a directory"
    if path.exists():
        return f"the program {path} is not executable"
    return f"the program {path} does not exist"
