"""What is worth knowing of a model and hinders nothing: shown by every verb, once, and never among the results."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from board_samples import NOW, gib, snapshot
from golden_files import assert_golden
from reconciler.board import Snapshot
from reconciler.cli import main
from reconciler.core.types import Preflight
from reconciler.engines import placement
from reconciler.engines.placement import Machine
from reconciler.render import schemas
from reconciler.render.budget_document import budget_json
from reconciler.render.budget_text import budget_text
from reconciler.render.explain_text import explain_text
from reconciler.render.notes import note_lines
from reconciler.render.status_document import status_json

MANIFEST = """\
apiVersion: reconciler/v1
machine: {memory: 600MiB}
models:
  chat:
    engine: command
    command: [/bin/true, "${port}"]
    memory: {steady: 10MiB, limit: 8MiB}
  coder:
    engine: command
    command: [/bin/true, "${port}"]
    memory: {steady: 10MiB, limit: 8MiB}
    device: {gpus: 0}
"""
LIMIT = "memory.limit has no effect here: only PyTorch on the GPU of a Mac can be told a limit from outside"
GPU = "device.gpus: 0, but no GPU is seen here: it will compute on the CPU, or not start"


@pytest.fixture
def manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(placement, "machine_for", lambda _spec: Machine(gpus=0))
    (tmp_path / "desk.yaml").write_text(MANIFEST)
    return tmp_path / "desk.yaml"


def run(*words: str) -> int:
    return main(list(words))


@pytest.mark.parametrize("verb", ["validate", "--dry-run"])
def test_as_warnings_beside_the_result(
    verb: str, manifest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = [] if verb == "validate" else ["--state-dir", str(tmp_path / "state")]
    assert run(verb, str(manifest), *state) == 0
    out, err = capsys.readouterr()
    warnings = [line for line in err.splitlines() if line.startswith("warning: models.")]
    # That of the GPU comes with the second model; that of the limit is about both, and is said once.
    assert sorted(warnings) == [
        f"warning: models.chat, models.coder: {LIMIT}",
        f"warning: models.coder: {GPU}",
    ]
    assert "no effect" not in out


def test_in_the_json_of_validate(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("validate", str(manifest), "--json") == 0
    models = json.loads(capsys.readouterr().out)["models"]
    assert [model["notes"] for model in models] == [[LIMIT], [GPU, LIMIT]]


def test_in_the_budget_of_a_manifest(
    manifest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("budget", str(manifest), "--state-dir", str(tmp_path / "state")) == 0
    assert f"\nchat, coder: {LIMIT}\ncoder: {GPU}\n" in capsys.readouterr().out


def test_as_notes_of_the_doctor(manifest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("doctor", str(manifest), "--state-dir", str(tmp_path / "state"), "--json")
    findings = json.loads(capsys.readouterr().out)["findings"]
    said = [(f["level"], f["topic"], f["what"]) for f in findings if "no effect" in f["what"]]
    assert said == [("note", "models", f"chat, coder: {LIMIT}")]


def noted() -> Snapshot:
    board = snapshot()
    found = (
        Preflight("coder", steady=gib(20), notes=(LIMIT, "llama.cpp 9\nis older than any that was tried")),
        Preflight("vision", notes=(LIMIT,)),
    )
    observation = replace(board.world.observation, preflights=found)
    return replace(board, world=replace(board.world, observation=observation))


def test_in_status_and_explain() -> None:
    document = status_json(noted(), NOW)
    jsonschema.Draft202012Validator(schemas.status_schema()).validate(document)
    by_name: dict[str, Any] = {model["name"]: model for model in document["models"]}
    assert by_name["chat"]["notes"] == []
    assert by_name["vision"]["notes"] == [LIMIT]
    assert_golden("explain-notes.txt", explain_text(document, "coder") + "\n")


def test_in_the_budget_of_a_loop() -> None:
    document = budget_json(noted())
    jsonschema.Draft202012Validator(schemas.budget_schema()).validate(document)
    assert_golden("budget-notes.txt", budget_text(document) + "\n")


def test_what_is_said_of_several_is_said_once() -> None:
    notes = [("b", ["x", "y"]), ("a", ["y", "y", "z\nz"]), ("c", [])]
    assert note_lines(notes) == ["b: x", "b, a: y", "a: z z"]
