"""Whether the weights are still those a model was started with: a fingerprint of what is in their files.

Of the contents, so that a copy, a `touch` or another mount changes nothing. Weights are too large to be read whole at
each look, so it is made of the size, the beginning and samples spread over a file: other weights differ everywhere.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from reconciler.memory.gguf import WeightsError
from reconciler.memory.gguf.cache import Remembered, Stamp
from reconciler.memory.gguf.split import shards
from reconciler.memory.regular import open_regular

#: Seconds since the last change before which a file counts as being written.
SETTLED: Final = 5.0
#: Bytes at the beginning (headers and tokenizers are there), and number and bytes of the samples.
_HEAD: Final = 64 << 10
_SAMPLES: Final = 64
_SAMPLE: Final = 4 << 10
#: Files of a folder: more than that is no model but a store of many.
_MOST_FILES: Final = 2048
#: Folders are looked into so deep: `unet/` and `1_Pooling/` of a model, no tree of the user's.
_DEEPEST: Final = 2
#: Endings of what a model is loaded from. Anything else in its folder may be written by the model itself.
_WEIGHTS: Final = (
    ".safetensors",
    ".gguf",
    ".bin",
    ".pt",
    ".pth",
    ".ckpt",
    ".onnx",
    ".onnx_data",
    ".npz",
    ".model",
)
_BESIDE: Final = (
    "config.json",
    ".index.json",
    "tokenizer.json",
    "vocab.json",
    "vocabulary.json",
    "vocab.txt",
    "vocabulary.txt",
    "merges.txt",
    "chat_template.jinja",
)

#: Digests of files by their stamps.
_REMEMBERED: Final[Remembered[str]] = Remembered(most=8192, heaviest=8192)


def fingerprint(paths: Iterable[str | Path], now: float) -> str:
    """Return 16 hex digits for the contents of these files and folders, in their order. Blocks: some 70 reads a file
    the first time, one `stat` a file afterwards.

    "" = it cannot be told: there are none, one is missing or unreadable, a folder holds too many, or one was changed
    less than 5 s before `now` (wall time, seconds) and may still be written. Of a split set each part counts.
    """
    whole = hashlib.sha256()
    found = False
    try:
        for name, path in _all_files(paths):
            digest = _of_file(path, now)
            if digest is None:
                return ""
            whole.update(f"{name}\0{digest}\n".encode("utf-8", "surrogateescape"))
            found = True
    except (OSError, ValueError, WeightsError):
        return ""
    return whole.hexdigest()[:16] if found else ""


@dataclass(frozen=True, slots=True)
class Marks:
    """What the system says of the files of a model, for one `stat` a file: equal = nothing was written."""

    #: Path, inode, size and time of writing of each; sorted.
    files: tuple[tuple[str, int, int, int], ...] = ()
    #: When the youngest was changed, wall time in seconds.
    changed: float = float("-inf")

    def others(self, now: "Marks") -> tuple[str, ...]:
        """Return the paths of files that are not what they were, are new, or are gone; sorted."""
        return tuple(sorted({path for path, *_ in set(self.files) ^ set(now.files)}))


def marks(paths: Iterable[str | Path]) -> Marks | None:
    """Return what is known of these files and folders without reading them; None = not all of it. Blocks."""
    files, changed = [], float("-inf")
    try:
        for _, path in _all_files(paths):
            found = path.stat()
            files.append((str(path), found.st_ino, found.st_size, found.st_mtime_ns))
            changed = max(changed, found.st_ctime)
    except (OSError, ValueError, WeightsError):
        return None
    return Marks(tuple(sorted(files)), changed)


def _all_files(paths: Iterable[str | Path]) -> Iterator[tuple[str, Path]]:
    """Yield each file with its name within what was named. Raises OSError, WeightsError, ValueError."""
    for path in map(Path, paths):
        if path.is_dir():
            names = sorted(_in_folder(path, ""))
            if not names:
                raise ValueError(f"{path} holds no weights")
            yield from ((name, path / name) for name in names)
        else:
            # Their own names do not count: a file that was moved is the same.
            yield from (("", part) for part in shards(path))


def _in_folder(folder: Path, within: str, depth: int = 0) -> list[str]:
    """Return the names of what a model is loaded from, relative to the folder. Raises OSError, ValueError."""
    names: list[str] = []
    with os.scandir(folder / within) as entries:
        for entry in entries:
            name = f"{within}{entry.name}"
            if entry.name.startswith("."):
                continue  # caches of downloads and of version control
            if entry.is_dir(follow_symlinks=False):
                names += _in_folder(folder, f"{name}/", depth + 1) if depth < _DEEPEST else ()
            elif entry.name.endswith(_WEIGHTS) or entry.name.endswith(_BESIDE):
                names.append(name)
            if len(names) > _MOST_FILES:
                raise ValueError(f"{folder} holds more than {_MOST_FILES} files of weights")
    return names


def _of_file(path: Path, now: float) -> str | None:
    """Return the digest of one file, or None if it is being written. Raises OSError."""
    before = path.stat()
    # The time of the change, not of the writing: copying tools set the latter to what it was elsewhere.
    if now - before.st_ctime < SETTLED:
        return None
    stamp = Stamp.of(path, before)
    known = _REMEMBERED.get((stamp,))
    if known is not None:
        return known
    with open_regular(path) as file:
        digest = _digest(file, before.st_size)
    if Stamp.of(path, path.stat()) != stamp:
        return None
    _REMEMBERED.put((stamp,), digest, 1)
    return digest


def _digest(file: BinaryIO, size: int) -> str:
    made = hashlib.sha256(str(size).encode())
    made.update(file.read(_HEAD))
    room = size - _SAMPLE
    if size > _HEAD:
        for number in range(_SAMPLES):
            file.seek(room * (number + 1) // _SAMPLES)
            made.update(file.read(_SAMPLE))
    return made.hexdigest()
