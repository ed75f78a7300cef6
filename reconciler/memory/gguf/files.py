"""Which files a model consists of, whether they are whole, and what they hold."""

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reconciler.core.memory import MappedFile
from reconciler.memory.gguf.cache import Remembered, Stamp
from reconciler.memory.gguf.header import Array, Header
from reconciler.memory.gguf.notes import Notes
from reconciler.memory.gguf.parse import read_header
from reconciler.memory.gguf.reader import Unreadable, WeightsError
from reconciler.memory.gguf.split import check_set, merged, shard_name, shards
from reconciler.memory.gguf.tensors import tensor_bytes


@dataclass(frozen=True, slots=True)
class Weights:
    """The files of one model, all of them."""

    files: tuple[Path, ...]
    #: Bytes of all files together.
    size: int
    #: Keys of the first file, tensors of all; the offset of a tensor counts from the data of its own file.
    header: Header
    #: Bytes of all tensors: what is in memory once they are loaded.
    tensor_bytes: int
    #: The files as processes that map them show them, sorted by key, each with its whole size.
    mapped: tuple[MappedFile, ...]


#: What was made of files lately; of broken ones, why: they would be read again at each look.
_REMEMBERED: Final[Remembered[Weights | str]] = Remembered(most=64, heaviest=32 << 20)
#: About the bytes that one tensor or key, and one kept number, takes in memory.
_TENSOR_WEIGHT: Final = 400
_ITEM_WEIGHT: Final = 40


def find_weights(path: Path) -> Weights:
    """Return the model that `path` begins. Blocks. Raises `WeightsError`, which names the file and what to do.

    Of a split set the first part names the model, as in llama.cpp: the others are looked for beside it.
    """
    named = shard_name(path)
    if named and named.number != 1:
        raise WeightsError(
            f"{path} is part {named.number} of {named.count}: name the first part, {named.part(1)}"
        )
    return split_of(path)


def split_of(path: Path) -> Weights:
    """Return the model that `path`, any part of it, belongs to. Blocks. Raises `WeightsError`."""
    paths = shards(path)
    stamps = tuple(_stamp(file) for file in paths)
    result = _REMEMBERED.get(stamps)
    if result is None:
        result, weight = _judged(stamps)
        _REMEMBERED.put(stamps, result, weight)
    if isinstance(result, str):
        raise WeightsError(result)
    return result


def mapped_key(device: int, inode: int) -> str:
    """Return the key of a mapped file, `259:2:1234`: what `/proc/PID/smaps` tells of it, all in decimal."""
    return f"{os.major(device)}:{os.minor(device)}:{inode}"


def _stamp(path: Path) -> Stamp:
    try:
        found = path.stat()
    except FileNotFoundError:
        reason = "is a link to a file that is not there" if os.path.islink(path) else "does not exist"
        raise WeightsError(f"{path} {reason}") from None
    except (OSError, ValueError) as error:
        raise Unreadable.because(path, error) from error
    if stat.S_ISDIR(found.st_mode):
        raise WeightsError(f"{path} {_of_folder(path)}")
    if not stat.S_ISREG(found.st_mode):
        raise WeightsError(f"{path} is no regular file")
    return Stamp.of(path, found)


def _of_folder(path: Path) -> str:
    try:
        names = os.listdir(path)
    except OSError:
        names = []
    if not any(name.endswith(".gguf") for name in names) and any(n.endswith(".safetensors") for n in names):
        return "is a folder of safetensors, not GGUF: convert it (convert_hf_to_gguf.py), or use an engine for it"
    return "is a folder; name the .gguf file in it"


def _judged(stamps: tuple[Stamp, ...]) -> tuple[Weights | str, int]:
    """Return the model of these files, or why they are none, and about how many bytes it takes to remember that."""
    paths = tuple(stamp.path for stamp in stamps)
    try:
        headers = [read_header(path) for path in paths]
        notes = Notes()
        check_set(paths, headers, notes)
        _check_weights(paths, headers)
    except Unreadable:
        # Not a matter of what is in the file: the next look may succeed.
        raise
    except WeightsError as error:
        return str(error), len(str(error))
    header = merged(paths, headers, notes)
    held = sum(
        tensor_bytes(one.tensors, stamp.size - one.data_offset)
        for one, stamp in zip(headers, stamps, strict=True)
    )
    mapped = {MappedFile(mapped_key(stamp.device, stamp.inode), stamp.size) for stamp in stamps}
    size = sum(stamp.size for stamp in stamps)
    weights = Weights(paths, size, header, held, tuple(sorted(mapped, key=lambda file: file.key)))
    return weights, _weight(header)


def _check_weights(paths: Sequence[Path], headers: Sequence[Header]) -> None:
    """Raise `WeightsError` if no part has a tensor. The first of a set often has none: it only carries the keys."""
    if not any(header.tensors for header in headers):
        parts = " in any of its parts" if len(paths) > 1 else ""
        raise WeightsError(
            f"{paths[0]} holds no tensors{parts}, only a header: name a file that has the weights"
        )


def _weight(header: Header) -> int:
    values = header.keys.values()
    texts = sum(len(value) for value in values if isinstance(value, str))
    items = sum(len(value.items) for value in values if isinstance(value, Array))
    return _TENSOR_WEIGHT * (len(header.tensors) + len(header.keys)) + texts + _ITEM_WEIGHT * items
