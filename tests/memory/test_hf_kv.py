"""Bytes of the context for the shapes of published models, worked out by hand, in the programs that load them."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from hf_files import write_model
from reconciler.memory.hf import Runtime, find_model, kv_bytes, read_shape

KIB = 1 << 10
MIB = 1 << 20

LLAMA_31_8B = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}
LLAMA_33_70B = {**LLAMA_31_8B, "hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64}
QWEN_25_7B = {
    "model_type": "qwen2",
    "hidden_size": 3584,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "sliding_window": 131072,
    "use_sliding_window": False,
    "max_window_layers": 28,
    "torch_dtype": "bfloat16",
}
QWEN_3_30B_A3B = {
    "model_type": "qwen3_moe",
    "head_dim": 128,
    "hidden_size": 2048,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "sliding_window": None,
}
GEMMA_3_27B = {
    "model_type": "gemma3",
    "torch_dtype": "bfloat16",
    "text_config": {
        "model_type": "gemma3_text",
        "head_dim": 128,
        "hidden_size": 5376,
        "num_attention_heads": 32,
        "num_hidden_layers": 62,
        "num_key_value_heads": 16,
        "sliding_window": 1024,
    },
    "vision_config": {"hidden_size": 1152, "num_hidden_layers": 27, "num_attention_heads": 16},
}
DEEPSEEK_V3 = {
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
}
QWEN_3_NEXT = {
    "model_type": "qwen3_next",
    "head_dim": 256,
    "hidden_size": 2048,
    "num_hidden_layers": 48,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "full_attention_interval": 4,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_value_head_dim": 128,
}

#: KiB for a token of 16 bits an element, where every layer grows with the context.
PER_TOKEN: dict[str, tuple[Mapping[str, object], float]] = {
    "Llama-3.1-8B": (LLAMA_31_8B, 128),
    "Llama-3.3-70B": (LLAMA_33_70B, 320),
    "Qwen2.5-7B": (QWEN_25_7B, 56),
    "Qwen3-30B-A3B": (QWEN_3_30B_A3B, 96),
    "DeepSeek-V3": (DEEPSEEK_V3, 61 * 576 * 2 / 1024),
}


def context(
    config: Mapping[str, object], tokens: int, slots: int, runtime: Runtime, element: float = 2
) -> int:
    found = kv_bytes(read_shape(config), tokens, slots, element, runtime)
    assert found is not None, read_shape(config).unknown
    return found


@pytest.mark.parametrize("runtime", ["mlx", "vllm"])
@pytest.mark.parametrize("name", PER_TOKEN)
def test_bytes_for_a_token(name: str, runtime: Runtime) -> None:
    config, kib = PER_TOKEN[name]
    assert context(config, 8192, 1, runtime) == 8192 * kib * KIB
    assert context(config, 32768, 4, runtime) == 4 * 32768 * kib * KIB
    assert context(config, 8192, 1, runtime, 34 / 32) == 8192 * kib * KIB * 34 / 64


def test_the_figures_are_those_of_public_logs() -> None:
    assert context(LLAMA_31_8B, 8192, 1, "vllm") == 1024 * MIB
    assert context(LLAMA_33_70B, 4096, 1, "vllm") == 1280 * MIB
    assert context(QWEN_25_7B, 2048, 1, "vllm") == 112 * MIB
    assert context(QWEN_3_30B_A3B, 32768, 1, "vllm") == 3072 * MIB
    assert context(QWEN_3_30B_A3B, 32768, 1, "vllm", 34 / 32) == 1632 * MIB
    assert round(context(DEEPSEEK_V3, 1, 1, "transformers") / KIB) == 4880, (
        "all heads: 61 x 128 x (192 + 128) x 2"
    )
    assert context(DEEPSEEK_V3, 32768, 1, "mlx", 34 / 32) == 1166.625 * MIB


def test_windows_of_gemma_3() -> None:
    full, windowed = 10 * 16 * 256 * 2, 52 * 16 * 256 * 2
    assert full == 80 * KIB
    # Four answers at once: each has its window, and one of them may just be reading a prompt.
    assert context(GEMMA_3_27B, 32768, 4, "mlx") == 4 * 32768 * full + (4 * 1024 + 2048) * windowed
    assert context(GEMMA_3_27B, 512, 2, "mlx") == 2 * 512 * (full + windowed)
    assert context(GEMMA_3_27B, 32768, 2, "vllm") == 2 * (32768 * full + (9216 + 16) * windowed)
    for runtime in ("transformers", "other"):
        # The window is cut from the whole, which stays in memory until the next token.
        assert context(GEMMA_3_27B, 8192, 1, runtime) == 8192 * 62 * 16 * 256 * 2


def test_a_state_does_not_grow_with_the_context() -> None:
    state = 36 * 4 * (3 * (2 * 16 * 128 + 32 * 128) + 32 * 128 * 128)
    assert round(state / MIB, 3) == 75.375
    for tokens in (256, 32768):
        assert context(QWEN_3_NEXT, tokens, 1, "mlx") == tokens * 24 * KIB + state
        assert context(QWEN_3_NEXT, tokens, 3, "transformers") == 3 * (tokens * 24 * KIB + state)


@pytest.mark.parametrize(
    ("runtime", "tokens", "expected"),
    [
        ("mlx", 1, 256),
        ("mlx", 257, 512),
        ("vllm", 1, 16),
        ("vllm", 33, 48),
        ("transformers", 33, 33),
        ("other", 1, 1),
    ],
)
def test_tokens_are_handed_out_in_steps(runtime: Runtime, tokens: int, expected: int) -> None:
    assert context(LLAMA_31_8B, tokens, 1, runtime) == expected * 128 * KIB


def test_other_is_a_bound_for_all() -> None:
    models: tuple[Mapping[str, object], ...] = (
        LLAMA_31_8B,
        QWEN_25_7B,
        GEMMA_3_27B,
        DEEPSEEK_V3,
        QWEN_3_NEXT,
    )
    for config in models:
        bound = context(config, 32768, 2, "other")
        assert all(context(config, 32768, 2, runtime) <= bound for runtime in ("mlx", "vllm", "transformers"))


def test_an_unknown_shape_is_unknown() -> None:
    assert kv_bytes(read_shape({}), 8192, 1, 2, "mlx") is None
    with pytest.raises(ValueError, match="counts"):
        kv_bytes(read_shape(LLAMA_31_8B), -1, 1, 2, "mlx")


def test_from_the_file_on(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", json.loads(json.dumps(GEMMA_3_27B)))
    assert kv_bytes(read_shape(find_model(folder).config), 0, 1, 2, "mlx") == 0
    assert kv_bytes(read_shape(find_model(folder).config), 256, 1, 2, "mlx") == 256 * 496 * KIB
