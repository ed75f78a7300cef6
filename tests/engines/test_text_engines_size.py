"""What engines for text say of the size: weights and what lies beside them, contexts, kept prompts, unknowns."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_files import write_model, write_tensors
from reconciler.core.launch import Device, LaunchSpec, LoraAdapter
from reconciler.core.memory import Estimate
from reconciler.engines import arguments, registry, weights
from text_engines import LLAMA, TOKEN, bare

#: Bytes of the weights that `bare` writes: a million of 16 bits.
WEIGHTS = 2 << 20


def parts(name: str, spec: LaunchSpec) -> Estimate:
    preflight = registry.get(name).preflight(spec)
    assert preflight.reason is None, preflight.message
    assert preflight.parts is not None
    assert preflight.steady == preflight.parts.steady
    return preflight.parts


@pytest.mark.parametrize("name", ["mlx", "mlx-vlm", "sglang", "transformers", "vllm"])
def test_weights_and_context_are_worked_out(name: str, tmp_path: Path) -> None:
    found = parts(name, bare(name, tmp_path, context_tokens=4096))
    assert (found.weights, found.context) == (WEIGHTS, 4096 * TOKEN)
    unsaid = parts(name, bare(name, tmp_path))
    assert unsaid.context == LLAMA["max_position_embeddings"] * TOKEN  # type: ignore[operator]


@pytest.mark.parametrize(
    ("name", "block"), [("mlx", 256), ("mlx-vlm", 256), ("sglang", 16), ("vllm", 16), ("transformers", 0)]
)
def test_by_how_much_the_context_can_be_made_smaller(name: str, block: int, tmp_path: Path) -> None:
    spec = bare(name, tmp_path, context_tokens=1000)
    slots = 2 if name in ("mlx", "vllm", "sglang") else 1
    found = registry.get(name).preflight(dataclasses.replace(spec, slots=slots))
    assert (found.context_step, found.context_step_bytes) == (block * slots, block * slots * TOKEN)
    one = registry.get(name).preflight(dataclasses.replace(spec, context_tokens=block or 1))
    assert (one.context_step, one.context_step_bytes) == (block, 0), "there is no less of it"
    stated = registry.get(name).preflight(dataclasses.replace(spec, context_bytes_per_token=8))
    assert stated.context_step_bytes == 8 * block


@pytest.mark.parametrize("name", ["mlx", "sglang", "vllm"])
def test_a_draft_and_adapters_count(name: str, tmp_path: Path) -> None:
    spec = bare(name, tmp_path, context_tokens=1024)
    write_model(tmp_path / "draft", LLAMA, elements=1 << 18)
    (tmp_path / "lora").mkdir()
    write_tensors(tmp_path / "lora" / "adapters.safetensors", {"a": ("BF16", [1 << 10])})
    adapters = (LoraAdapter(str(tmp_path / "lora")),)
    found = parts(name, dataclasses.replace(spec, draft=str(tmp_path / "draft"), adapters=adapters))
    assert found.weights == WEIGHTS + (2 << 18) + (2 << 10)
    assert found.context == 2 * 1024 * TOKEN


@pytest.mark.parametrize("key", ["draft", "adapters"])
def test_what_is_not_there_is_said_before_anybody_goes(key: str, tmp_path: Path) -> None:
    value: Any = "/nowhere/draft" if key == "draft" else (LoraAdapter("/nowhere/lora"),)
    found = registry.get("vllm").preflight(bare("vllm", tmp_path, **{key: value}))
    assert found.reason == "NotStartable"
    assert found.message.startswith("the weights /nowhere/")
    assert found.message.endswith("do not exist")


@pytest.mark.parametrize(
    ("changes", "cache"),
    [
        ({}, 1024 * TOKEN),
        ({"slots": 3}, 3 * 1024 * TOKEN),
        ({"cache_type": "q8_0"}, 1024 * TOKEN * 17 // 32),
        ({"cache_type": "q4_0"}, 1024 * TOKEN * 9 // 32),
        ({"args": ("--prompt-cache-bytes", "1.5GB")}, 1_500_000_000),
        ({"args": ("--prompt-cache-bytes=0",)}, 0),
        ({"args": ("--prompt-cache-bytes", "lots")}, 1024 * TOKEN),
    ],
)
def test_mlx_keeps_as_many_contexts_as_it_works_on(
    changes: dict[str, Any], cache: int, tmp_path: Path
) -> None:
    spec = bare("mlx", tmp_path, context_tokens=1024, **changes)
    assert parts("mlx", spec).cache == cache
    argv = registry.get("mlx").command(spec, 1).argv
    assert argv[argv.index("--prompt-cache-bytes") + 1] == str(cache)


def test_mlx_keeps_one_context_where_only_their_number_is_a_bound(tmp_path: Path) -> None:
    def kept(**changes: Any) -> str:
        argv = registry.get("mlx").command(bare("mlx", tmp_path, **changes), 1).argv
        return argv[argv.index("--prompt-cache-size") + 1]

    assert kept() == "2"
    assert kept(slots=4) == "8"
    assert kept(cache_type="q8_0") == kept(draft="/d") == "1"


def test_sglang_has_room_for_whole_contexts_in_layers_with_a_window(tmp_path: Path) -> None:
    spec = bare("sglang", tmp_path, context_tokens=8192)
    every_other = {"model_type": "gpt_oss", "layer_types": ["sliding_attention", "full_attention"]}
    config = json.dumps({**LLAMA, **every_other, "sliding_window": 512})
    (tmp_path / "weights" / "config.json").write_text(config)
    assert parts("sglang", spec).context == 8192 * TOKEN
    assert (weights.context_bytes(spec, "mlx") or 0) < 8192 * TOKEN


def test_sglang_is_told_the_tokens_of_its_pool(tmp_path: Path) -> None:
    for changes, tokens in (({"context_tokens": 1000, "slots": 3}, "3000"), ({}, "8192")):
        argv = registry.get("sglang").command(bare("sglang", tmp_path, **changes), 1).argv
        assert argv[argv.index("--max-total-tokens") + 1] == tokens


def test_infinity_loads_in_32_bits(tmp_path: Path) -> None:
    spec = bare("infinity", tmp_path)
    on_gpu = parts("infinity", spec)
    assert on_gpu.weights == WEIGHTS
    assert on_gpu.loading >= WEIGHTS
    on_cpu = parts("infinity", dataclasses.replace(spec, device=Device(gpus=())))
    assert on_cpu.weights == 2 * WEIGHTS


def test_weights_of_32_bits_have_a_cache_of_32_bits_but_for_vllm(tmp_path: Path) -> None:
    for name, factor in (("mlx", 2), ("transformers", 2), ("vllm", 1)):
        spec = bare(name, tmp_path / name, context_tokens=1024)
        (tmp_path / name / "weights" / "config.json").write_text(json.dumps({**LLAMA, "dtype": "float32"}))
        assert parts(name, spec).context == factor * 1024 * TOKEN


def test_an_unknown_shape_needs_a_word_of_the_manifest(tmp_path: Path) -> None:
    spec = bare("transformers", tmp_path, context_tokens=1024)
    (tmp_path / "weights" / "config.json").write_text('{"model_type": "unheard-of"}')
    found = registry.get("transformers").preflight(spec)
    assert (found.reason, found.steady) == (None, None)
    assert found.message.endswith("give memory.steady")
    stated = dataclasses.replace(spec, context_bytes_per_token=100)
    assert parts("transformers", stated).context == 102_400
    tokens = registry.get("transformers").preflight(dataclasses.replace(spec, context_tokens=None))
    assert "give context.max_tokens, or memory.steady" in tokens.message


def test_the_size_of_an_unknown_program_is_not_guessed(tmp_path: Path) -> None:
    found = registry.get("tei").preflight(bare("tei", tmp_path))
    assert (found.reason, found.steady) == (None, None)
    assert "give memory.steady" in found.message


@pytest.mark.parametrize("name", ["infinity", "mlx", "mlx-vlm", "sglang", "transformers", "vllm"])
def test_the_size_is_told_without_the_program(name: str, tmp_path: Path) -> None:
    spec = bare(name, tmp_path)
    without = dataclasses.replace(spec, python=str(tmp_path / "nowhere"))
    assert registry.get(name).preflight(without).reason == "NotStartable"
    assert registry.get(name).foreseen(without).steady == registry.get(name).foreseen(spec).steady is not None


@given(st.integers(0, 10**6), st.sampled_from(["", "k", "K", "m", "M", "g", "G", "t", "T"]))
def test_sizes_are_read_as_vllm_reads_them(number: int, unit: str) -> None:
    base = 1024 if unit.isupper() else 1000
    power = " kmgt".index(unit.lower() or " ")
    assert arguments.size(f"{number}{unit}", arguments.BINARY) == number * base**power


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--max-bytes", "1", "--max-bytes", "2"], "2"),
        (["--max_bytes=3"], "3"),
        (["--max-bytes"], None),
        (["--other", "--max-bytes=4", "5"], "4"),
        (["max-bytes", "5"], None),
    ],
)
def test_the_last_value_counts(words: list[str], found: str | None) -> None:
    assert arguments.value(words, "--max-bytes") == found
