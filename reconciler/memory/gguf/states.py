"""Which layers carry a state of fixed size instead of, or besides, keys and values (Mamba, RWKV, delta nets).

Sizes as in llama.cpp's `n_embd_r` and `n_embd_s` (llama-hparams.cpp); elements are f32.
"""

from typing import Final

from reconciler.memory.gguf.keys import Keys

#: All their layers carry a state, and none has keys and values.
PURE: Final = frozenset({"arwkv7", "mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7"})
#: Every layer has both.
_BOTH: Final = frozenset({"falcon-h1"})
#: Every fourth layer attends unless the file says otherwise.
_INTERVALS: Final = {"qwen35": 4, "qwen35moe": 4, "qwen3next": 4, "qwen4exp": 4}
#: A layer without heads is a feed-forward layer where this is stated, else it carries a state.
_FEED_FORWARD: Final = {"nemotron_h": "feed_forward_length", "nemotron_h_moe": "feed_forward_length"}
#: Some of their layers carry a state, whatever else the file says or lacks (llama-arch.cpp, `llm_arch_is_hybrid`).
_HYBRID: Final = frozenset(
    {
        "granitehybrid",
        "jamba",
        "kimi-linear",
        "lfm2",
        "lfm2moe",
        "nemotron_h",
        "nemotron_h_moe",
        "plamo2",
        *_BOTH,
        *_INTERVALS,
    }
)
#: The key that says how large a state is; of all others it is the three of `_SSM`.
_SIZED_BY: Final = {
    "arwkv7": "wkv.head_size",
    "kimi-linear": "kda.head_dim",
    "lfm2": "shortconv.l_cache",
    "lfm2moe": "shortconv.l_cache",
    "rwkv6": "wkv.head_size",
    "rwkv6qwen2": "wkv.head_size",
    "rwkv7": "wkv.head_size",
}
_SSM: Final = ("ssm.state_size", "ssm.inner_size", "ssm.conv_kernel")
_SIGNS: Final = ("ssm.state_size", "shortconv.l_cache", "wkv.head_size", "kda.head_dim")


def recurrent(keys: Keys, kv_heads: tuple[int, ...]) -> tuple[bool, ...]:
    """Return for each layer whether it carries a state. `kv_heads` is what the file says of each."""
    layers = len(kv_heads)
    if keys.arch in PURE or keys.arch in _BOTH:
        return (True,) * layers
    stated = keys.array("attention.recurrent_layers")
    if stated is not None and len(stated) >= layers:
        return tuple(bool(item) for item in stated[:layers])
    interval = keys.optional("full_attention_interval") or _INTERVALS.get(keys.arch)
    if interval:
        return tuple((i + 1) % interval != 0 for i in range(layers))
    if keys.arch not in _HYBRID and not any(keys.has(sign) for sign in _SIGNS):
        return (False,) * layers
    feed_forward = (0,) * layers
    if name := _FEED_FORWARD.get(keys.arch):
        feed_forward = keys.per_layer(name, layers, feed_forward)
    return tuple(heads == 0 and width == 0 for heads, width in zip(kv_heads, feed_forward, strict=True))


def has_both(keys: Keys) -> bool:
    """Return whether a layer with a state attends as well."""
    return keys.arch in _BOTH


def state_elements(keys: Keys, embedding: int, heads: int) -> int:
    """Return the f32 elements one recurrent layer keeps for one slot, more than 0. Raises `ShapeUnknown`."""
    if name := _SIZED_BY.get(keys.arch):
        keys.positive(name)
    if head := keys.or_zero("wkv.head_size"):
        shifts = keys.optional("token_shift_count")
        return embedding * ((2 if shifts is None else shifts) + head)
    if keys.has("shortconv.l_cache"):
        # The last input is kept with the next one: a cache of one keeps none.
        length = keys.number("shortconv.l_cache")
        if length < 2:
            raise keys.senseless("shortconv.l_cache", length)
        return embedding * (length - 1)
    if size := keys.or_zero("kda.head_dim"):
        kernel = max(0, keys.or_zero("ssm.conv_kernel") - 1)
        heads = heads or keys.positive("attention.head_count")
        return 3 * (kernel or 3) * heads * size + size * size * heads
    state, inner, kernel = (keys.positive(name) for name in _SSM)
    return (kernel - 1) * (inner + 2 * keys.or_zero("ssm.group_count") * state) + state * inner
