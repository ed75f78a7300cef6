"""What is read from `config.json`: which layers keep what, and which key is named when one is missing."""

from collections import Counter

import pytest

from reconciler.memory.hf import Layer, Quantization, read_shape

BASE: dict[str, object] = {
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "hidden_size": 512,
}
#: 2 heads x 64 x keys and values.
FULL = Layer(256, 256)
NOTHING = Layer(0, 0)
WINDOWED = Layer(256, 256, 128)
CONV = Layer(0, 0, None, 2 * 512)
#: Mamba 2 with 16 heads of 64, one group, 128 states: 3 x (1024 + 2 x 128) + 1024 x 128.
MAMBA = {
    "mamba_d_conv": 4,
    "mamba_d_state": 128,
    "mamba_n_groups": 1,
    "mamba_n_heads": 16,
    "mamba_d_head": 64,
}
STATE = 3 * (1024 + 256) + 1024 * 128

LAYERS: dict[str, tuple[dict[str, object], list[Layer]]] = {
    "plain": ({}, [FULL] * 4),
    "all heads, where none are stated": ({"num_key_value_heads": None}, [Layer(1024, 1024)] * 4),
    "heads for each layer": (
        {"num_key_value_heads": [1, 2, 2, 4, 9]},
        [Layer(128, 128), FULL, FULL, Layer(512, 512)],
    ),
    "values of another length": ({"head_dim": 192, "v_head_dim": 128}, [Layer(640, 640)] * 4),
    "old names": ({**dict.fromkeys(BASE), "n_layer": 4, "n_head": 8, "n_embd": 512}, [Layer(1024, 1024)] * 4),
    "a window nobody says who has": ({"sliding_window": 128}, [FULL] * 4),
    "a window not used": (
        {"sliding_window": 128, "use_sliding_window": False, "sliding_window_pattern": 2},
        [FULL] * 4,
    ),
    "a window from a layer on": (
        {"sliding_window": 128, "use_sliding_window": True, "max_window_layers": 3},
        [FULL] * 3 + [WINDOWED],
    ),
    "every second": ({"sliding_window": 128, "sliding_window_pattern": 2}, [WINDOWED, FULL] * 2),
    "letters": (
        {"sliding_window": 128, "sliding_window_pattern": "LLG"},
        [WINDOWED, WINDOWED, FULL, WINDOWED],
    ),
    "a pattern without a width": ({"sliding_window": None, "sliding_window_pattern": "LLLG"}, [FULL] * 4),
    "named": (
        {
            "sliding_window": 128,
            "attention_chunk_size": 64,
            "layer_types": ["full_attention", "sliding_attention", "chunked_attention", "mlp"],
        },
        [FULL, WINDOWED, Layer(256, 256, 64), NOTHING],
    ),
    "shared with earlier layers": ({"num_kv_shared_layers": 3}, [FULL] + [NOTHING] * 3),
    "short convolutions": (
        {"conv_L_cache": 3, "layer_types": ["conv", "conv", "full_attention", "conv"]},
        [CONV, CONV, FULL, CONV],
    ),
    "short convolutions by index": ({"conv_L_cache": 3, "full_attn_idxs": [1, 2]}, [CONV, FULL, FULL, CONV]),
    "Mamba and attention by turns": (
        {**MAMBA, "attn_layer_period": 4, "attn_layer_offset": 2},
        [Layer(0, 0, None, STATE)] * 2 + [FULL, Layer(0, 0, None, STATE)],
    ),
    "Mamba and attention in each": ({**MAMBA, "model_type": "falcon_h1"}, [Layer(256, 256, None, STATE)] * 4),
    "a pattern of letters": (
        {
            "hybrid_override_pattern": "M-*E",
            "mamba_num_heads": 16,
            "mamba_head_dim": 64,
            "n_groups": 1,
            "ssm_state_size": 128,
            "conv_kernel": 4,
        },
        [Layer(0, 0, None, STATE), NOTHING, FULL, NOTHING],
    ),
    "Mamba alone": (
        {"model_type": "mamba", "intermediate_size": 1024, "state_size": 16, "conv_kernel": 4},
        [Layer(0, 0, None, 3 * 1024 + 1024 * 16)] * 4,
    ),
    "Mamba by its expansion": (
        {**MAMBA, "mamba_d_head": "auto", "mamba_expand": 2, "attn_layer_indices": [0]},
        [FULL] + [Layer(0, 0, None, STATE)] * 3,
    ),
    "sparse attention with a small key": (
        {
            "kv_lora_rank": 512,
            "qk_rope_head_dim": 64,
            "qk_nope_head_dim": 128,
            "v_head_dim": 128,
            "index_head_dim": 128,
        },
        [Layer(704, 8 * 320 + 128)] * 4,
    ),
    "longer heads where all is kept": (
        {
            "model_type": "gemma4_text",
            "head_dim": 64,
            "global_head_dim": 128,
            "num_global_key_value_heads": 1,
            "attention_k_eq_v": True,
            "sliding_window": 128,
            "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
        },
        [WINDOWED] * 3 + [FULL],
    ),
    "nested twice": ({"thinker_config": {"text_config": {**BASE, "num_hidden_layers": 2}}}, [FULL] * 2),
    "nested without figures": ({"text_config": {"model_type": "llama"}}, [FULL] * 4),
}


@pytest.mark.parametrize("name", LAYERS)
def test_what_each_layer_keeps(name: str) -> None:
    extra, expected = LAYERS[name]
    shape = read_shape({**BASE, **extra})
    assert shape.layers == tuple(expected), shape.unknown


UNKNOWN: dict[str, dict[str, object]] = {
    "config.json has no num_hidden_layers": {"num_hidden_layers": None},
    "config.json has no num_attention_heads": {"num_attention_heads": None},
    "config.json has no hidden_size": {"hidden_size": None},
    "config.json has no qk_rope_head_dim": {"kv_lora_rank": 512},
    "config.json has no layer_types": {"linear_num_value_heads": None, "mamba_d_state": 16},
    "config.json has no linear_num_key_heads": {"linear_num_value_heads": 32},
    "config.json has no text_config.num_attention_heads": {"text_config": {"num_hidden_layers": 2}},
    "num_hidden_layers in config.json makes no sense: 1000000000": {"num_hidden_layers": 10**9},
    "num_hidden_layers in config.json makes no sense: True": {"num_hidden_layers": True},
    "num_hidden_layers in config.json makes no sense: 0": {"num_hidden_layers": 0},
    "num_key_value_heads in config.json makes no sense: [1, 2]": {"num_key_value_heads": [1, 2]},
    "head_dim in config.json makes no sense: 64.0": {"head_dim": 64.0},
    "num_attention_heads in config.json makes no sense: 0": {"num_attention_heads": 0},
    "layer_types in config.json names 1 of 4 layers": {"layer_types": ["full_attention"]},
    "layer_types in config.json has a kind that is not known: 'x'": {"layer_types": ["x"] * 4},
    "hybrid_override_pattern in config.json makes no sense: MM": {"hybrid_override_pattern": "MM"},
    "linear_attn_config in config.json describes layers": {"linear_attn_config": {}},
    "a model with encoder and decoder": {"is_encoder_decoder": True},
}


@pytest.mark.parametrize("sentence", UNKNOWN)
def test_what_is_missing_is_named(sentence: str) -> None:
    shape = read_shape({**BASE, **UNKNOWN[sentence]})
    assert shape.layers is None
    assert sentence in shape.unknown


def test_an_empty_configuration() -> None:
    assert read_shape({}).unknown == "there is no config.json, or it is empty"


def test_a_family_whose_files_leave_figures_out() -> None:
    text = {"model_type": "gemma3_text", "hidden_size": 2560, "num_hidden_layers": 34, "sliding_window": 1024}
    shape = read_shape({"model_type": "gemma3", "text_config": text})
    assert shape.layers is not None
    assert Counter(shape.layers) == {Layer(2048, 2048, 1024): 29, Layer(2048, 2048): 5}
    assert shape.max_tokens == 131072
    unnamed = {name: value for name, value in text.items() if name != "model_type"}
    assert read_shape({"model_type": "gemma3", "text_config": unnamed}) == shape


QUANTIZED: list[tuple[dict[str, object], Quantization | None]] = [
    ({}, None),
    ({"quantization": {"group_size": 64, "bits": 4}}, Quantization("mlx", 4, 64)),
    (
        {"quantization": {"group_size": 64, "bits": 4}, "quantization_config": {"group_size": 64, "bits": 4}},
        Quantization("mlx", 4, 64),
    ),
    (
        {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}},
        Quantization("awq", 4, 128),
    ),
    (
        {"quantization_config": {"quant_method": "awq", "w_bit": 4, "q_group_size": 128}},
        Quantization("awq", 4, 128),
    ),
    (
        {"quantization_config": {"quant_method": "gptq", "bits": 8, "group_size": -1}},
        Quantization("gptq", 8, None),
    ),
    ({"quantization_config": {"quant_method": "fp8"}}, Quantization("fp8")),
    ({"quantization_config": {"bits": "4"}}, Quantization("unknown")),
    ({"text_config": {**BASE, "quantization_config": {"quant_method": "awq"}}}, Quantization("awq")),
    ({"quantization": "4bit", "quantization_config": None}, None),
]


@pytest.mark.parametrize(("extra", "expected"), QUANTIZED)
def test_how_weights_are_compressed(extra: dict[str, object], expected: Quantization | None) -> None:
    assert read_shape({**BASE, **extra}).quantization == expected


@pytest.mark.parametrize(
    ("config", "dtype"),
    [
        ({"torch_dtype": "bfloat16"}, "bfloat16"),
        ({"dtype": "float16"}, "float16"),
        ({"torch_dtype": "bfloat16", "text_config": BASE}, "bfloat16"),
        ({"text_config": {**BASE, "dtype": "float32"}}, "float32"),
        ({"torch_dtype": None}, None),
    ],
)
def test_the_type_weights_are_computed_in(config: dict[str, object], dtype: str | None) -> None:
    assert read_shape({**BASE, **config}).dtype == dtype
