"""A server that is run from its clone: `cwd` is its folder, which may hold an environment and says its version."""

import os
import re
from pathlib import Path
from typing import Final

from reconciler.core.launch import LaunchSpec
from reconciler.engines import python_env
from reconciler.memory.regular import read_regular

_VERSION: Final = re.compile(r"""(?:__version__\s*=\s*["'])?v?(\d[^"'\s]*)""")
#: Bytes of a file that are read for a version.
_MOST: Final = 4096


def interpreter(spec: LaunchSpec) -> Path | None:
    """Return the interpreter that `python:` names, else that of an environment in the clone, else ours; None = none."""
    if spec.python is None:
        for name in (".venv", "venv"):
            path = Path(spec.cwd, name, "bin", "python")
            if path.is_file() and os.access(path, os.X_OK):
                return path
    return python_env.interpreter(spec)


def version(spec: LaunchSpec, name: str) -> str | None:
    """Return the version that the file `name` of the clone says, or None. Reads it."""
    try:
        text = read_regular(Path(spec.cwd, name), _MOST).decode("utf-8", "replace")
    except OSError:
        return None
    found = _VERSION.search(text)
    return found[1] if found else None
