"""Makes `.venv` ready: the pinned versions of constraints.txt, and this project in place with the extras asked for.

    python tools/make_venv.py llama dev

Does nothing, in a few milliseconds, if nothing changed since the last time. Standard library only: it runs first.
"""

import hashlib
import importlib.util
import json
import subprocess
import sys
import time
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

REPOSITORY: Final = Path(__file__).resolve().parent.parent
CONSTRAINTS: Final = "constraints.txt"
#: What an installation is made from; it is made again when one of them changes.
INPUTS: Final = ("pyproject.toml", CONSTRAINTS)
#: In `.venv`: what is installed there. Lacking or older after an interrupted run, so that the next one goes on.
STAMP: Final = "reconciler-setup.json"


class SetupError(Exception):
    """The environment could not be made; the message says why and what helps."""


def say(text: str) -> None:
    """Print one line at once, also into a pipe."""
    sys.stdout.write(f"setup: {text}\n")
    sys.stdout.flush()


def main(extras: Sequence[str]) -> int:
    """Make `.venv` ready. Returns 0, or 1 after a message."""
    try:
        make_ready(REPOSITORY, extras)
    except (SetupError, OSError) as error:
        sys.stderr.write(f"setup: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nsetup: interrupted; the next run goes on from here\n")
        return 130
    return 0


def make_ready(repository: Path, extras: Sequence[str]) -> None:
    """Create or renew `.venv` below `repository` as far as needed. Raises `SetupError`, `OSError`."""
    folder = repository / ".venv"
    have = read_stamp(folder)
    wanted = wanted_stamp(repository, extras, have)
    if have == wanted and python_in(folder).exists():
        return
    began = time.monotonic()
    if why := reason_to_create(folder, have, wanted):
        say(f"making .venv with Python {sys.version.split()[0]} ({why})")
        create(folder)
        write_stamp(folder, {**wanted, "inputs": None, "extras": []})
    install(repository, folder, wanted["extras"])
    write_stamp(folder, wanted)
    say(f"ready after {time.monotonic() - began:.0f} s")


def wanted_stamp(repository: Path, extras: Sequence[str], have: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the stamp must say; extras installed before stay and are renewed with the rest."""
    digest = hashlib.sha256()
    for name in INPUTS:
        digest.update((repository / name).read_bytes())
    return {
        "python": f"{sys.version_info.major}.{sys.version_info.minor} {sys.base_prefix}",
        "repository": str(repository),
        "inputs": digest.hexdigest(),
        "extras": sorted({*extras, *have.get("extras", ())}),
    }


def reason_to_create(folder: Path, have: Mapping[str, Any], wanted: Mapping[str, Any]) -> str | None:
    """Return why `.venv` must be made anew; None if what is there can be used, also one made by hand."""
    if not folder.exists():
        return "there is none"
    if have and have["python"] != wanted["python"]:
        return f"it was made with Python {have['python']}"
    if have and have["repository"] != wanted["repository"]:
        return "it was made for another folder"
    return None if has_pip(folder) else "the one there is incomplete"


def has_pip(folder: Path) -> bool:
    """Return whether the environment is whole enough to install into."""
    python = python_in(folder)
    if not python.exists():
        return False
    command = [str(python), "-m", "pip", "--version"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def create(folder: Path) -> None:
    """Make an environment with pip, over whatever is there. Raises `SetupError`."""
    if importlib.util.find_spec("ensurepip") is None:
        raise SetupError(no_ensurepip())
    try:
        venv.create(folder, clear=True, with_pip=True, symlinks=True)
    except subprocess.CalledProcessError as error:
        raise SetupError(
            f"{no_ensurepip()}\n{(error.output or b'').decode(errors='replace').strip()}"
        ) from error


def no_ensurepip() -> str:
    """Return what to do about a Python that was packaged without the parts that make environments."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return (
        f"{sys.executable} cannot make virtual environments: its module ensurepip is missing or broken.\n"
        f"Debian, Ubuntu: apt install python{version}-venv (or python3-venv). "
        "Or name another Python: make run PYTHON=/path/to/python3.12"
    )


def install(repository: Path, folder: Path, extras: Sequence[str]) -> None:
    """Install what `extras` need with pip, whose progress is seen. Raises `SetupError`."""
    pinned = ["-c", CONSTRAINTS]
    say("installing pip")
    pip(repository, folder, ["--upgrade", *pinned, "pip"])
    say(f"installing the project with {', '.join(extras)}")
    pip(repository, folder, [*pinned, "--build-constraint", CONSTRAINTS, "-e", f".[{','.join(extras)}]"])


def pip(repository: Path, folder: Path, arguments: Sequence[str]) -> None:
    """Run `pip install`. Raises `SetupError`."""
    command = [str(python_in(folder)), "-m", "pip", "install", "--disable-pip-version-check", *arguments]
    if subprocess.run(command, cwd=repository, check=False).returncode != 0:
        raise SetupError(
            "pip failed; its message is above (without a network it may speak of missing or conflicting versions). "
            "Does pip reach its index (`pip config list`)? Run the same command again to retry"
        )


def python_in(folder: Path) -> Path:
    """Return the Python of an environment."""
    return folder / "bin" / "python"


def read_stamp(folder: Path) -> dict[str, Any]:
    """Return what the stamp says; empty without a readable one."""
    try:
        stamp = json.loads((folder / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) and {"python", "repository", "extras"} <= stamp.keys() else {}


def write_stamp(folder: Path, stamp: Mapping[str, Any]) -> None:
    """Note what is installed, whole or not at all."""
    draft = folder / f".{STAMP}.new"
    draft.write_text(json.dumps(stamp, indent=2) + "\n", encoding="utf-8")
    draft.replace(folder / STAMP)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
