"""Weights that a server could never load: said before anything starts, as what they are."""

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import media_specs
import text_engines
from hf_files import write_model
from reconciler.core.launch import LaunchSpec, Role
from reconciler.core.types import Preflight, Reason
from reconciler.engines import registry

BERT: Mapping[str, object] = {"model_type": "bert", "architectures": ["BertForMaskedLM"]}
GGUF = "holds GGUF"
PICKLES = "holds pickled weights"


def folder(*names: str, config: Mapping[str, object] | None = None) -> Callable[[Path], Path]:
    def made(root: Path) -> Path:
        root.mkdir()
        for name in names:
            (root / name).write_bytes(b"x" * 2000)
        (root / "config.json").write_text(json.dumps(config or {}))
        return root

    return made


def model(config: Mapping[str, object]) -> Callable[[Path], Path]:
    return lambda root: write_model(root, {**text_engines.LLAMA, **config})


def look(name: str, role: Role, made: Callable[[Path], Path], root: Path) -> Preflight:
    spec: LaunchSpec = (media_specs if name == "sd.cpp" else text_engines).bare(name, root)
    return registry.get(name).preflight(
        dataclasses.replace(spec, role=role, weights=str(made(root / "these")))
    )


@pytest.mark.parametrize(
    ("name", "role", "made", "said"),
    [
        ("tei", Role.EMBEDDING, folder("model.gguf"), GGUF),
        ("tei", Role.EMBEDDING, folder("other.pt"), PICKLES),
        ("tei", Role.RERANK, model({}), "gives no scores: its config.json says LlamaForCausalLM"),
        ("infinity", Role.CLASSIFY, model({}), "gives no scores: its config.json says LlamaForCausalLM"),
        ("mlx-vlm", Role.EMBEDDING, folder("model.gguf"), GGUF),
        ("mlx-vlm", Role.ASR, folder("pytorch_model.bin"), PICKLES),
        ("mlx", Role.CHAT, model(BERT), "is no language model: its config.json says BertForMaskedLM"),
        ("vllm", Role.CHAT, model(BERT), "is no language model: its config.json says BertForMaskedLM"),
        ("sglang", Role.COMPLETION, model(BERT), "is no language model"),
        ("transformers", Role.CHAT, model(BERT), "is no language model"),
        ("sd.cpp", Role.IMAGE, folder("model.bin", "vocabulary.json"), "holds a model of CTranslate2"),
        ("sd.cpp", Role.IMAGE, model({}), "is no folder of a diffusion model"),
    ],
)
def test_what_is_certain_is_refused(
    name: str, role: Role, made: Callable[[Path], Path], said: str, tmp_path: Path
) -> None:
    found = look(name, role, made, tmp_path)
    assert found.reason is Reason.NOT_STARTABLE
    assert said in found.message


@pytest.mark.parametrize("names", [("pytorch_model.bin",), ("model.onnx",)])
def test_what_depends_on_the_build_is_noted(names: tuple[str, ...], tmp_path: Path) -> None:
    found = look("tei", Role.EMBEDDING, folder(*names), tmp_path)
    assert found.reason is None
    assert any("not every build of its server loads such" in note for note in found.notes)


@pytest.mark.parametrize(
    ("name", "role", "made"),
    [
        ("tei", Role.EMBEDDING, model({})),
        ("tei", Role.RERANK, model({"architectures": ["BertForSequenceClassification"]})),
        ("infinity", Role.RERANK, model({"architectures": ["XLMRobertaForSequenceClassification"]})),
        ("infinity", Role.EMBEDDING, model(BERT)),
        ("mlx", Role.CHAT, model({})),
        ("vllm", Role.EMBEDDING, model(BERT)),
        ("mlx-vlm", Role.TTS, folder("weights.npz")),
    ],
)
def test_what_may_work_is_not_refused(
    name: str, role: Role, made: Callable[[Path], Path], tmp_path: Path
) -> None:
    message = look(name, role, made, tmp_path).message
    assert "is no language model" not in message
    assert "gives no scores" not in message
    assert "holds" not in message


def test_a_language_model_draws_nothing(tmp_path: Path) -> None:
    real = Path(__file__).parents[2] / "weights" / "gemma-3-270m" / "Q4_K_M" / "1.0.0" / "model.gguf"
    if not real.is_file():
        pytest.skip("tests' own weights are not here")
    found = look("sd.cpp", Role.IMAGE, lambda _: real, tmp_path)
    assert "is a language model (gemma3), not one that draws" in found.message
