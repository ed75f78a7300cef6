"""Checks what a wheel and an sdist hold: python tools/check_package.py FILE... (built by `python -m build`)."""

import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parent.parent
#: What may lie beside the package in a wheel.
_BESIDE: Final = re.compile(
    r"reconciler-[^/]+\.dist-info/(?:METADATA|WHEEL|RECORD|entry_points\.txt|licenses/LICENSE)"
)
#: Written by the build, and in no commit.
_MADE: Final = frozenset({"reconciler/built_from.txt", "PKG-INFO"})
#: What an sdist must have so that it can be built and tested.
_SOURCES: Final = (
    "pyproject.toml",
    "hatch_build.py",
    "LICENSE",
    "README.md",
    "constraints.txt",
    "schemas/",
    "tests/",
)
_NEVER: Final = re.compile(r"(?:^|/)(?:__pycache__|\.venv|\.git|weights|\.mypy_cache)(?:/|$)|\.pyc$|\.gguf$")


def wheel_faults(names: Sequence[str], committed: Sequence[str]) -> list[str]:
    """Return what a wheel lacks of the package as it is committed, and what does not belong into it."""
    package = {name for name in committed if name.startswith("reconciler/")}
    found = {name for name in names if not name.endswith("/")}
    extra = {name for name in found - package - _MADE if not _BESIDE.fullmatch(name)}
    faults = [f"lacks {name}" for name in sorted(package - found)]
    faults += [f"holds {name}, which is not part of the package" for name in sorted(extra)]
    for end in ("METADATA", "entry_points.txt", "licenses/LICENSE"):
        if not any(name.endswith(f".dist-info/{end}") for name in found):
            faults.append(f"lacks {end}")
    return faults


def sdist_faults(names: Sequence[str], committed: Sequence[str]) -> list[str]:
    """Return what an sdist lacks, and what does not belong into it. Names are those below its one folder."""
    inside = [name.partition("/")[2] for name in names]
    unknown = {name for name in inside if name and name not in committed and name not in _MADE}
    faults = [f"lacks {part}" for part in _SOURCES if not any(name.startswith(part) for name in inside)]
    faults += [f"lacks {name}" for name in committed if name.startswith("reconciler/") and name not in inside]
    faults += [f"holds {name}, which is in no commit" for name in sorted(unknown)]
    return faults + [f"holds {name}" for name in inside if _NEVER.search(name)]


def committed_files() -> list[str]:
    """Return the files of this repository that git knows, those not committed yet included."""
    command = ["git", "-C", str(REPOSITORY), "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return sorted(name for name in out.split("\0") if name and (REPOSITORY / name).exists())


def faults(path: Path) -> list[str]:
    """Return what is wrong with a built file."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            return wheel_faults(wheel.namelist(), committed_files())
    with tarfile.open(path) as sdist:
        names = [member.name for member in sdist.getmembers() if member.isfile()]
    return sdist_faults(names, committed_files())


def main(words: Sequence[str]) -> int:
    """Print what is wrong; return 1 if anything is, 64 for wrong usage."""
    if not words:
        sys.stderr.write(f"{__doc__}\n")
        return 64
    wrong = [f"{word}: {fault}" for word in words for fault in faults(Path(word))]
    sys.stderr.write("".join(f"{line}\n" for line in wrong))
    sys.stdout.write("" if wrong else f"{len(words)} checked: as they should be\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
