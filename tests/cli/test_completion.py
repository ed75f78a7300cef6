"""Completion in a shell: the scripts, and the names of models that they ask for."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from board_samples import NOW, snapshot
from loop_stand_in import standing_in
from reconciler.cli import main
from reconciler.cli.run import VERBS
from reconciler.render.status_document import status_json


def offered(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    """Return what is offered for the last of `words`."""
    capsys.readouterr()
    main(["__complete", *words])
    lines = capsys.readouterr().out.splitlines()
    return [line.split("\t")[0] for line in lines if line and not line.startswith("\x1f")]


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder without a manifest, on a state directory that no manager uses."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RECONCILE_STATE_DIR", str(tmp_path / "state"))
    return tmp_path


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert all(verb in text for verb in VERBS)
    assert "__complete" in text
    if program := shutil.which(shell):
        done = subprocess.run([program, "-n"], input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_bash_completes_with_it(capsys: pytest.CaptureFixture[str], empty: Path) -> None:
    (empty / "manifests").mkdir()
    (empty / "manifests" / "a.yaml").write_text("models: {chat: {}, chatty: {}, other: {}}")
    program = empty / "reconcile"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m reconciler "$@"\n')
    program.chmod(0o755)
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    asked = f"""{script}
COMP_WORDS=({program} evict ch); COMP_CWORD=2; _reconcile; echo "${{COMPREPLY[@]}}"
COMP_WORDS=({program} vali); COMP_CWORD=1; _reconcile; echo "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash"], input=asked, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n") == ["chat chatty", "validate", ""], done.stderr


def test_names_come_from_the_files_where_no_manager_runs(
    capsys: pytest.CaptureFixture[str], empty: Path
) -> None:
    assert offered(capsys, "evict", "") == []
    folder = empty / "manifests"
    folder.mkdir()
    (folder / "a.yaml").write_text("models: {chat: {}, 7b: {}}")
    (folder / "broken.yaml").write_text("models: [")
    (folder / "odd.yaml").write_text("- 1")
    # The shell itself leaves out what does not begin with the word.
    for verb in ("evict", "explain", "logs", "hold"):
        assert sorted(offered(capsys, verb, "ch")) == ["7b", "chat"]
    assert sorted(offered(capsys, "events", "--model", "")) == ["7b", "chat"]


def test_names_and_aliases_come_from_the_manager(capsys: pytest.CaptureFixture[str], empty: Path) -> None:
    with standing_in(empty / "state") as loop:
        loop.documents("GET /api/v1/status", status_json(snapshot(), NOW))
        found = offered(capsys, "explain", "")
    assert loop.asked == ["GET /api/v1/status"]
    names = {m["name"] for m in status_json(snapshot(), NOW)["models"]}
    aliases = {a for m in status_json(snapshot(), NOW)["models"] for a in m["aliases"]}
    assert set(found) == names | aliases


def test_without_a_shell_to_be_seen_it_asks_which(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from cyclopts.completion import detect

    def nothing() -> str:
        raise detect.ShellDetectionError("no")

    monkeypatch.setattr("cyclopts.completion.detect_shell", nothing)
    assert main(["completion"]) == 64
    assert "which shell?" in capsys.readouterr().err
