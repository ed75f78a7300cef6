"""What the header of a GGUF file says: keys, tensors, and where the data begins."""

from collections.abc import Mapping
from dataclasses import dataclass

Scalar = int | float | bool | str


@dataclass(frozen=True, slots=True)
class Array:
    """An array of a header. Long ones and those of texts (vocabularies) are only counted."""

    count: int
    #: The items, or empty if they were only counted.
    items: tuple[Scalar, ...] = ()


Value = Scalar | Array


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of a file."""

    name: str
    #: Elements along each axis, the fastest first.
    shape: tuple[int, ...]
    #: GGML type number.
    type: int
    #: Bytes from the start of the data.
    offset: int
    #: Bytes it takes; None = its type is not known.
    size: int | None


@dataclass(frozen=True, slots=True)
class Header:
    """The header of one file, or of a whole split set: keys of the first part, tensors of all."""

    version: int
    keys: Mapping[str, Value]
    tensors: tuple[Tensor, ...]
    #: Bytes from the start of the file to its data.
    data_offset: int
    #: What was odd and could be passed over, one sentence each.
    oddities: tuple[str, ...] = ()
