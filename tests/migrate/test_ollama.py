"""Ollama's folder of models as a manifest: what each becomes, and what is said of those that become none."""

import errno
import json
from pathlib import Path

import pytest

from gguf_headers import Value, write_header
from golden_files import assert_golden
from ollama_folder import TEMPLATE, desk, library, put, settings
from reconciler.cli import main
from reconciler.cli.imports import report
from reconciler.core.launch import LaunchSpec
from reconciler.engines import registry
from reconciler.manifest import load_manifest
from reconciler.migrate import check
from reconciler.migrate.ollama.convert import Engine, convert
from reconciler.render.migrate_text import import_text
from tiny_gguf import write_llama


@pytest.mark.parametrize("engine", ["llama.cpp", "ollama"])
def test_manifest_and_report(engine: Engine, tmp_path: Path) -> None:
    models = desk(tmp_path / "models", tmp_path / "scratch")
    made = convert(models, {}, engine)
    check.load(made.text, tmp_path, {})

    def plain(text: str) -> str:
        # Whether Ollama is installed here is no matter of these.
        lines = [
            line
            for line in text.replace(str(models), "/models").split("\n")
            if "cannot be started here" not in line
        ]
        return "\n".join(line for line in lines if not line.endswith(" to know."))

    name = f"import-ollama-{engine.replace('.', '-')}"
    assert_golden(f"{name}.yaml", plain(made.text))
    assert_golden(f"{name}.txt", plain(import_text(report(made, "/models", None))) + "\n")


def test_variables_of_the_server_become_defaults(tmp_path: Path) -> None:
    models = tmp_path / "models"
    put(models, library("a", "latest"), model=write_llama(tmp_path / "a.gguf").read_bytes())
    environ = {"OLLAMA_KEEP_ALIVE": "-1", "OLLAMA_NUM_PARALLEL": "2", "OLLAMA_CONTEXT_LENGTH": "2048",
               "OLLAMA_KV_CACHE_TYPE": "q8_0"}  # fmt: skip
    text = convert(models, environ).text
    assert "  idle_ttl: never\n  context: {slots: 2, cache_type: q8_0}\n  timeouts: {drain: never}\n" in text
    assert "    context: {max_tokens: 2048}\n" in text


def test_the_folder_is_found_and_the_manifest_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    models = tmp_path / "models"
    put(
        models,
        library("a", "1b"),
        model=write_llama(tmp_path / "a.gguf").read_bytes(),
        params=settings(num_ctx=64),
    )
    monkeypatch.setenv("OLLAMA_MODELS", str(models))
    out = tmp_path / "manifests"
    assert main(["import", "ollama", "--out", str(out), "--json"]) in (0, 2)
    document = json.loads(capsys.readouterr().out)
    assert document["models"] == ["a:1b"]
    assert document["written"] == str(out / "models.yaml")
    assert [spec.name for spec in load_manifest(out, environ={}).manifest.models] == ["a:1b"]


def test_a_folder_that_is_none_of_ollamas_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", "ollama", str(tmp_path)]) == 1
    assert "it is not Ollama's folder of models" in capsys.readouterr().err


def test_weights_need_no_ending_to_be_weights(tmp_path: Path) -> None:
    blob = write_llama(tmp_path / "model.gguf").rename(tmp_path / ("sha256-" + "0" * 64))
    found = registry.get("llama.cpp").preflight(
        LaunchSpec("m", "llama.cpp", weights=str(blob), context_tokens=128, cwd="/")
    )
    assert found.reason is None, found.message
    assert found.steady is not None


def test_eyes_in_the_same_file_and_a_template_that_only_ollama_has_are_told(tmp_path: Path) -> None:
    keys: dict[str, Value] = {
        "block_count": 1,
        "context_length": 512,
        "embedding_length": 8,
        "vision.block_count": 1,
    }
    seeing = write_header(tmp_path / "sees.gguf", "gemma3", keys, tokens=4).read_bytes()
    models = tmp_path / "models"
    put(models, library("gemma3", "4b"), model=seeing, template=TEMPLATE)
    made = convert(models, {})
    told = [(found.kind.value, found.what) for found in made.findings if found.key == "gemma3:4b"]
    assert told[0][0] == "lost"
    assert "its eyes are in the same file" in told[0][1]
    assert told[1] == (
        "to do",
        "Ollama's template is in a language of its own, and there is none in the GGUF file",
    )
    assert not made.complete


def test_what_no_manifest_may_hold_is_written_out_in_comments_and_places(tmp_path: Path) -> None:
    models = tmp_path / "models"
    weights = write_llama(tmp_path / "a.gguf").read_bytes()
    put(models, library("a", "1b"), model=weights, system=b"\x1b[1mBe\tkind\xe2\x80\xa8.")
    put(models, library("b\nc", "1b"), model=weights)
    made = convert(models, {})
    assert "    # system: \\x1b[1mBe kind" in made.text
    assert made.models == ("a:1b",)
    assert not any("\n" in found.place for found in made.findings)


def test_a_link_that_leads_behind_a_closed_door_hides_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = tmp_path / "models"
    put(models, library("a", "1b"), model=write_llama(tmp_path / "a.gguf").read_bytes())
    closed = put(models, library("closed", "1b"), model=b"x")
    is_file = Path.is_file

    def guarded(self: Path) -> bool:
        if self == closed:
            raise PermissionError(errno.EACCES, "Permission denied", str(self))
        return is_file(self)

    monkeypatch.setattr(Path, "is_file", guarded)
    assert convert(models, {}).models == ("a:1b",)
