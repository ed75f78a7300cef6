"""The parts of an estimate, and what comes on top while a model loads, for each program."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from hf_files import write_model
from reconciler.memory.hf import HfWeights, Runtime, estimate, find_model, read_shape

MIB = 1 << 20
GIB = 1 << 30
CONFIG = {
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "torch_dtype": "bfloat16",
}


@pytest.fixture
def weights(tmp_path: Path) -> HfWeights:
    """16 GiB in four files of 4 GiB, none of which take room on the disk."""
    return find_model(write_model(tmp_path / "m", CONFIG, shards=4, elements=2 * GIB))


AWQ = {"quantization_config": {"quant_method": "awq"}}
NATIVE = {"quantization": {"bits": 4, "group_size": 64}}
LOADING: list[tuple[Runtime, Mapping[str, object], float]] = [
    ("mlx", {}, 1.6),
    ("mlx", NATIVE, 1.6),
    ("mlx", AWQ, 19.2),
    ("transformers", {}, 4 + 1.6),
    ("transformers", {"torch_dtype": None}, 16),
    ("other", {}, 4 + 1.6),
    ("vllm", {}, 30),
]


@pytest.mark.parametrize(("runtime", "extra", "gib"), LOADING)
def test_what_loading_takes_on_top(
    runtime: Runtime, extra: Mapping[str, object], gib: float, weights: HfWeights
) -> None:
    parts = estimate(weights, read_shape({**CONFIG, **extra}), 8192, 1, 2, runtime)
    assert parts.loading / GIB == pytest.approx(gib)
    assert parts.weights == 16 * GIB
    assert parts.context is not None
    assert parts.context == GIB


def test_the_sum_of_a_program_that_is_known(weights: HfWeights) -> None:
    parts = estimate(weights, read_shape(CONFIG), 8192, 2, 2, "mlx", prompt_cache=GIB)
    assert parts.compute == 16 * GIB * 2 // 100
    assert parts.steady == 16 * GIB + 2 * GIB + 16 * GIB * 2 // 100 + GIB
    assert parts.peak == parts.steady + parts.loading
    assert estimate(weights, read_shape(CONFIG), 8192, 2, 2, "vllm").overhead == 700 * MIB


def test_what_is_unknown_makes_the_sum_unknown(weights: HfWeights) -> None:
    program = estimate(weights, read_shape(CONFIG), 8192, 1, 2, "other")
    assert (program.compute, program.steady, program.peak) == (None, None, None)
    shape = estimate(weights, read_shape({}), 8192, 1, 2, "mlx")
    assert (shape.weights, shape.context, shape.steady) == (16 * GIB, None, None)
