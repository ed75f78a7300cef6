"""First look at a GGUF file: is it one at all, is it whole enough to begin, and which files belong to it."""

import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_HEADER: Final = struct.Struct("<4sIQQ")
#: Least bytes one tensor description and one key with its value take in the file.
_LEAST_TENSOR: Final = 33
_LEAST_KEY: Final = 14
_SHARD: Final = re.compile(r"^(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf$")
#: How files that are often found in place of weights begin, lower case.
_OTHERS: Final = (
    (b"version https://git-lfs", "is a Git LFS pointer, not the weights: run `git lfs pull`"),
    (b"/annex/objects", "is a git-annex pointer, not the weights: run `git annex get`"),
    (b"<!doctype", "is an HTML page, not the weights: the download answered with a web page"),
    (b"<html", "is an HTML page, not the weights: the download answered with a web page"),
    (b"pk\x03\x04", "is a zip archive (PyTorch weights?), not GGUF"),
)


class WeightsError(Exception):
    """The weights cannot be loaded; the message says why in one sentence."""


@dataclass(frozen=True, slots=True)
class Weights:
    """The files of one model, all of them, and their bytes together."""

    files: tuple[Path, ...]
    size: int


def find_weights(path: Path) -> Weights:
    """Return every file of the model that `path` begins. Blocks. Raises `WeightsError`.

    Of a split set the first shard names the model: the others are looked for beside it.
    """
    files = _shards(path)
    sizes = [_check(file) for file in files]
    return Weights(files, sum(sizes))


def _shards(path: Path) -> tuple[Path, ...]:
    named = _SHARD.match(path.name)
    if named is None:
        return (path,)
    number, count = int(named["number"]), int(named["count"])
    first = f"{named['stem']}-00001-of-{named['count']}.gguf"
    if number != 1:
        raise WeightsError(f"{path} is part {number} of {count}: name the first part, {first}")
    shards = tuple(
        path.with_name(f"{named['stem']}-{i:05d}-of-{named['count']}.gguf") for i in range(1, count + 1)
    )
    missing = [shard.name for shard in shards if not shard.is_file()]
    if missing and path.is_file():
        raise WeightsError(f"{path} has {count} parts, and {', '.join(missing)} is not there")
    return shards


def _check(path: Path) -> int:
    """Return the size of one file whose header makes sense."""
    try:
        if path.is_dir():
            raise WeightsError(f"{path} is a folder; name the .gguf file in it")
        if not path.is_file():
            reason = "is no regular file" if path.exists() else "does not exist"
            raise WeightsError(f"{path} {reason}")
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(64)
    except OSError as error:
        raise WeightsError(f"{path} cannot be read: {error.strerror}") from error
    problem = _header_problem(head, size)
    if problem:
        raise WeightsError(f"{path} {problem}")
    return size


def _header_problem(head: bytes, size: int) -> str | None:
    if size == 0:
        return "is empty"
    beginning = head.lstrip().lower()
    for start, sentence in _OTHERS:
        if beginning.startswith(start):
            return sentence
    if not head.startswith(b"GGUF"[: len(head)]):
        return f"is not GGUF: it begins with {head[:4]!r}"
    if len(head) < _HEADER.size:
        return f"is truncated: {size} bytes"
    _, version, tensors, keys = _HEADER.unpack_from(head)
    if version not in (2, 3):
        swapped = int.from_bytes(version.to_bytes(4, "little"), "big") in (2, 3)
        return (
            "is GGUF for big-endian machines" if swapped else f"has GGUF version {version}; 2 and 3 are known"
        )
    if keys == 0 or keys > 1 << 20 or tensors > 1 << 24:
        return f"has a damaged header ({tensors} tensors, {keys} keys)"
    if size < _HEADER.size + tensors * _LEAST_TENSOR + keys * _LEAST_KEY:
        return f"is truncated: {size} bytes cannot describe {tensors} tensors"
    return None
