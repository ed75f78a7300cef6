"""What of a model's shape decides the memory it takes, read from the keys of its header.

Which key means what is llama.cpp's convention (gguf-py `constants.py`, llama-model.cpp `load_hparams`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from reconciler.memory.gguf.header import Array, Header
from reconciler.memory.gguf.keys import Keys, ShapeUnknown
from reconciler.memory.gguf.states import PURE, has_both, recurrent, state_elements
from reconciler.memory.gguf.windows import windows

__all__ = ["Layer", "ModelShape", "ShapeUnknown", "read_shape"]

#: llama.cpp takes at most 512; a header with far more is damaged.
_MOST_LAYERS: Final = 4096
#: These read a whole input at once and keep nothing of it.
_NO_CACHE: Final = frozenset(
    {
        "bert",
        "dream",
        "eurobert",
        "jina-bert-v2",
        "jina-bert-v3",
        "llada",
        "llada-moe",
        "modern-bert",
        "neo-bert",
        "nomic-bert",
        "nomic-bert-moe",
        "rnd1",
        "t5encoder",
        "wavtokenizer-dec",
    }
)
#: Of the embedding: what most models have between the two feed-forward matrices, or less.
_USUAL_WIDTH: Final = 4
#: Layers from this one on use the keys and values of an earlier one.
_SHARED_FROM: Final = {"gemma3n": 20}
#: Their attention also keeps one small key per token for choosing what to attend to.
_INDEXED: Final = frozenset({"deepseek32", "glm-dsa"})


@dataclass(frozen=True, slots=True)
class Layer:
    """What one layer keeps of the tokens seen."""

    #: Heads whose keys and values are kept; 0 = it keeps none.
    kv_heads: int
    #: Elements of one head's key and value. `value` 0 = only keys are kept (multi-head latent attention).
    key: int
    value: int
    #: Tokens of its sliding window; None = it attends to all.
    window: int | None = None
    #: f32 elements kept for each slot, whatever the context.
    state: int = 0
    #: Elements kept for each token besides, in the type of the keys.
    index: int = 0


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The shape of one model. Counts; None = the file does not say."""

    arch: str
    layers: tuple[Layer, ...]
    embedding: int
    #: Query heads, the most of any layer; 0 = it does not attend.
    heads: int
    #: Elements of one query head, the most of any layer.
    head: int
    feed_forward: int
    vocabulary: int | None
    context_length: int | None
    experts: int = 0
    experts_used: int = 0
    expert_feed_forward: int = 0
    #: Elements of a recurrent layer's inner row; 0 = it has none.
    inner: int = 0
    #: Reads a whole input at once, keeps nothing.
    cacheless: bool = False


def read_shape(header: Header) -> ModelShape:
    """Return the shape of the model. Raises `ShapeUnknown` with a sentence that names the missing key."""
    arch = header.keys.get("general.architecture")
    if not isinstance(arch, str) or not arch:
        raise ShapeUnknown("the weights' header has no general.architecture")
    keys = Keys(header.keys, arch)
    count = _layer_count(keys)
    embedding = keys.positive("embedding_length")
    heads = _heads(keys, count)
    layers = _layers(keys, count, embedding, heads)
    return ModelShape(
        arch=arch,
        layers=layers,
        embedding=embedding,
        heads=max(heads, default=0),
        head=max((layer.key for layer in layers), default=0),
        feed_forward=_feed_forward(keys, header, count, embedding),
        vocabulary=_vocabulary(keys, header),
        context_length=keys.optional("context_length"),
        experts=keys.or_zero("expert_count"),
        experts_used=keys.or_zero("expert_used_count"),
        expert_feed_forward=keys.or_zero("expert_feed_forward_length"),
        inner=_inner(keys, embedding),
        cacheless=arch in _NO_CACHE,
    )


def _layer_count(keys: Keys) -> int:
    blocks = keys.number("block_count")
    if not 0 < blocks <= _MOST_LAYERS:
        raise ShapeUnknown(f"{keys.arch}.block_count in the weights' header makes no sense: {blocks}")
    # Layers that predict further tokens are no part of the main model's cache.
    return max(1, blocks - keys.or_zero("nextn_predict_layers"))


def _heads(keys: Keys, count: int) -> tuple[int, ...]:
    return keys.per_layer("attention.head_count", count, (0,) * count if keys.arch in PURE else None)


def _layers(keys: Keys, count: int, embedding: int, heads: tuple[int, ...]) -> tuple[Layer, ...]:
    if keys.arch in PURE:
        state = state_elements(keys, embedding, max(heads, default=0))
        return (Layer(0, 0, 0, state=state),) * count
    keys.refuse_zero("attention.head_count")
    keys.refuse_zero("attention.head_count_kv")
    kv_heads = keys.per_layer("attention.head_count_kv", count, heads)
    widths = windows(keys, count)
    carries = recurrent(keys, kv_heads)
    attends = [not state or has_both(keys) for state in carries]
    state = state_elements(keys, embedding, max(heads, default=0)) if any(carries) else 0
    first_shared = _first_shared(keys, count)
    index = keys.or_zero("attention.indexer.key_length") if keys.arch in _INDEXED else 0
    layers = []
    for i in range(count):
        keeps = attends[i] and i < first_shared and kv_heads[i] > 0
        key, value = _lengths(keys, embedding, max(heads), windowed=widths[i] is not None)
        latent = _latent(keys, kv_heads[i], key)
        if keeps:
            _check_lengths(keys, key, value, max(heads), latent=latent)
        layers.append(
            Layer(
                kv_heads=kv_heads[i] if keeps else 0,
                key=key,
                value=0 if latent else value,
                window=widths[i],
                state=state if carries[i] else 0,
                index=index if keeps else 0,
            )
        )
    _check_kept(keys, layers, max(kv_heads))
    return tuple(layers)


def _check_lengths(keys: Keys, key: int, value: int, heads: int, *, latent: bool) -> None:
    """Raise `ShapeUnknown` for heads that keep tokens in no bytes."""
    if not heads:
        raise keys.senseless("attention.head_count", "0 in each layer")
    lengths = {"attention.key_length": key} | ({} if latent else {"attention.value_length": value})
    for name, length in lengths.items():
        if not length:
            raise keys.senseless(name, 0) if keys.has(name) else keys.senseless("attention.head_count", heads)


def _check_kept(keys: Keys, layers: Sequence[Layer], kv_heads: int) -> None:
    """Raise `ShapeUnknown` if no layer keeps anything: no model that attends, or carries a state, is like that."""
    if any(layer.kv_heads or layer.state for layer in layers):
        return
    if kv_heads:
        raise keys.senseless("attention.shared_kv_layers", "no layer keeps anything")
    name = "attention.head_count_kv" if keys.has("attention.head_count_kv") else "attention.head_count"
    raise keys.senseless(name, "0 in each layer")


def _first_shared(keys: Keys, count: int) -> int:
    shared = keys.optional("attention.shared_kv_layers")
    if shared is not None:
        return max(0, count - shared)
    return _SHARED_FROM.get(keys.arch, count)


def _lengths(keys: Keys, embedding: int, heads: int, *, windowed: bool) -> tuple[int, int]:
    """Return the elements of one head's key and value."""
    default = embedding // heads if heads else 0
    key, value = keys.optional("attention.key_length"), keys.optional("attention.value_length")
    if windowed:
        key = keys.optional("attention.key_length_swa") or key
        value = keys.optional("attention.value_length_swa") or value
    return default if key is None else key, default if value is None else value


def _latent(keys: Keys, kv_heads: int, key: int) -> bool:
    """Return whether only a compressed key is kept, from which the value is made as well.

    Files made before that was possible keep all heads in full, and have a `head_count_kv` of many.
    """
    rank = keys.or_zero("attention.kv_lora_rank")
    if not rank or kv_heads != 1:
        return False
    return keys.has("attention.key_length_mla") or key == rank + keys.or_zero("rope.dimension_count")


def _feed_forward(keys: Keys, header: Header, count: int, embedding: int) -> int:
    """Return the widest inner row of the feed-forward parts; where nothing tells it, four times the embedding."""
    stated = max(keys.per_layer("feed_forward_length", count, (0,)), default=0)
    if stated or keys.arch in PURE:
        return stated
    rows = [t.shape[1] for t in header.tensors if t.name.endswith(".ffn_up.weight") and len(t.shape) == 2]
    return max(rows, default=_USUAL_WIDTH * embedding)


def _inner(keys: Keys, embedding: int) -> int:
    inner, state = keys.or_zero("ssm.inner_size"), keys.or_zero("ssm.state_size")
    if inner:
        return inner + 2 * keys.or_zero("ssm.group_count") * state
    return embedding if keys.has("wkv.head_size") or keys.has("shortconv.l_cache") else 0


def _vocabulary(keys: Keys, header: Header) -> int | None:
    tokens = header.keys.get("tokenizer.ggml.tokens")
    if isinstance(tokens, Array):
        return tokens.count
    stated = keys.optional("vocab_size")
    if stated is not None:
        return stated
    embeddings = [t for t in header.tensors if t.name == "token_embd.weight" and len(t.shape) == 2]
    return embeddings[0].shape[1] if embeddings else None
