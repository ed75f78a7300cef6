"""A model of CTranslate2: what is in its `model.bin`, as far as its size in memory depends on it. Untrusted input."""

import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from reconciler.memory.gguf import Unreadable, WeightsError
from reconciler.memory.hf import StatCache
from reconciler.memory.regular import open_regular

#: Sizes of variables are told in bytes since this version of the format; the newest one there is.
_OLDEST, _NEWEST = 4, 6
#: Types by their number in the file: whether the CPU gets them as 32 bits.
_WIDENED: Final = frozenset({4, 5})
_MOST_VARIABLES, _MOST_DIMENSIONS = 100_000, 8
_HEADS: Final = "encoder/num_heads"
_AUDIO: Final = "encoder/position_encodings/encodings"


@dataclass(frozen=True, slots=True)
class Ct2Model:
    """What a `model.bin` holds. Bytes."""

    #: "WhisperSpec" for Whisper.
    kind: str
    #: Of the file, and of its variables as the CPU gets them: 16-bit floats are widened to 32.
    size: int
    on_cpu: int
    #: Attention heads of the encoder, and the places it listens to; None = it does not say.
    heads: int | None = None
    places: int | None = None


class _File:
    """Reads numbers from a file and never goes past its end."""

    def __init__(self, path: Path, stream: BinaryIO) -> None:
        self.path, self.stream = path, stream
        self.size = stream.seek(0, 2)
        stream.seek(0)

    def number(self, form: str) -> int:
        value: int = struct.unpack("<" + form, self.bytes(struct.calcsize("<" + form)))[0]
        return value

    def text(self) -> str:
        return self.bytes(self.number("H")).rstrip(b"\0").decode("utf-8", "replace")

    def bytes(self, count: int) -> bytes:
        data = self.stream.read(count)
        if len(data) < count:
            raise WeightsError(f"{self.path} is cut off: finish or repeat the download")
        return data

    def skip(self, count: int) -> None:
        if self.stream.seek(count, 1) > self.size:
            raise WeightsError(f"{self.path} is cut off: finish or repeat the download")


def _read(path: Path) -> Ct2Model:
    try:
        with open_regular(path) as raw, open(os.dup(raw.fileno()), "rb") as stream:
            return _parse(_File(path, stream))
    except FileNotFoundError:
        raise WeightsError(f"{path} does not exist") from None
    except OSError as error:
        raise Unreadable.because(path, error) from error


def _parse(file: _File) -> Ct2Model:
    version = file.number("I")
    if not 0 < version <= _NEWEST:
        raise WeightsError(f"{file.path} is no model of CTranslate2, or one of a later format than {_NEWEST}")
    kind, _revision = file.text(), file.number("I")
    if version < _OLDEST:
        return Ct2Model(kind, file.size, 2 * file.size)
    count = file.number("I")
    if count > _MOST_VARIABLES:
        raise WeightsError(f"{file.path} is damaged: it says it has {count} variables; repeat the download")
    on_cpu, heads, places = 0, None, None
    for _ in range(count):
        name, rank = file.text(), file.number("B")
        if rank > _MOST_DIMENSIONS:
            raise WeightsError(
                f"{file.path} is damaged: a variable has {rank} dimensions; repeat the download"
            )
        shape = [file.number("I") for _ in range(rank)]
        kind_of_number, size = file.number("B"), file.number("I")
        on_cpu += 2 * size if kind_of_number in _WIDENED else size
        if name == _AUDIO and shape:
            places = shape[0]
        if name == _HEADS and size in (1, 2, 4):
            heads = int.from_bytes(file.bytes(size), "little", signed=True)
        else:
            file.skip(size)
    return Ct2Model(kind, file.size, on_cpu, heads, places)


_MODELS: Final = StatCache(_read)


def read(path: Path) -> Ct2Model:
    """Return what the `model.bin` at `path` holds. Blocks. Raises `WeightsError`, and `OSError` for its folder."""
    return _MODELS.get(path)
