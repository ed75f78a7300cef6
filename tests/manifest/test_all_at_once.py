"""All that is wrong is said in one run: a mistake in one place hides none in another."""

from pathlib import Path

import pytest

from reconciler.manifest.diagnostics import ManifestError
from reconciler.manifest.load import load_manifest

HEAD = "apiVersion: reconciler/v1\n"


def faults(tmp_path: Path, text: str) -> list[tuple[int, str]]:
    path = tmp_path / "m.yaml"
    path.write_text(HEAD + text)
    with pytest.raises(ManifestError) as refused:
        load_manifest(path, environ={})
    return sorted((d.line, d.message) for d in refused.value.diagnostics)


def test_engines_are_asked_of_all_models_that_are_valid_in_themselves(tmp_path: Path) -> None:
    text = (
        "models:\n"
        "  a: {engine: python, entry: no class, role: chat}\n"
        "  b: {engine: lama.cpp, weights: x.gguf, priority: lots}\n"
        "  c: {engine: vlm, weights: x.gguf}\n"
        "  d: {engine: python, role: chat}\n"
    )
    found = faults(tmp_path, text)
    assert [line for line, _ in found] == [3, 4, 4, 5, 6]
    said = "\n".join(message for _, message in found)
    assert 'there is no engine "lama.cpp"' in said
    assert 'there is no engine "vlm"' in said
    assert "entry" in found[4][1]


def test_a_section_that_is_wrong_raises_no_doubt_about_what_refers_to_it(tmp_path: Path) -> None:
    text = (
        "gateway: {listen: nowhere, gates: {heavy: {limit: 1}}}\n"
        "models:\n"
        "  a: {weights: x.gguf, gate: heavy}\n"
        "  b: {engine: vlm, weights: x.gguf}\n"
    )
    assert [line for line, _ in faults(tmp_path, text)] == [2, 5]
