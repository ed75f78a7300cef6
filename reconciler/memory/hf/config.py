"""What of a model's shape decides the memory it takes, read from `config.json`.

Which key means what is transformers' convention (the `configuration_*.py` of each family).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from reconciler.memory.hf.keys import Keys, ShapeUnknown, text_model
from reconciler.memory.hf.kinds import Kind, kinds
from reconciler.memory.hf.states import state_elements

#: Real models have some hundred; a configuration with far more is damaged.
_MOST_LAYERS: Final = 4096
#: What transformers takes where the file says nothing, for families whose published files leave it out.
_DEFAULTS: Final[Mapping[str, Mapping[str, object]]] = {
    "gemma3_text": {
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "sliding_window": 4096,
        "sliding_window_pattern": 6,
        "max_position_embeddings": 131072,
    },
    "gemma4_text": {
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "global_head_dim": 512,
        "sliding_window": 512,
        "sliding_window_pattern": 6,
        "max_position_embeddings": 131072,
    },
}


@dataclass(frozen=True, slots=True)
class Layer:
    """What one layer keeps of the tokens seen."""

    #: Elements of keys and values together for each token; 0 = none are kept.
    elements: int
    #: The same where a program keeps all heads although a compressed form would do (MLA).
    expanded: int
    #: Tokens of its window; None = it keeps all.
    window: int | None = None
    #: f32 elements for each slot, whatever the context.
    state: int = 0


@dataclass(frozen=True, slots=True)
class Quantization:
    """How the stored weights are compressed: `mlx`, or the `quant_method` of the configuration."""

    method: str
    bits: int | None = None
    group_size: int | None = None


@dataclass(frozen=True, slots=True)
class HfShape:
    """The shape of one model. None = the configuration does not say."""

    #: None = not known; then `unknown` says why, in one sentence.
    layers: tuple[Layer, ...] | None
    unknown: str = ""
    #: Longest context it was made for, in tokens.
    max_tokens: int | None = None
    #: Type its weights are meant to be computed in, as written: `bfloat16`.
    dtype: str | None = None
    quantization: Quantization | None = None


def read_shape(config: Mapping[str, object]) -> HfShape:
    """Return the shape; what cannot be told is None. Raises nothing for any content of a JSON object."""
    keys = _with_defaults(config, text_model(config))
    dtype = next(
        (t for k in (keys, Keys(config)) for t in (k.text("dtype"), k.text("torch_dtype")) if t), None
    )
    compressed = _quantization(config) or _quantization(keys.values)
    layers: tuple[Layer, ...] | None = None
    length, unknown = None, ""
    try:
        length = keys.optional("max_position_embeddings", "n_positions", "max_seq_len", "seq_length") or None
        layers = _layers(keys)
    except ShapeUnknown as error:
        unknown = str(error)
    return HfShape(layers, unknown, length, dtype, compressed)


def _with_defaults(config: Mapping[str, object], keys: Keys) -> Keys:
    model = keys.text("model_type")
    if keys.prefix and not model:
        model = f"{Keys(config).text('model_type')}_text"
    stated = {name: value for name, value in keys.values.items() if value is not None}
    defaults = dict(_DEFAULTS.get(model, {}))
    if "_sliding_window_pattern" in stated:
        defaults.pop("sliding_window_pattern", None)
    return Keys({**defaults, **stated}, keys.prefix)


def _layers(keys: Keys) -> tuple[Layer, ...]:
    if not keys.values:
        raise ShapeUnknown("there is no config.json, or it is empty")
    if keys.values.get("is_encoder_decoder") is True:
        raise ShapeUnknown(
            "config.json describes a model with encoder and decoder, whose cache is not worked out"
        )
    count = keys.number("num_hidden_layers", "n_layer", "n_layers", "num_layers")
    if not 0 < count <= _MOST_LAYERS:
        raise keys.senseless("num_hidden_layers")
    each = kinds(keys, count)
    state = state_elements(keys) if Kind.STATE in each or Kind.BOTH in each else 0
    owners = count - min(count, keys.or_zero("num_kv_shared_layers"))
    return tuple(_layer(keys, kind, i, state, shares=i >= owners) for i, kind in enumerate(each))


def _layer(keys: Keys, kind: Kind, index: int, state: int, *, shares: bool) -> Layer:
    """Return what layer `index` keeps. `shares` = it uses the keys and values of an earlier one."""
    if kind is Kind.STATE or kind is Kind.NOTHING or shares:
        return Layer(0, 0, None, state if kind is Kind.STATE else 0)
    elements, expanded = _token_elements(keys, kind, index)
    window = None
    if kind is Kind.WINDOW:
        window = keys.optional("sliding_window")
    elif kind is Kind.CHUNK:
        window = keys.optional("attention_chunk_size")
    return Layer(elements, expanded, window or None, state if kind is Kind.BOTH else 0)


def _token_elements(keys: Keys, kind: Kind, index: int) -> tuple[int, int]:
    """Return the elements kept for each token: as few as possible, and with all heads."""
    heads = keys.number("num_attention_heads", "n_head", "n_heads")
    rank = keys.or_zero("kv_lora_rank")
    if rank:
        rope = keys.number("qk_rope_head_dim")
        # Sparse attention (DeepSeek V3.2) keeps one more small key to choose by.
        chooser = keys.or_zero("index_head_dim")
        each = keys.number("qk_nope_head_dim") + rope + keys.number("v_head_dim")
        return rank + rope + chooser, heads * each + chooser
    kv_heads = _kv_heads(keys, index, heads)
    key = keys.optional("head_dim")
    if kind is Kind.FULL and keys.has("global_head_dim"):
        key = keys.number("global_head_dim")
        if keys.values.get("attention_k_eq_v") is True:
            kv_heads = keys.optional("num_global_key_value_heads") or kv_heads
    if key is None:
        if not heads:
            raise keys.senseless("num_attention_heads")
        key = keys.number("hidden_size", "n_embd", "d_model") // heads
    value = keys.optional("v_head_dim")
    elements = kv_heads * (key + (key if value is None else value))
    return elements, elements


def _kv_heads(keys: Keys, index: int, heads: int) -> int:
    stated = keys.items("num_key_value_heads")
    if stated is None:
        found = keys.optional("num_key_value_heads", "num_kv_heads", "n_head_kv")
        return heads if found is None else found
    if index >= len(stated):
        raise keys.senseless("num_key_value_heads")
    return Keys({"num_key_value_heads": stated[index]}, keys.prefix).number("num_key_value_heads")


def _quantization(values: Mapping[str, object]) -> Quantization | None:
    for name, method in (("quantization", "mlx"), ("quantization_config", "")):
        stated = values.get(name)
        if isinstance(stated, dict) and stated:
            found = method or Keys(stated).text("quant_method") or "unknown"
            return Quantization(
                found, _count(stated, "bits", "w_bit"), _count(stated, "group_size", "q_group_size")
            )
    return None


def _count(values: Mapping[str, object], *names: str) -> int | None:
    found = (values.get(name) for name in names)
    return next((value for value in found if type(value) is int and value > 0), None)
