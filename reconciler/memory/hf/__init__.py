"""Hugging Face and MLX models: a folder of `.safetensors` files and a `config.json`. All of it is untrusted input."""

from reconciler.memory.hf.cache import StatCache
from reconciler.memory.hf.config import HfShape, Layer, Quantization, read_shape
from reconciler.memory.hf.estimate import estimate, load_extra
from reconciler.memory.hf.instead import check_folder
from reconciler.memory.hf.kv import Runtime, context_block, kv_bytes
from reconciler.memory.hf.safetensors import Safetensors, read_safetensors
from reconciler.memory.hf.weights import HfWeights, WeightsError, find_model, holds_safetensors

__all__ = [
    "HfShape",
    "HfWeights",
    "Layer",
    "Quantization",
    "Runtime",
    "Safetensors",
    "StatCache",
    "WeightsError",
    "check_folder",
    "context_block",
    "estimate",
    "find_model",
    "holds_safetensors",
    "kv_bytes",
    "load_extra",
    "read_safetensors",
    "read_shape",
]
