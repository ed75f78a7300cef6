"""Files of a checkout that the code makes: written anew, or held against what is committed."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

#: The checkout this code lies in, if it lies in one.
ROOT: Final = Path(__file__).parents[1]
USAGE: Final = 64


def keep(files: Mapping[Path, str], module: str, arguments: Sequence[str]) -> int:
    """Do what `python -m MODULE --check | --write` is asked for; return the exit status.

    `files` are paths and what should be in them. `--check` names on stderr each file that is not so.
    """
    if list(arguments) == ["--write"]:
        for path, text in files.items():
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, "utf-8")
        return 0
    if list(arguments) == ["--check"]:
        stale = [
            path for path, text in files.items() if not path.is_file() or path.read_text("utf-8") != text
        ]
        for path in stale:
            shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
            sys.stderr.write(f"{shown} is not what the code says: run python -m {module} --write\n")
        return 1 if stale else 0
    sys.stderr.write(f"usage: python -m {module} --check | --write\n")
    return USAGE
