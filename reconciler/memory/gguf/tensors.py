"""The tensor descriptions of a header, and whether the data they describe can lie in the file as they say."""

import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from math import prod
from typing import Final

from reconciler.core.words import size as size_text
from reconciler.memory.gguf.header import Tensor
from reconciler.memory.gguf.notes import Notes
from reconciler.memory.gguf.reader import Reader, damaged, shown, truncated
from reconciler.memory.gguf.types_table import BLOCKS

#: llama.cpp takes 63 bytes; other programs write longer names.
_LONGEST_NAME: Final = 1024
_MOST_AXES: Final = 4
#: GGML counts elements, and bytes, in signed 64 bits.
_MOST: Final = 2**63 - 1
#: 256 TiB: no file system holds a larger model, so an offset above it is damage, not a truncated file.
_FARTHEST: Final = 1 << 48
_COUNT: Final = struct.Struct("<I")
#: The rest of a description, for each number of axes: their lengths, type, offset.
_RESTS: Final = tuple(struct.Struct(f"<{axes}QIQ") for axes in range(_MOST_AXES + 1))


def read_tensors(reader: Reader, count: int, notes: Notes) -> tuple[Tensor, ...]:
    """Return `count` tensors. Raises `WeightsError`."""
    tensors: dict[str, Tensor] = {}
    #: Most tensors of a model have one of a few shapes: each is kept once.
    shapes: dict[tuple[int, ...], tuple[int, ...]] = {}
    for _ in range(count):
        name = notes.decode(reader.text(_LONGEST_NAME, "a tensor's name"), "a tensor's name")
        if name in tensors:
            raise damaged(f"two tensors {shown(name)}")
        axes = int(reader.unpack(_COUNT)[0])
        if axes > _MOST_AXES:
            raise damaged(f"tensor {shown(name)} has {axes} dimensions")
        *lengths, kind, offset = map(int, reader.unpack(_RESTS[axes]))
        shape = shapes.setdefault(tuple(lengths), tuple(lengths))
        tensors[name] = Tensor(name, shape, kind, offset, _size(name, shape, kind))
    unknown = Counter(tensor.type for tensor in tensors.values() if tensor.size is None)
    for kind, number in sorted(unknown.items()):
        subject = "1 tensor has" if number == 1 else f"{number} tensors have"
        notes.add(f"{subject} type {kind}, which is not known: sizes are told by places")
    return tuple(tensors.values())


def _size(name: str, shape: tuple[int, ...], kind: int) -> int | None:
    """Return the bytes of a tensor: whole blocks along its first axis, as `ggml_nbytes` has it."""
    elements = prod(shape)
    if elements > _MOST or max(shape, default=0) > _MOST:
        raise damaged(f"tensor {shown(name)} has the shape {list(shape)}")
    block = BLOCKS.get(kind)
    if block is None:
        return None
    length, size = block
    row = shape[0] if shape else 1
    if row % length:
        raise damaged(f"tensor {shown(name)} has rows of {row} elements, which its type packs by {length}")
    return elements // length * size


def check_places(
    tensors: Iterable[Tensor], alignment: int, data_offset: int, size: int, notes: Notes
) -> None:
    """Raise `WeightsError` unless all tensors lie in a file of `size` bytes, aligned and apart from each other."""
    placed = _in_order(tensors)
    for tensor in placed:
        if tensor.offset % alignment or tensor.offset + (tensor.size or 0) > _FARTHEST:
            raise damaged(f"tensor {shown(tensor.name)} begins at byte {tensor.offset}")
    gaps = 0
    for before, after in pairwise(placed):
        end = before.offset + (before.size or 0)
        if end > after.offset:
            raise damaged(f"tensors {shown(before.name)} and {shown(after.name)} overlap")
        gaps += before.size is not None and after.offset - end >= alignment
    needed = max((data_offset + tensor.offset + (tensor.size or 0) for tensor in placed), default=0)
    if needed > size:
        raise truncated(f"{_share(size, needed)} are there")
    if gaps:
        notes.add(f"gaps between the tensors: {gaps}")


def _share(size: int, needed: int) -> str:
    """Return how much of a file is there; to the byte where less does not tell it from the whole."""
    there, whole = size_text(size), size_text(needed)
    return f"{size} of {needed} bytes" if there == whole else f"{there} of {whole}"


def tensor_bytes(tensors: Iterable[Tensor], data_size: int) -> int:
    """Return the bytes of all tensors of one file, whose data is `data_size` bytes.

    A tensor of unknown type is taken to reach to the next one, or to the end of the file.
    """
    return sum(_sizes(_in_order(tensors), data_size))


def _sizes(placed: list[Tensor], data_size: int) -> Iterator[int]:
    ends = [*(tensor.offset for tensor in placed[1:]), data_size]
    for tensor, end in zip(placed, ends, strict=False):
        yield end - tensor.offset if tensor.size is None else tensor.size


def _in_order(tensors: Iterable[Tensor]) -> list[Tensor]:
    # Empty tensors share their offset with the next one and come before it.
    return sorted(tensors, key=lambda tensor: (tensor.offset, tensor.size or 0))
