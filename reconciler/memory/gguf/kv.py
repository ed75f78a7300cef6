"""How many bytes llama.cpp sets aside for the context, to the byte (llama-kv-cache.cpp, llama-kv-cache-iswa.cpp)."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from reconciler.memory.gguf.shape import Layer, ModelShape

#: The cache is handed out in blocks of this many tokens.
_BLOCK: Final = 256
#: Bytes of one element: quantised types keep blocks of 32 with a scale each.
ELEMENT: Final = {
    "f32": Fraction(4),
    "f16": Fraction(2),
    "bf16": Fraction(2),
    "q8_0": Fraction(34, 32),
    "q5_1": Fraction(24, 32),
    "q5_0": Fraction(22, 32),
    "q4_1": Fraction(20, 32),
    "q4_0": Fraction(18, 32),
    "iq4_nl": Fraction(18, 32),
}


@dataclass(frozen=True, slots=True)
class Cache:
    """How the context is laid out. `tokens` is that of all slots together."""

    tokens: int
    slots: int = 1
    #: All slots share one pool of tokens.
    unified: bool = False
    #: A name of `ELEMENT`.
    key_type: str = "f16"
    value_type: str = "f16"
    #: Tokens computed at once: a window needs room for them besides.
    micro_batch: int = 512
    #: Windowed layers keep everything, too.
    full_windows: bool = False
    #: Without flash attention values lie transposed, and each layer gets as many as the largest.
    flash: bool = True


def tokens_of_a_slot(cache: Cache) -> int:
    """Return the tokens llama.cpp really gives each slot (all of them, where they share): rounded up to 256."""
    tokens = _padded(max(1, cache.tokens))
    return tokens if cache.unified else _padded(max(1, tokens // cache.slots))


def cells(shape: ModelShape, cache: Cache) -> tuple[int, int]:
    """Return the tokens kept by full and by windowed layers, over all slots."""
    streams = 1 if cache.unified else cache.slots
    full = tokens_of_a_slot(cache)
    window = max((layer.window for layer in shape.layers if layer.window is not None), default=0)
    return full * streams, _windowed(full, window, cache) * streams


def context_bytes(shape: ModelShape, cache: Cache) -> int:
    """Return the bytes of keys, values and states of all slots. Raises `KeyError` for an unknown type."""
    if shape.cacheless:
        return 0
    streams = 1 if cache.unified else cache.slots
    full = tokens_of_a_slot(cache)
    most = max((layer.kv_heads * layer.value for layer in shape.layers), default=0)
    total = 0
    for layer in shape.layers:
        kept = full if layer.window is None else _windowed(full, layer.window, cache)
        values = layer.kv_heads * layer.value
        if values and not cache.flash:
            values = most
        total += int(kept * streams * _token_bytes(layer, values, cache)) + 4 * layer.state * cache.slots
    return total


def context_step(shape: ModelShape, cache: Cache) -> tuple[int, int]:
    """Return the tokens of all slots by which the context is rounded up, and the bytes that so many fewer free.

    Windowed layers are full long before the others, and free nothing then.
    """
    streams = 1 if cache.unified else cache.slots
    step, there = _BLOCK * streams, tokens_of_a_slot(cache) * streams
    if there <= step:
        return step, 0
    fewer = replace(cache, tokens=there - step)
    return step, context_bytes(shape, replace(cache, tokens=there)) - context_bytes(shape, fewer)


def state_bytes(shape: ModelShape, cache: Cache) -> int:
    """Return the bytes of one slot's windows and states: what a copy for going back in a text takes.

    Only tokens that the window still reaches are copied; full layers need no copy, their older tokens are there.
    """
    if shape.cacheless:
        return 0
    total = 0
    for layer in shape.layers:
        total += 4 * layer.state
        if layer.window is not None and not cache.full_windows:
            kept = min(tokens_of_a_slot(cache), layer.window)
            total += math.ceil(kept * _token_bytes(layer, layer.kv_heads * layer.value, cache))
    return total


def _windowed(full: int, window: int, cache: Cache) -> int:
    if cache.full_windows:
        return full
    sharers = cache.slots if cache.unified else 1
    return _padded(min(full, window * sharers + cache.micro_batch))


def _token_bytes(layer: Layer, values: int, cache: Cache) -> Fraction:
    keys = layer.kv_heads * layer.key + layer.index
    return keys * ELEMENT[cache.key_type] + values * ELEMENT[cache.value_type]


def _padded(tokens: int) -> int:
    return -(-tokens // _BLOCK) * _BLOCK
