"""What a model of safetensors will hold, before it is loaded."""

from typing import Final

from reconciler.core.memory import Estimate
from reconciler.memory.hf.config import HfShape
from reconciler.memory.hf.kv import Runtime, kv_bytes
from reconciler.memory.hf.weights import HfWeights

_MIB: Final = 1 << 20
_GIB: Final = 1 << 30
#: Buffers: the start value for llama.cpp with flash attention, 300 MiB or 2 % of the weights. The measurement of
#: the running model replaces it.
_COMPUTE: Final = 300 * _MIB
_COMPUTE_SHARE: Final = 2
#: A CUDA or ROCm context takes 0.3 to 0.7 GiB a process.
_DRIVER: Final = 700 * _MIB
#: vLLM on shared memory, above its budget while it profiles and compiles: 83 GiB budget, 112 GiB used
#: (vllm-project/vllm#46307); up to 30 GB with torch.compile (eugr/spark-vllm-docker#286).
_VLLM_PROFILING: Final = 30 * _GIB


def estimate(
    weights: HfWeights,
    shape: HfShape,
    tokens: int,
    slots: int,
    kv_bytes_per_element: float,
    runtime: Runtime,
    prompt_cache: int = 0,
) -> Estimate:
    """Return the parts, in bytes, with `slots` contexts of `tokens` each.

    `prompt_cache` is what the server may keep of earlier prompts (`--prompt-cache-bytes` of MLX). `weights` are the
    tensors' bytes as stored; `context` is None where the shape is unknown; `compute` is None for `other`: a program
    that is not known may compute with anything. For `loading` see `load_extra`.
    """
    known = runtime != "other"
    stored = weights.tensor_bytes
    return Estimate(
        weights=stored,
        context=kv_bytes(shape, tokens, slots, kv_bytes_per_element, runtime),
        compute=max(_COMPUTE, stored * _COMPUTE_SHARE // 100) if known else None,
        cache=prompt_cache,
        overhead=_DRIVER if runtime in ("vllm", "transformers") else 0,
        loading=load_extra(weights, shape, runtime),
    )


def load_extra(weights: HfWeights, shape: HfShape, runtime: Runtime) -> int:
    """Return the bytes above the steady size while the model loads.

    MLX: 10 % of the weights; 120 % if they must be converted (AWQ 3.97 -> 8.67 GB, ml-explore/mlx-lm#1121).
    transformers, and the bound for any other: the largest file and 10 % (53.5 GB for 42,
    huggingface/transformers#16844); the weights once more if the configuration states no type, since they are then
    loaded as f32 (#34743). vLLM: 30 GiB, whatever the model.
    """
    stored = weights.tensor_bytes
    match runtime:
        case "mlx":
            native = shape.quantization is None or shape.quantization.method == "mlx"
            return -(-stored * (10 if native else 120) // 100)
        case "vllm":
            return _VLLM_PROFILING
        case "transformers" | "other":
            extra = weights.largest_shard + -(-stored // 10)
            return max(extra, stored) if shape.dtype is None else extra
