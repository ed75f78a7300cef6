"""GGUF files: what is in them, and whether they can be loaded at all. Every file is untrusted input."""

from reconciler.memory.gguf.files import Weights, WeightsError, find_weights
from reconciler.memory.gguf.header import Array, Header, Scalar, Tensor, Value

__all__ = ["Array", "Header", "Scalar", "Tensor", "Value", "Weights", "WeightsError", "find_weights"]
