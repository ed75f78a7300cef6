"""How many bytes the context of a model takes in the programs that load safetensors."""

import math
from typing import Final, Literal

from reconciler.memory.hf.config import HfShape, Layer

#: The program that serves the model. `other` = not known: then the most any of them takes.
Runtime = Literal["mlx", "vllm", "transformers", "other"]

#: MLX enlarges a cache by so many tokens at a time (mlx-lm, `KVCache.step`), and reads a prompt in chunks of so many
#: (`prefill_step_size`): until the answer begins, a rotating cache keeps the last chunk beside its window.
_MLX_STEP: Final = 256
_MLX_CHUNK: Final = 2048
#: vLLM hands out blocks of so many tokens, and computes at most so many at once (`max_num_batched_tokens` of its
#: server); a window needs room for those besides, and one block more (`SlidingWindowSpec`).
_VLLM_BLOCK: Final = 16
_VLLM_BATCH: Final = 8192


def kv_bytes(
    shape: HfShape, tokens: int, slots: int, bytes_per_element: float, runtime: Runtime
) -> int | None:
    """Return the bytes of keys, values and states when each of `slots` has `tokens`; None = the shape is unknown.

    For vLLM, whose pool has a fixed size, these are the bytes the pool needs to have. Multi-head latent attention is
    kept compressed by MLX and vLLM (kv_lora_rank + qk_rope_head_dim for a layer and token), and with all heads by
    transformers. Sources: mlx-lm `models/cache.py`, vLLM `kv_cache_interface.py`, transformers `cache_utils.py`.
    """
    if shape.layers is None:
        return None
    if tokens < 0 or slots < 0 or bytes_per_element <= 0:
        raise ValueError("tokens and slots are counts, and an element has bytes")
    kept, state = 0, 0
    for layer in shape.layers:
        each = layer.elements if runtime in ("mlx", "vllm") else layer.expanded
        kept += each * _cells(layer, tokens, slots, runtime)
        state += layer.state * slots
    return math.ceil(kept * bytes_per_element) + 4 * state


def context_block(runtime: Runtime) -> int:
    """Return the tokens by which a program enlarges the context of one slot; 0 = it takes any number of them."""
    return {"mlx": _MLX_STEP, "vllm": _VLLM_BLOCK}.get(runtime, 0)


def _cells(layer: Layer, tokens: int, slots: int, runtime: Runtime) -> int:
    """Return the tokens that `layer` keeps, over all slots."""
    window = layer.window
    match runtime:
        case "mlx":
            full = _padded(tokens, _MLX_STEP)
            if window is None:
                return full * slots
            # One prompt is read at a time.
            chunk = min(full, window + _MLX_CHUNK) - min(full, window) if slots else 0
            return min(full, window) * slots + chunk
        case "vllm":
            if window is None:
                return _padded(tokens, _VLLM_BLOCK) * slots
            return (_padded(min(tokens, window - 1 + _VLLM_BATCH), _VLLM_BLOCK) + _VLLM_BLOCK) * slots
        case "transformers" | "other":
            # A prompt is read at once, and the window is cut from it as a view: until the next token the whole stays.
            return tokens * slots


def _padded(tokens: int, step: int) -> int:
    return -(-tokens // step) * step
