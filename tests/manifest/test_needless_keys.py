"""Keys without effect: an error where a model states them itself, nothing where `defaults` do for all engines."""

from pathlib import Path

import pytest

from reconciler.manifest import ManifestError
from reconciler.manifest.load import load_manifest

MODELS = """\
models:
  chat: {weights: m.gguf}
  pictures: {engine: comfyui, role: image, cwd: "."}
  speech: {engine: whisper.cpp, role: asr, weights: ggml.bin}
"""


@pytest.mark.parametrize(
    "defaults",
    [
        "python: .venv",
        "context: {max_tokens: 8192, slots: 2}",
        "batch: {max: 8}",
        "memory: {mode: mmap}",
        "state: {save: true}",
        "sleep: light",
        "memory: {limit: 4GiB}",
    ],
)
def test_defaults_are_for_models_of_all_engines(tmp_path: Path, defaults: str) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(f"apiVersion: reconciler/v1\ndefaults: {{{defaults}}}\n{MODELS}")
    assert len(load_manifest(path, environ={}).launches) == 3


@pytest.mark.parametrize(
    "own",
    [
        "chat: {weights: m.gguf, python: .venv}",
        "speech: {engine: whisper.cpp, role: asr, weights: w.bin, context: {max_tokens: 8}}",
        "pictures: {engine: comfyui, role: image, memory: {mode: mmap}}",
        "speech: {engine: whisper.cpp, role: asr, weights: w.bin, state: {save: true}}",
    ],
)
def test_a_key_of_a_models_own_is_an_error_where_it_stands(tmp_path: Path, own: str) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(f"apiVersion: reconciler/v1\nmodels:\n  {own}\n")
    with pytest.raises(ManifestError) as caught:
        load_manifest(path, environ={})
    assert [d.line for d in caught.value.diagnostics] == [3]
