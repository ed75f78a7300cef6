"""What a llama.cpp server holds besides weights and context: buffers it computes in, and what is fixed.

The formulas give what its own log calls `compute buffer size`: exactly for plain transformers, never less for the
others (measured with llama.cpp of October 2026 on the CPU; `python -m benchmarks estimates` checks it).
"""

from dataclasses import dataclass
from typing import Final

from reconciler.memory.gguf.kv import ELEMENT, Cache, cells
from reconciler.memory.gguf.shape import ModelShape

_FLOAT: Final = 4
_HALF: Final = 2
_MIB: Final = 1024 * 1024
#: Interpreter, libraries' data, threads and their stacks, one request.
_BASE: Final = 20 * _MIB
#: Threads and buffers for the requests of one more slot.
_SLOT: Final = 3 * _MIB // 2
#: What a token of the vocabulary takes in the tables for text to tokens and back, and a merge of two besides.
_TOKEN: Final = 215
_MERGE: Final = 200
#: What a slot takes for each token of the vocabulary when it chooses the next one.
_CHOICE: Final = 20
#: For each token in the context: its position, which slots use it, and the request it came with (text, JSON, tokens).
_CELL: Final = 160
#: Small inputs: positions, where to put keys and values, scales; floats for each token computed at once.
_INPUTS: Final = 32
#: Driver context and libraries of a GPU: 0.3 to 0.7 GiB are reported.
GPU_CONTEXT: Final = 700 * _MIB
#: Where nothing is known of the shape: what models of 1 to 70 GB were seen to take with flash attention.
_LEAST_UNKNOWN: Final = 300 * _MIB
#: Where a file does not tell how many tokens it knows: few models know more.
LARGEST_VOCABULARY: Final = 262_144
#: These end in vectors; they have no table that turns them into tokens.
_NO_LOGITS: Final = frozenset(
    {
        "bert",
        "eurobert",
        "gemma-embedding",
        "jina-bert-v2",
        "jina-bert-v3",
        "modern-bert",
        "neo-bert",
        "nomic-bert",
        "nomic-bert-moe",
        "t5encoder",
    }
)


@dataclass(frozen=True, slots=True)
class Work:
    """How much is computed at once."""

    cache: Cache
    #: Tokens whose results are kept of one batch: one a slot, or all of them.
    results: int
    #: Every token of a batch has a result.
    vectors: bool = False


def compute_bytes(shape: ModelShape, work: Work) -> int:
    """Return the bytes of the compute and output buffers."""
    results = work.results * _vocabulary(shape) if _has_logits(shape) else 0
    batch = _rounded(work.cache)
    widest = max(_feed_forward(shape), _attention(shape), _state(shape))
    graph = batch * widest
    last = batch * 5 * shape.embedding + results
    output = work.cache.slots * _vocabulary(shape)
    floats = max(graph, last) + batch * _INPUTS + output
    extra = _masks(shape, work.cache) + _scores(shape, work.cache, _FLOAT) + _turns(shape, work.cache)
    return _FLOAT * floats + extra


def fixed_bytes(shape: ModelShape, work: Work, merges: int) -> int:
    """Return the bytes of interpreter, libraries, vocabulary and bookkeeping, which no log line tells."""
    vocabulary = _vocabulary(shape)
    tables = _TOKEN * vocabulary + _MERGE * merges + _CHOICE * vocabulary * work.cache.slots
    # Numbers are put into the weights' type before they are multiplied.
    copies = work.cache.micro_batch * max(shape.embedding, _columns(shape)) * _HALF
    copies += _scores(shape, work.cache, _HALF)
    grown = 0
    if work.vectors and _has_logits(shape):
        # The output buffer, made for one result a slot, grows to a batch of them.
        grown = _FLOAT * work.results * (vocabulary + shape.embedding)
    return _BASE + _SLOT * work.cache.slots + tables + _CELL * sum(cells(shape, work.cache)) + copies + grown


def _rounded(cache: Cache) -> int:
    """Return the tokens of a micro-batch, which are as many for each pool."""
    pools = 1 if cache.unified else cache.slots
    return -(-cache.micro_batch // pools) * pools


def unknown_compute_bytes(weights: int) -> int:
    """Return what is set aside for computing where the shape is not known. A guess on the safe side."""
    return max(_LEAST_UNKNOWN, weights // 50)


def _vocabulary(shape: ModelShape) -> int:
    return LARGEST_VOCABULARY if shape.vocabulary is None else shape.vocabulary


def _has_logits(shape: ModelShape) -> bool:
    return shape.arch not in _NO_LOGITS


def _columns(shape: ModelShape) -> int:
    """Return the longest row that one matrix is multiplied with."""
    experts = shape.experts_used * (shape.expert_feed_forward or shape.feed_forward)
    return max(shape.feed_forward, experts, shape.heads * shape.head, shape.inner)


def _feed_forward(shape: ModelShape) -> int:
    """Return the floats one token takes in the feed-forward part, where most models are widest."""
    plain = 5 * shape.embedding + 3 * shape.feed_forward
    if not shape.experts:
        return plain
    width = shape.experts_used * (shape.expert_feed_forward or shape.feed_forward)
    out = shape.experts_used * shape.embedding
    # The experts' results are put where their inner values were, if they fit.
    spare = out if out > 2 * width else 0
    return max(plain, 5 * shape.embedding + 3 * width + spare)


def _attention(shape: ModelShape) -> int:
    kept = max((layer.kv_heads * layer.key for layer in shape.layers), default=0)
    return 5 * shape.embedding + 2 * shape.heads * shape.head + 2 * kept


def _state(shape: ModelShape) -> int:
    if not any(layer.state for layer in shape.layers):
        return 0
    return 8 * (shape.inner or shape.embedding)


def _masks(shape: ModelShape, cache: Cache) -> int:
    """Return the bytes that say which token may look at which: one for full layers, one for windowed ones."""
    if shape.cacheless:
        return 2 * _HALF * cache.micro_batch * cache.micro_batch
    streams = 1 if cache.unified else cache.slots
    full, windowed = cells(shape, cache)
    kinds = {layer.window is not None for layer in shape.layers if layer.kv_heads}
    tokens = sum((full if False in kinds else 0, windowed if True in kinds else 0)) // streams
    return tokens * cache.micro_batch * _HALF * (1 if cache.flash else 2)


def _turns(shape: ModelShape, cache: Cache) -> int:
    """Return the bytes of the matrices that keys and values are turned with before they are quantised."""
    return sum(_FLOAT * shape.head**2 for kind in (cache.key_type, cache.value_type) if ELEMENT[kind] < _HALF)


def _scores(shape: ModelShape, cache: Cache, size: int) -> int:
    """Return the bytes of all heads' scores at once, which only flash attention does without."""
    if cache.flash:
        return 0
    streams = 1 if cache.unified else cache.slots
    tokens = cache.micro_batch if shape.cacheless else cells(shape, cache)[0] // streams
    return shape.heads * tokens * cache.micro_batch * size
