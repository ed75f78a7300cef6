"""Bytes of the context against figures that llama.cpp and others have printed for real models."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gguf_headers as known
from gguf_headers import Value, write_header
from reconciler.memory.gguf import Array, Header, read_header
from reconciler.memory.gguf import Value as HeaderValue
from reconciler.memory.gguf.kv import ELEMENT, Cache, cells, context_bytes, context_step, tokens_of_a_slot
from reconciler.memory.gguf.shape import Layer, ModelShape, ShapeUnknown, read_shape

MIB = 1024 * 1024
EIGHT, THIRTY_TWO = 8192, 32768


def shape_of(folder: Path, arch: str, keys: Mapping[str, Value]) -> ModelShape:
    return read_shape(read_header(write_header(folder / "m.gguf", arch, keys)))


def stateless(shape: ModelShape) -> ModelShape:
    return replace(shape, layers=tuple(replace(layer, state=0) for layer in shape.layers))


#: Of each model MiB at f16 with 8192 and 32768 tokens, and with 32768 at q8_0 and q4_0, one slot.
TABLE = {
    "Llama-3.1-8B": ("llama", known.LLAMA_8B, (1024, 4096, 2176, 1152)),
    "Llama-3.3-70B": ("llama", known.LLAMA_70B, (2560, 10240, 5440, 2880)),
    "Qwen2.5-7B": ("qwen2", known.QWEN_7B, (448, 1792, 952, 504)),
    "Qwen3-30B-A3B": ("qwen3moe", known.QWEN3_30B, (768, 3072, 1632, 864)),
    "Gemma-3-27B": ("gemma3", known.GEMMA_27B, (1264, 3184, 1691.5, 895.5)),
    "DeepSeek-V3": ("deepseek2", known.DEEPSEEK_V3, (549, 2196, 1166.625, 617.625)),
}


@pytest.mark.parametrize("name", TABLE)
def test_worked_models_to_the_byte(tmp_path: Path, name: str) -> None:
    arch, keys, expected = TABLE[name]
    shape = shape_of(tmp_path, arch, keys)
    columns = [(EIGHT, "f16"), (THIRTY_TWO, "f16"), (THIRTY_TWO, "q8_0"), (THIRTY_TWO, "q4_0")]
    found = [context_bytes(shape, Cache(n, key_type=kind, value_type=kind)) for n, kind in columns]
    assert found == [mib * MIB for mib in expected]


@pytest.mark.parametrize(
    ("arch", "keys", "cache", "mib"),
    [
        # Lines that servers printed: `llama_kv_cache: size = ...`.
        ("llama", known.LLAMA_70B, Cache(4096), 1280),
        ("llama", known.LLAMA_70B, Cache(25600, key_type="q8_0", value_type="q8_0"), 4250),
        ("qwen2", known.QWEN_7B, Cache(2048), 112),
        ("qwen3moe", known.QWEN3_30B, Cache(65536), 6144),
        ("gemma3", known.GEMMA_270M, Cache(8192), 24 + 15),
        ("gemma3", known.GEMMA_270M, Cache(2048), 21),
        ("gemma3", known.GEMMA_270M, Cache(32768), 111),
        ("gemma3", known.GEMMA_270M, Cache(32768, slots=4), 156),
        ("gemma3", known.GEMMA_270M, Cache(32768, full_windows=True), 576),
        # Four slots that share one pool: the windows need room for all of them.
        ("gemma3", known.GEMMA_27B, Cache(32768, slots=4, unified=True), 4432),
        ("deepseek2", known.DEEPSEEK_OLD, Cache(1024), 4880),
        # Splitting a plain cache costs nothing.
        ("qwen3moe", known.QWEN3_30B, Cache(32768, slots=16), 3072),
        # 1000 tokens become 1024.
        ("llama", known.LLAMA_8B, Cache(1000), 128),
        # Keys and values of different types.
        ("llama", known.LLAMA_8B, Cache(8192, key_type="q8_0", value_type="f16"), 512 * 34 / 64 + 512),
    ],
)
def test_figures_seen_in_logs(
    tmp_path: Path, arch: str, keys: Mapping[str, Value], cache: Cache, mib: float
) -> None:
    assert context_bytes(shape_of(tmp_path, arch, keys), cache) == mib * MIB


def test_seventy_billion_quantised_keys(tmp_path: Path) -> None:
    """The keys alone were printed as 2125 MiB."""
    shape = shape_of(tmp_path, "llama", known.LLAMA_70B)
    keys_only = replace(shape, layers=tuple(replace(layer, value=0) for layer in shape.layers))
    assert context_bytes(keys_only, Cache(25600, key_type="q8_0")) == 2125 * MIB


def plain(layers: int, embedding: int, heads: int, context: int, **more: Value) -> dict[str, Value]:
    return {
        "block_count": layers,
        "embedding_length": embedding,
        "attention.head_count": heads,
        "context_length": context,
    } | {f"attention.{name}": value for name, value in more.items()}


KV_OF_SIX = [0, 0, 8, 0, 0, 8, 0, 0, 8, 0, 8, 0, 8, 0, 8, 0]
HYBRID = plain(40, 2048, 16, 262144, head_count_kv=2, key_length=256, value_length=256)
SSM: dict[str, Value] = {
    "ssm.conv_kernel": 4,
    "ssm.inner_size": 1536,
    "ssm.state_size": 16,
    "ssm.group_count": 0,
}
CONVOLUTIONS: dict[str, Value] = {"shortconv.l_cache": 3}
MLA = plain(61, 7168, 128, 163840, head_count_kv=1, key_length=576, value_length=512, kv_lora_rank=512)
#: Odd headers: what a wrong reading gives differs 4 to 19 times.
ODD = {
    "no entry for most layers": (
        "lfm2",
        plain(16, 2048, 32, 128000, head_count_kv=KV_OF_SIX) | CONVOLUTIONS,
        32768,
        384,
    ),
    "no entry for most layers, and no state": (
        "deci",
        plain(16, 2048, 32, 128000, head_count_kv=KV_OF_SIX),
        32768,
        384,
    ),
    "no key length": ("llama", plain(32, 4096, 32, 8192, head_count_kv=8), 8192, 1024),
    "key length of its own": (
        "qwen3",
        plain(36, 2560, 32, 40960, head_count_kv=8, key_length=128, value_length=128),
        32768,
        4608,
    ),
    "latent attention": ("deepseek2", MLA | {"rope.dimension_count": 64}, 32768, 2196),
    "every fourth layer": ("qwen35moe", HYBRID | SSM | {"full_attention_interval": 4}, 32768, 640),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_headers(tmp_path: Path, name: str) -> None:
    arch, keys, tokens, mib = ODD[name]
    found = context_bytes(stateless(shape_of(tmp_path, arch, keys)), Cache(tokens))
    assert found == mib * MIB


@pytest.mark.parametrize(
    ("arch", "keys", "named"),
    [
        ("mystery", {"block_count": 24}, "mystery.embedding_length"),
        ("mystery", {"block_count": 24, "embedding_length": 64}, "mystery.attention.head_count"),
        ("llama", {"embedding_length": 64}, "llama.block_count"),
        ("llama", plain(1 << 20, 64, 4, 8), "llama.block_count"),
        ("llama", plain(4, 64, 4, 8, head_count_kv=[1, 1]), "llama.attention.head_count_kv"),
        ("llama", plain(4, 64, 4, 8, head_count_kv="four"), "llama.attention.head_count_kv"),
        ("llama", plain(4, 64, 4, 8, key_length=[1, 2]), "llama.attention.key_length"),
        ("mamba", {"block_count": 4, "embedding_length": 64}, "mamba.ssm.state_size"),
        (None, {}, "general.architecture"),
    ],
)
def test_what_is_missing_is_named_and_never_zero(
    tmp_path: Path, arch: str | None, keys: Mapping[str, Value], named: str
) -> None:
    written = read_header(write_header(tmp_path / "m.gguf", arch, keys))
    with pytest.raises(ShapeUnknown, match=named.replace(".", r"\.")):
        read_shape(written)


#: What nothing was kept for, by the figure that says so: each once made a context of 0 bytes, or one without states.
NOTHING: dict[str, tuple[str, dict[str, Value], str]] = {
    "no KV heads": ("llama", plain(4, 64, 4, 8, head_count_kv=0), "attention.head_count_kv"),
    "no KV heads in any layer": (
        "llama",
        plain(4, 64, 4, 8, head_count_kv=[0] * 4),
        "attention.head_count_kv",
    ),
    "no heads": ("llama", plain(4, 64, 0, 8), "attention.head_count"),
    "no heads, but KV heads": ("llama", plain(4, 64, 0, 8, head_count_kv=2), "attention.head_count"),
    "no heads in any layer": (
        "llama",
        plain(4, 64, 4, 8, head_count_kv=2, key_length=16) | {"attention.head_count": [0] * 4},
        "attention.head_count",
    ),
    "more heads than elements": ("llama", plain(4, 64, 128, 8), "attention.head_count"),
    "heads of no length": ("llama", plain(4, 64, 4, 8, key_length=0, value_length=0), "attention.key_length"),
    "values of no length": ("llama", plain(4, 64, 4, 8, value_length=0), "attention.value_length"),
    "nothing embedded": ("llama", plain(4, 0, 4, 8), "embedding_length"),
    "nothing embedded, states only": (
        "mamba",
        {"block_count": 4, "embedding_length": 0} | SSM,
        "embedding_length",
    ),
    "all of an earlier layer": (
        "gemma4",
        plain(4, 64, 4, 8, shared_kv_layers=4),
        "attention.shared_kv_layers",
    ),
    "a hybrid that never attends": (
        "qwen3next",
        plain(4, 64, 4, 8, head_count_kv=0) | SSM,
        "attention.head_count_kv",
    ),
    "a hybrid without any state": ("qwen3next", HYBRID, "ssm.state_size"),
    "a hybrid without a convolution": (
        "qwen3next",
        HYBRID | {"ssm.inner_size": 64, "ssm.state_size": 16},
        "ssm.conv_kernel",
    ),
    "a hybrid with a state of nothing": ("qwen35", HYBRID | SSM | {"ssm.inner_size": 0}, "ssm.inner_size"),
    "both in each layer, without": ("falcon-h1", plain(2, 64, 4, 8, head_count_kv=2), "ssm.state_size"),
    "convolutions, without": ("lfm2", plain(16, 64, 4, 8, head_count_kv=KV_OF_SIX), "shortconv.l_cache"),
    "convolutions of one input": (
        "lfm2",
        plain(16, 64, 4, 8, head_count_kv=KV_OF_SIX) | {"shortconv.l_cache": 1},
        "shortconv.l_cache",
    ),
    "delta nets, without": ("kimi-linear", plain(16, 64, 4, 8, head_count_kv=KV_OF_SIX), "kda.head_dim"),
    "mamba and attention, without": (
        "granitehybrid",
        plain(16, 64, 4, 8, head_count_kv=KV_OF_SIX),
        "ssm.state_size",
    ),
    "rwkv, without": ("rwkv7", {"block_count": 4, "embedding_length": 64}, "wkv.head_size"),
}


@pytest.mark.parametrize("name", NOTHING)
def test_a_model_that_would_keep_nothing_is_unknown(tmp_path: Path, name: str) -> None:
    arch, keys, named = NOTHING[name]
    with pytest.raises(ShapeUnknown, match=rf"{arch}\.{re.escape(named)}( |$)"):
        shape_of(tmp_path, arch, keys)


def test_a_hybrid_of_states_alone_is_believed(tmp_path: Path) -> None:
    shape = shape_of(tmp_path, "granitehybrid", plain(4, 64, 4, 8, head_count_kv=[0] * 4) | SSM)
    assert context_bytes(stateless(shape), Cache(8192)) == 0
    assert context_bytes(shape, Cache(8192)) == 4 * 4 * (3 * 1536 + 16 * 1536)


WINDOWS: dict[str, tuple[str, dict[str, Value], str]] = {
    "gemma2: every second": ("gemma2", {}, "40"),
    "gemma3": ("gemma3", {"sliding_window": 5}, "555550555550"),
    "gemma3 without": ("gemma3", {}, "0"),
    "a period of its own": ("gemma3", {"sliding_window": 5, "sliding_window_pattern": 3}, "550"),
    "a list": ("gemma4", {"sliding_window": 5, "sliding_window_pattern": [True, False, False]}, "500"),
    "gpt-oss": ("gpt-oss", {"sliding_window": 5}, "50"),
    "cohere2": ("cohere2", {"sliding_window": 5}, "5550"),
    "olmo2": ("olmo2", {"sliding_window": 5}, "5550"),
    "llama4 without a key": ("llama4", {}, "8880"),
    "llama4 switched off": ("llama4", {"sliding_window": 0}, "0"),
    "smallthinker: the first attends to all": ("smallthinker", {"sliding_window": 5}, "0444"),
    "phi3: ignored": ("phi3", {"sliding_window": 5}, "0"),
    "mistral: no pattern": ("llama", {"sliding_window": 5}, "0"),
    "exaone4 of 12 layers": ("exaone4", {"sliding_window": 5}, "0"),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_of_an_architecture(tmp_path: Path, name: str) -> None:
    arch, keys, repeated = WINDOWS[name]
    found = shape_of(tmp_path, arch, plain(12, 64, 4, 8, **keys))
    widths = {"0": None, "4": 4096, "5": 5, "8": 8192}
    expected = [widths[letter] for letter in repeated] * (12 // len(repeated))
    assert [layer.window for layer in found.layers] == expected


def test_exaone4_with_64_layers_has_windows(tmp_path: Path) -> None:
    found = shape_of(tmp_path, "exaone4", plain(64, 64, 4, 8))
    assert [layer.window for layer in found.layers] == [4096, 4096, 4096, None] * 16


def test_windowed_heads_have_lengths_of_their_own_and_late_layers_share(tmp_path: Path) -> None:
    keys = plain(
        6,
        64,
        4,
        8,
        head_count_kv=[2, 2, 1, 2, 2, 1],
        sliding_window=5,
        sliding_window_pattern=[True, True, False] * 2,
        key_length=512,
        value_length=512,
        key_length_swa=256,
        value_length_swa=256,
        shared_kv_layers=2,
    )
    found = shape_of(tmp_path, "gemma4", keys)
    local, whole = Layer(2, 256, 256, window=5), Layer(1, 512, 512)
    nothing = (replace(local, kv_heads=0), replace(whole, kv_heads=0))
    assert found.layers == (local, local, whole, local, *nothing)


def test_layers_for_guessing_ahead_are_left_out(tmp_path: Path) -> None:
    found = shape_of(tmp_path, "glm4moe", plain(47, 64, 4, 8) | {"nextn_predict_layers": 1})
    assert len(found.layers) == 46


STATES: dict[str, tuple[str, Mapping[str, Value], int]] = {
    "mamba": ("mamba", {"block_count": 24, "embedding_length": 768} | SSM, 24 * (3 * 1536 + 16 * 1536)),
    "rwkv": (
        "rwkv6",
        {"block_count": 24, "embedding_length": 2048, "wkv.head_size": 64},
        24 * 2048 * (2 + 64),
    ),
    "short convolutions": (
        "lfm2",
        plain(16, 2048, 32, 8, head_count_kv=KV_OF_SIX) | CONVOLUTIONS,
        10 * 2048 * 2,
    ),
    "delta nets": (
        "kimi-linear",
        plain(4, 2304, 32, 8, head_count_kv=[0, 0, 0, 8]) | {"kda.head_dim": 128, "ssm.conv_kernel": 4},
        3 * (3 * 3 * 4096 + 128 * 128 * 32),
    ),
    "both in each layer": (
        "falcon-h1",
        plain(2, 64, 4, 8, head_count_kv=2) | SSM | {"ssm.group_count": 1},
        2 * (3 * (1536 + 32) + 16 * 1536),
    ),
}


@pytest.mark.parametrize("name", STATES)
def test_states_are_there_once_for_each_slot_whatever_the_context(tmp_path: Path, name: str) -> None:
    arch, keys, elements = STATES[name]
    shape = shape_of(tmp_path, arch, keys)
    assert sum(layer.state for layer in shape.layers) == elements
    bare = stateless(shape)
    for slots in (1, 4):
        cache = Cache(8192, slots=slots)
        assert context_bytes(shape, cache) - context_bytes(bare, cache) == 4 * elements * slots
    attending = {"both in each layer": 2, "short convolutions": 6, "delta nets": 1}.get(name, 0)
    assert sum(layer.kv_heads > 0 for layer in shape.layers) == attending


def test_a_model_that_reads_all_at_once_keeps_nothing(tmp_path: Path) -> None:
    assert context_bytes(shape_of(tmp_path, "bert", plain(12, 768, 12, 512)), Cache(8192)) == 0


@given(
    tokens=st.integers(1, 1 << 20),
    slots=st.integers(1, 16),
    unified=st.booleans(),
    kind=st.sampled_from(sorted(ELEMENT)),
    window=st.none() | st.integers(1, 8192),
)
def test_more_context_never_takes_less(
    tokens: int, slots: int, unified: bool, kind: str, window: int | None
) -> None:
    layers = (Layer(2, 64, 64), Layer(2, 64, 64, window=window))
    shape = ModelShape("x", layers, 256, 4, 64, 512, 1000, 8192)
    cache = Cache(tokens, slots, unified, kind, kind)
    size = context_bytes(shape, cache)
    full, windowed = cells(shape, cache)
    assert full >= tokens - slots  # whole tokens are shared out
    assert full % 256 == 0
    assert 0 < size <= context_bytes(shape, replace(cache, tokens=tokens + 1))
    assert size <= context_bytes(shape, replace(cache, full_windows=True))
    if window is not None:
        assert size == int(128 * 2 * ELEMENT[kind] * (full + windowed))
    assert tokens_of_a_slot(cache) * (1 if unified else slots) == full


NAMES = (
    "block_count",
    "embedding_length",
    "context_length",
    "feed_forward_length",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "attention.shared_kv_layers",
    "attention.recurrent_layers",
    "attention.kv_lora_rank",
    "full_attention_interval",
    "nextn_predict_layers",
    "ssm.state_size",
    "ssm.inner_size",
    "wkv.head_size",
    "shortconv.l_cache",
    "kda.head_dim",
)
NUMBERS = st.integers(-2, 70) | st.sampled_from([0, 1 << 20, 1 << 31, 1 << 63]) | st.booleans()
ODD_VALUES = (
    NUMBERS
    | st.floats(width=32)
    | st.text(max_size=5)
    | st.lists(NUMBERS, max_size=70).map(lambda items: Array(len(items), tuple(items)))
    | st.just(Array(1 << 40))
)


@given(
    arch=st.sampled_from(["llama", "gemma3", "mamba", "qwen35", "nemotron_h", "llama4", "smallthinker", "x"]),
    keys=st.dictionaries(st.sampled_from(NAMES), ODD_VALUES),
    sound=st.booleans(),
)
def test_whatever_a_header_says_it_is_understood_or_refused(
    arch: str, keys: dict[str, HeaderValue], sound: bool
) -> None:
    stated: dict[str, HeaderValue] = (
        {"block_count": 4, "embedding_length": 64, "attention.head_count": 4} if sound else {}
    )
    values: dict[str, HeaderValue] = {f"{arch}.{name}": value for name, value in (stated | keys).items()}
    try:
        shape = read_shape(Header(3, values | {"general.architecture": arch}, (), 0))
    except ShapeUnknown:
        return
    assert 0 < len(shape.layers) <= 4096
    assert context_bytes(shape, Cache(4096, slots=3)) > 0


@pytest.mark.parametrize(
    "cache", [Cache(8192), Cache(8000), Cache(8192, slots=4), Cache(8192, slots=4, unified=True)]
)
@pytest.mark.parametrize("model", ["Llama-3.1-8B", "Gemma-3-27B"])
def test_a_step_less_of_context_frees_what_it_says_and_a_token_less_nothing(
    tmp_path: Path, model: str, cache: Cache
) -> None:
    arch, keys, _ = TABLE[model]
    shape = shape_of(tmp_path, arch, keys)
    step, frees = context_step(shape, cache)
    assert step == 256 * (1 if cache.unified else cache.slots)
    there = tokens_of_a_slot(cache) * (1 if cache.unified else cache.slots)
    whole = context_bytes(shape, cache)
    assert whole - context_bytes(shape, replace(cache, tokens=there - step)) == frees > 0
    assert context_bytes(shape, replace(cache, tokens=there - step + 1)) == whole


def test_the_last_step_of_context_frees_nothing(tmp_path: Path) -> None:
    shape = shape_of(tmp_path, "llama", known.LLAMA_8B)
    assert context_step(shape, Cache(200)) == (256, 0)
