"""What each layer of a model keeps: everything, a window, a state of fixed size, or nothing.

The keys are those of transformers' configurations; where a key is missing, the same default as there.
"""

from collections.abc import Iterable
from enum import Enum
from typing import Final

from reconciler.memory.hf.keys import Keys, ShapeUnknown


class Kind(Enum):
    """What a layer keeps of the tokens seen."""

    FULL = "full"
    WINDOW = "window"
    CHUNK = "chunk"
    STATE = "state"
    #: Keys and values, and a state.
    BOTH = "both"
    NOTHING = "nothing"


_NAMES: Final = {
    "full_attention": Kind.FULL,
    "attention": Kind.FULL,
    "sliding_attention": Kind.WINDOW,
    "chunked_attention": Kind.CHUNK,
    "linear_attention": Kind.STATE,
    "mamba": Kind.STATE,
    "mamba2": Kind.STATE,
    "conv": Kind.STATE,
    "mlp": Kind.NOTHING,
    "moe": Kind.NOTHING,
}
#: Letters of `hybrid_override_pattern` (Nemotron-H) and of a `sliding_window_pattern` that is a text (EXAONE 4).
_HYBRID: Final = {"M": Kind.STATE, "*": Kind.FULL, "-": Kind.NOTHING, "E": Kind.NOTHING}
_LOCAL: Final = {"L": Kind.WINDOW, "G": Kind.FULL}
_PURE: Final = frozenset({"mamba", "mamba2", "falcon_mamba"})
_BOTH: Final = frozenset({"falcon_h1"})
#: Ways to say it that are not understood: the layers could be anything.
_FOREIGN: Final = (
    "attention_other_setting",
    "attn_type_list",
    "block_types",
    "compress_ratios",
    "hybrid_layer_pattern",
    "layers_block_type",
    "linear_attn_config",
    "per_layer_config",
    "wkv_head_size",
)
#: Keys of layers with a state. Where nothing says which layers those are, none may be taken for plain attention.
_STATE_SIGNS: Final = (
    "conv_L_cache",
    "linear_num_value_heads",
    "mamba_d_state",
    "ssm_state_size",
    "state_size",
)


def kinds(keys: Keys, layers: int) -> tuple[Kind, ...]:
    """Return what each layer keeps. Raises `ShapeUnknown`.

    Where only the width of a window is stated and not the layers it applies to, all layers keep everything: most
    programs do so, and a window taken for granted would make the estimate too small.
    """
    for name in _FOREIGN:
        if keys.has(name):
            raise ShapeUnknown(
                f"{keys.prefix}{name} in config.json describes layers of a kind that is not known"
            )
    model = keys.text("model_type")
    if model in _PURE or model in _BOTH:
        return (Kind.BOTH if model in _BOTH else Kind.STATE,) * layers
    found = _named(keys, layers) or _hybrid(keys, layers)
    if found is None and any(keys.has(sign) for sign in _STATE_SIGNS):
        raise ShapeUnknown(f"config.json has no {keys.prefix}layer_types")
    return found or _windowed(keys, layers)


def _named(keys: Keys, layers: int) -> tuple[Kind, ...] | None:
    names = keys.items("layer_types")
    if names is None:
        return None
    if len(names) < layers:
        raise ShapeUnknown(f"{keys.prefix}layer_types in config.json names {len(names)} of {layers} layers")
    for name in names[:layers]:
        if not isinstance(name, str) or name not in _NAMES:
            raise ShapeUnknown(
                f"{keys.prefix}layer_types in config.json has a kind that is not known: {name!r:.40}"
            )
    return tuple(_NAMES[name] for name in names[:layers] if isinstance(name, str))


def _hybrid(keys: Keys, layers: int) -> tuple[Kind, ...] | None:
    """Return what the layers of a model keep of which some attend and the others have a state."""
    if pattern := keys.text("hybrid_override_pattern"):
        return _letters(keys, "hybrid_override_pattern", pattern, _HYBRID, layers)
    for name in ("attn_layer_indices", "full_attn_idxs"):
        indices = keys.items(name)
        if indices is not None:
            return _attending(i in indices for i in range(layers))
    if period := keys.optional("attn_layer_period"):
        offset = keys.or_zero("attn_layer_offset")
        return _attending(i % period == offset for i in range(layers))
    default = 4 if keys.has("linear_num_value_heads") else None
    if interval := keys.optional("full_attention_interval") or default:
        return _attending((i + 1) % interval == 0 for i in range(layers))
    return None


def _windowed(keys: Keys, layers: int) -> tuple[Kind, ...]:
    if keys.values.get("use_sliding_window") is False:
        return (Kind.FULL,) * layers
    for name in ("sliding_window_pattern", "_sliding_window_pattern"):
        if pattern := keys.text(name):
            letters = pattern * (layers // len(pattern) + 1)
            return _letters(keys, name, letters[:layers], _LOCAL, layers)
        if period := keys.optional(name):
            return tuple(Kind.FULL if (i + 1) % period == 0 else Kind.WINDOW for i in range(layers))
    first = keys.optional("max_window_layers")
    if keys.values.get("use_sliding_window") is True and first is not None:
        return tuple(Kind.WINDOW if i >= first else Kind.FULL for i in range(layers))
    return (Kind.FULL,) * layers


def _letters(keys: Keys, name: str, text: str, meaning: dict[str, Kind], layers: int) -> tuple[Kind, ...]:
    if len(text) != layers or not set(text) <= set(meaning):
        raise keys.senseless(name)
    return tuple(meaning[letter] for letter in text)


def _attending(which: Iterable[bool]) -> tuple[Kind, ...]:
    return tuple(Kind.FULL if attends else Kind.STATE for attends in which)
