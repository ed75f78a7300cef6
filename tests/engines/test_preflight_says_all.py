"""Where the program is missing, what is wrong with the weights is said as well."""

import dataclasses
from pathlib import Path

import pytest

import text_engines
from reconciler.core.types import Reason
from reconciler.engines import registry

NAMES = ("infinity", "mlx", "sglang", "tei", "transformers", "vllm", "llama.cpp")


@pytest.mark.parametrize("name", NAMES)
def test_both_are_said(name: str, tmp_path: Path) -> None:
    known = "mlx" if name == "llama.cpp" else name
    spec = dataclasses.replace(
        text_engines.bare(known, tmp_path),
        engine=name,
        weights=str(tmp_path / "gone"),
        command=("no-such",),
        python=None,
    )
    found = registry.get(name).preflight(spec)
    assert found.reason is Reason.NOT_STARTABLE
    assert found.message.startswith("the program 'no-such' is not on PATH. ")
    assert str(tmp_path / "gone") in found.message


@pytest.mark.parametrize(
    ("text", "hinted"),
    [("Qwen/Qwen3-8B", True), ("Qwen/Qwen3-8B.gguf", False), ("weights/Qwen3-8B", False), ("a/b/c", False)],
)
def test_a_name_on_a_hub_is_told_from_a_path(text: str, hinted: bool, tmp_path: Path) -> None:
    (tmp_path / "weights").mkdir()
    spec = dataclasses.replace(text_engines.bare("vllm", tmp_path), weights=str(tmp_path / text))
    message = registry.get("vllm").preflight(spec).message
    assert (f"If {text} is a model on a hub: names are not looked up there" in message) is hinted
