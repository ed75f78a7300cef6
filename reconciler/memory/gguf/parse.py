"""Reads a GGUF header, versions 2 and 3, from a stream. Whatever the bytes are, it ends soon and keeps little.

The format: github.com/ggml-org/ggml, docs/gguf.md. Bounds on counts and lengths are ours, far above any known model.
"""

import struct
from collections.abc import Mapping
from io import SEEK_END
from pathlib import Path
from typing import BinaryIO, Final

from reconciler.memory.gguf.header import Header, Value
from reconciler.memory.gguf.lookalike import other_file
from reconciler.memory.gguf.notes import Notes
from reconciler.memory.gguf.reader import Reader, Unreadable, WeightsError, damaged, shown, truncated
from reconciler.memory.gguf.tensors import check_places, read_tensors
from reconciler.memory.gguf.values import read_keys
from reconciler.memory.regular import open_regular

_START: Final = struct.Struct("<4sIQQ")
_MOST_TENSORS: Final = 1 << 16
_MOST_KEYS: Final = 1 << 14
#: Least bytes one tensor description and one key with its value take in the file.
_LEAST_TENSOR: Final = 24
_LEAST_KEY: Final = 13
_ALIGNMENT: Final = 32


def read_header(path: Path) -> Header:
    """Return the header of one file. Blocks for milliseconds. Raises `WeightsError`, which names the path."""
    try:
        with open_regular(path) as file:
            return parse(file, file.seek(0, SEEK_END))
    except WeightsError as error:
        raise WeightsError(f"{path} {error}") from None
    except (OSError, ValueError) as error:
        raise Unreadable.because(path, error) from error


def parse(stream: BinaryIO, size: int) -> Header:
    """Return the header at the start of `stream`, a file of `size` bytes of which only the header is read.

    Raises `WeightsError`, whose message lacks its subject: "is truncated: ...".
    """
    stream.seek(0)
    tensor_count, key_count, version = _counts(stream.read(64), size)
    reader = Reader(stream, size)
    reader.skip(_START.size)
    notes = Notes()
    keys = read_keys(reader, key_count, notes)
    alignment = _alignment(keys)
    tensors = read_tensors(reader, tensor_count, notes)
    data_offset = -(-reader.position // alignment) * alignment
    check_places(tensors, alignment, data_offset, size, notes)
    return Header(version, keys, tensors, data_offset, notes.sentences())


def _counts(head: bytes, size: int) -> tuple[int, int, int]:
    """Return the number of tensors, the number of keys and the version."""
    problem = other_file(head, size)
    if problem:
        raise WeightsError(problem)
    if len(head) < _START.size:
        raise truncated(f"it ends after {size} bytes, within its header")
    _, version, tensors, keys = _START.unpack_from(head)
    if version not in (2, 3):
        swapped = int.from_bytes(version.to_bytes(4, "little"), "big") in (1, 2, 3)
        if swapped:
            raise WeightsError("is GGUF for big-endian machines: get the little-endian file")
        advice = "get a newer file" if version == 1 else "it is damaged, or newer than this program"
        raise WeightsError(f"has GGUF version {version}; 2 and 3 are known: {advice}")
    if tensors > _MOST_TENSORS or keys > _MOST_KEYS:
        raise damaged(f"{tensors} tensors, {keys} keys")
    if size < _START.size + tensors * _LEAST_TENSOR + keys * _LEAST_KEY:
        raise truncated(f"{size} bytes cannot describe {tensors} tensors and {keys} keys")
    return tensors, keys, version


def _alignment(keys: Mapping[str, Value]) -> int:
    """Return the bytes of which tensors begin at a multiple."""
    stated = keys.get("general.alignment", _ALIGNMENT)
    if isinstance(stated, bool) or not isinstance(stated, int) or stated <= 0 or stated & (stated - 1):
        raise damaged(f"general.alignment is {shown(stated)}, which is no power of two")
    return stated
