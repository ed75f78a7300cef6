"""The header of a `.safetensors` file: how many bytes of tensors, and whether the file is all there. Untrusted input.

Format: 8 bytes with the length of the header (little-endian), the header (JSON: name -> dtype, shape, data_offsets),
and the data; offsets count from the start of the data (safetensors, README "Format").
"""

import math
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reconciler.core.words import size as size_text
from reconciler.memory.gguf import Unreadable, WeightsError
from reconciler.memory.hf.scan import Malformed, members, read_json
from reconciler.memory.lookalike import lookalike
from reconciler.memory.regular import open_regular

#: The format allows no longer header.
_MOST_HEADER: Final = 100_000_000
#: A longer header (30 thousand tensors in one file) is not read: it could cost seconds. What the file holds then
#: follows from its size.
_MOST_READ: Final = 4 << 20
#: One tensor's entry, and its axes: far above any real one.
_MOST_ENTRY: Final = 1 << 16
_MOST_AXES: Final = 32
#: A tensor's entry as all known programs write it: five times as fast as a JSON parser.
_COUNT: Final = rb"(?:0|[1-9][0-9]{0,17})"
_USUAL: Final = re.compile(
    rb'\{ ?"dtype": ?"([A-Z0-9_]{1,32})", ?"shape": ?\[(%b(?:, ?%b){0,31}|)\], ?"data_offsets": ?\[(%b), ?(%b)\] ?\}'
    % ((_COUNT,) * 4)
)
#: Bits of one element. Other types are passed over: their bytes are known from the offsets.
_BITS: Final = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 8),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 16),
    **dict.fromkeys(("U32", "I32", "F32"), 32),
    **dict.fromkeys(("U64", "I64", "F64", "C64"), 64),
}


@dataclass(frozen=True, slots=True)
class Safetensors:
    """One file. Sizes in bytes."""

    size: int
    #: Bytes of all its tensors together.
    tensor_bytes: int
    #: Tensors, and their types sorted by name; 0 and empty if the header was too long to be read.
    tensors: int = 0
    dtypes: tuple[str, ...] = ()
    #: What was odd and could be passed over, one sentence each.
    oddities: tuple[str, ...] = ()


#: Type, and first and last byte (exclusive) in the data.
_Entry = tuple[str, int, int]


def read_safetensors(path: Path) -> Safetensors:
    """Return what the header of `path` says. Blocks. Raises `WeightsError` with one sentence."""
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            length = _header_length(path, file.read(64), size)
            file.seek(8)
            header = file.read(length) if length <= _MOST_READ else None
    except FileNotFoundError as error:
        raise WeightsError(f"{path} does not exist") from error
    except OSError as error:
        raise Unreadable.because(path, error) from error
    room = size - 8 - length
    if header is None:
        odd = f"the header of {path.name} has {size_text(length)} and was not looked into"
        return Safetensors(size, room, oddities=(odd,))
    try:
        entries = _entries(header)
    except (ValueError, RecursionError) as error:
        raise WeightsError(f"{path} has a damaged header: {error}") from error
    return _judge(path, entries, size, room)


def _header_length(path: Path, head: bytes, size: int) -> int:
    if size == 0:
        raise WeightsError(f"{path} is empty")
    if sentence := lookalike(head, "safetensors"):
        raise WeightsError(f"{path} {sentence}")
    length = int.from_bytes(head[:8], "little")
    if length > _MOST_HEADER or (len(head) > 8 and head[8:9] != b"{"):
        raise WeightsError(f"{path} is not safetensors: it begins with {head[:4]!r}")
    if len(head) <= 8 or length > size - 8:
        raise WeightsError(f"{path} is truncated: {size_text(size)} do not hold its header")
    return length


def _entries(header: bytes) -> list[_Entry]:
    """Return the tensors. Raises `ValueError` (also json's) saying what is wrong."""
    entries = []
    for name, start, end in members(header, 0, len(header)):
        if name == b'"__metadata__"':
            continue
        if end - start > _MOST_ENTRY:
            raise Malformed(f"one tensor is described by {end - start} bytes")
        usual = _USUAL.fullmatch(header, start, end)
        if usual is not None:
            dtype, shape, begin, stop = usual.groups()
            axes = [int(axis) for axis in shape.split(b",")] if shape else []
            entry = (str(dtype, "ascii"), axes, int(begin), int(stop))
        else:
            entry = _described(name, str(header[start:end], "utf-8"))
        entries.append(_checked(name, *entry))
    return entries


def _described(name: bytes, text: str) -> tuple[str, list[int], int, int]:
    """Return dtype, shape and offsets of a tensor whose description is written unusually. Raises `ValueError`."""
    described = read_json(text)
    values = described if isinstance(described, dict) else {}
    dtype, shape, offsets = (
        values.get("dtype"),
        _counts(values.get("shape")),
        _counts(values.get("data_offsets")),
    )
    if not isinstance(dtype, str) or shape is None or offsets is None or len(offsets) != 2:
        raise Malformed(f"tensor {_label(name)} has no dtype, shape and data_offsets")
    return dtype[:32], shape, offsets[0], offsets[1]


def _checked(name: bytes, dtype: str, shape: list[int], begin: int, end: int) -> _Entry:
    bits = _BITS.get(dtype)
    if begin > end or (bits is not None and math.prod(shape) * bits != (end - begin) * 8):
        raise Malformed(f"tensor {_label(name)} does not have the bytes of its shape")
    return dtype, begin, end


def _label(name: bytes) -> str:
    return str(name[:80], "utf-8", "replace")


def _counts(value: object) -> list[int] | None:
    """Return `value` if it is a short list of counts, else None."""
    if not isinstance(value, list) or len(value) > _MOST_AXES:
        return None
    return value if all(type(item) is int and 0 <= item < 1 << 63 for item in value) else None


def _judge(path: Path, entries: list[_Entry], size: int, room: int) -> Safetensors:
    """Return the sums of a file whose data has `room` bytes. Raises `WeightsError`."""
    ordered = sorted((begin, end) for _, begin, end in entries if begin < end)
    total, reach = 0, 0
    for begin, end in ordered:
        if begin < reach:
            raise WeightsError(f"{path} has a damaged header: two tensors share the bytes from {begin} on")
        total, reach = total + end - begin, end
    if reach > room:
        whole = size - room + reach
        raise WeightsError(f"{path} is truncated: {size_text(size)} of {size_text(whole)} are there")
    odd = () if total == room else (f"{path.name} holds {size_text(room - total)} that belong to no tensor",)
    dtypes = tuple(sorted({dtype for dtype, _, _ in entries}))
    return Safetensors(size, total, len(entries), dtypes, odd)
