"""Writes GGUF headers byte by byte, right ones and wrong ones, without any library that would refuse to."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

#: Value type numbers of the format.
U8, U16, U32, I32, F32, BOOL, TEXT, ARRAY, U64 = 0, 2, 4, 5, 6, 7, 8, 9, 10
_PACKING = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


def text(value: str | bytes) -> bytes:
    """Return a text with its length before it."""
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def scalar(kind: int, value: float) -> bytes:
    """Return a typed number."""
    return struct.pack(f"<I{_PACKING[kind]}", kind, value)


def string(value: str | bytes) -> bytes:
    """Return a typed text."""
    return struct.pack("<I", TEXT) + text(value)


def array(kind: int, items: Sequence[float]) -> bytes:
    """Return a typed array of numbers."""
    return struct.pack(f"<IIQ{len(items)}{_PACKING[kind]}", ARRAY, kind, len(items), *items)


def texts(items: Sequence[str]) -> bytes:
    """Return a typed array of texts."""
    return struct.pack("<IIQ", ARRAY, TEXT, len(items)) + b"".join(map(text, items))


def nested(depth: int) -> bytes:
    """Return `depth` arrays in each other, the innermost of one byte."""
    levels = b"".join(struct.pack("<IQ", ARRAY, 1) for _ in range(depth - 1))
    return struct.pack("<I", ARRAY) + levels + struct.pack("<IQB", U8, 1, 7)


@dataclass(frozen=True)
class RawTensor:
    """One description as it stands in the file."""

    name: str | bytes
    shape: tuple[int, ...] = (32,)
    type: int = 0
    offset: int = 0

    def packed(self) -> bytes:
        """Return its bytes."""
        axes = len(self.shape)
        return text(self.name) + struct.pack(f"<I{axes}QIQ", axes, *self.shape, self.type, self.offset)


def header(
    keys: Mapping[str, bytes] | Sequence[tuple[str | bytes, bytes]] = (),
    tensors: Sequence[RawTensor] = (),
    *,
    version: int = 3,
    counts: tuple[int, int] | None = None,
) -> bytes:
    """Return a header; `counts` (tensors, keys) may lie."""
    pairs = list(keys.items()) if isinstance(keys, Mapping) else list(keys)
    stated = counts or (len(tensors), len(pairs))
    start = struct.pack("<4sIQQ", b"GGUF", version, *stated)
    body = b"".join(text(key) + value for key, value in pairs)
    return start + body + b"".join(tensor.packed() for tensor in tensors)


def whole(
    keys: Mapping[str, bytes] | Sequence[tuple[str | bytes, bytes]] = (),
    tensors: Sequence[RawTensor] = (),
    *,
    data: int = 128,
    version: int = 3,
    alignment: int = 32,
) -> bytes:
    """Return a file: a header, padding, and `data` zero bytes."""
    raw = header(keys, tensors, version=version)
    return raw + bytes(-len(raw) % alignment + data)


def write_part(
    folder: Path, number: int, count: int, *, names: Sequence[str], total: int, stem: str = "big"
) -> Path:
    """Write one part of a split set as its writer does: each tensor is 128 bytes; the first part has the keys."""
    keys = {"split.no": scalar(U16, number - 1), "split.count": scalar(U16, count)}
    keys["split.tensors.count"] = scalar(I32, total)
    if number == 1:
        keys = {"general.architecture": string("llama"), **keys}
    tensors = [RawTensor(name, offset=128 * i) for i, name in enumerate(names)]
    path = folder / f"{stem}-{number:05d}-of-{count:05d}.gguf"
    path.write_bytes(whole(keys, tensors, data=128 * len(names)))
    return path
