"""Damaged files of every kind: a result or one sentence, never anything else."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from hf_files import header, write_model, write_raw
from reconciler.memory.hf import WeightsError, find_model, kv_bytes, read_safetensors, read_shape

ROUNDS = 1000
CONFIG = {
    "model_type": "gemma3",
    "text_config": {
        "model_type": "gemma3_text",
        "num_hidden_layers": 6,
        "num_attention_heads": 8,
        "num_key_value_heads": [1, 2, 3, 4, 5, 6],
        "head_dim": 64,
        "hidden_size": 512,
        "sliding_window": 1024,
        "layer_types": ["full_attention", "sliding_attention", "linear_attention"] * 2,
        "linear_num_value_heads": 4,
        "linear_num_key_heads": 4,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "linear_conv_kernel_dim": 4,
        "kv_lora_rank": None,
        "quantization_config": {"bits": 4, "quant_method": "awq"},
    },
    "torch_dtype": "bfloat16",
}
#: What a mutation may put in place of something.
SCRAPS = [
    b"",
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b",",
    b":",
    b"\\",
    b"\0",
    b"\xff",
    b"-",
    b"9" * 30,
    b"null",
    b"true",
    b"[]",
]
SCRAPS += [b"1e999", b"NaN", b"{}", b'"x"', b"0", b"[" * 3000, b"4294967296"]


def mutated(text: bytes, chance: random.Random) -> bytes:
    """Return `text` with one to four places cut, doubled, flipped or overwritten."""
    changed = bytearray(text)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(changed) + 1)
        end = min(len(changed), at + chance.choice((0, 1, 2, 8, 40)))
        match chance.randrange(4):
            case 0:
                changed[at:end] = chance.choice(SCRAPS)
            case 1:
                changed[at:at] = changed[at:end]
            case 2 if at < len(changed):
                changed[at] ^= 1 << chance.randrange(8)
            case _:
                del changed[at:end]
    return bytes(changed)


def outcomes(
    change: Callable[[random.Random], Path], judge: Callable[[Path], object], seed: int
) -> tuple[int, int]:
    """Return how many of the rounds gave a result, and how many a sentence. Anything else raises."""
    chance = random.Random(seed)
    sentences = []
    for _ in range(ROUNDS):
        path = change(chance)
        try:
            judge(path)
        except WeightsError as error:
            sentences.append(str(error))
    assert all(str(path) in sentence for sentence in sentences), "each names the file"
    return ROUNDS - len(sentences), len(sentences)


def test_headers(tmp_path: Path) -> None:
    whole = header({f"layer.{i}.weight": ("BF16", [4, i]) for i in range(8)})

    def change(chance: random.Random) -> Path:
        path = write_raw(tmp_path / "m.safetensors", mutated(whole, chance), 8 * sum(range(8)))
        if chance.random() < 0.2:
            path.write_bytes(mutated(path.read_bytes(), chance))
        return path

    results, sentences = outcomes(change, read_safetensors, 1)
    assert results > 20
    assert sentences > 500


def test_indexes(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", CONFIG, shards=3, elements=8)
    index = folder / "model.safetensors.index.json"
    whole = index.read_bytes()

    def change(chance: random.Random) -> Path:
        index.write_bytes(mutated(whole, chance))
        return folder

    results, sentences = outcomes(change, find_model, 2)
    assert results > 20
    assert sentences > 200


def test_configurations(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", elements=8)
    whole = json.dumps(CONFIG).encode()
    known = 0

    def change(chance: random.Random) -> Path:
        (folder / "config.json").write_bytes(mutated(whole, chance))
        return folder

    def judge(path: Path) -> None:
        nonlocal known
        shape = read_shape(find_model(path).config)
        assert (shape.layers is None) == bool(shape.unknown)
        known += kv_bytes(shape, 4096, 2, 2, "mlx") is not None

    results, sentences = outcomes(change, judge, 3)
    assert sentences > 200
    assert results > known > 20


@pytest.mark.parametrize("value", [None, True, -1, 1.5, 10**30, "x", [], {}, [[]], {"a": 1}])
def test_every_key_with_every_kind_of_value(value: object) -> None:
    text = CONFIG["text_config"]
    assert isinstance(text, dict)
    for name in (
        *text,
        "text_config",
        "quantization",
        "sliding_window_pattern",
        "attn_layer_period",
        "dtype",
    ):
        for config in (
            {**text, name: value},
            {**CONFIG, "text_config": {**text, name: value}},
            {**CONFIG, name: value},
        ):
            shape = read_shape(config)
            assert (shape.layers is None) == bool(shape.unknown)
            kv_bytes(shape, 4096, 2, 2, "other")
