"""GGUF files: what is in them, and whether they can be loaded at all. Every file is untrusted input."""

from reconciler.memory.gguf.files import Weights, find_weights, mapped_key, split_of
from reconciler.memory.gguf.header import Array, Header, Scalar, Tensor, Value
from reconciler.memory.gguf.parse import parse, read_header
from reconciler.memory.gguf.reader import Unreadable, WeightsError
from reconciler.memory.gguf.tensors import tensor_bytes

__all__ = [
    "Array",
    "Header",
    "Scalar",
    "Tensor",
    "Unreadable",
    "Value",
    "Weights",
    "WeightsError",
    "find_weights",
    "mapped_key",
    "parse",
    "read_header",
    "split_of",
    "tensor_bytes",
]
