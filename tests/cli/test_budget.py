"""`reconcile budget`: asked of a loop, or read from the files."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from board_samples import NOW, mib, snapshot
from loop_stand_in import standing_in
from reconciler.cli import main
from reconciler.cli.manifests import read_manifest
from reconciler.core.memory import Memory
from reconciler.core.types import Instance, Observation, World
from reconciler.render.budget_document import budget_json
from reconciler.render.budget_text import budget_text
from reconciler.wire import world_to_json

MANIFEST = """\
apiVersion: reconciler/v1
machine: {memory: MEMORY, reserve: 100MiB}
models:
  chat:
    engine: command
    command: [python3, -m, http.server, "${port}"]
    residency: pinned
    memory: {steady: 350MiB}
  long:
    engine: command
    command: [python3, -m, http.server, "${port}"]
"""


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    folder = tmp_path / "manifests"
    folder.mkdir()
    (folder / "desk.yaml").write_text(MANIFEST.replace("MEMORY", "600MiB"))
    return folder


@pytest.fixture
def ask(manifest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    def run(*words: str) -> tuple[int, str]:
        code = main(["budget", *words, "--state-dir", str(tmp_path / "state")])
        return code, capsys.readouterr().out

    return run


def test_without_a_loop_the_files_and_the_machine_are_read(
    manifest: Path, tmp_path: Path, ask: Callable[..., tuple[int, str]]
) -> None:
    code, out = ask(str(manifest))
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == f"manifest {manifest}  generation 1  (no loop runs: read from the files)"
    assert lines[1].startswith("models   600 MiB stated   100 reserve   500 budget")
    assert "pinned         fit together: need 350 MiB of 500 MiB" in lines
    assert "long: give memory.steady" in lines
    assert not (tmp_path / "state").exists()


def test_pinned_models_that_do_not_fit_together_exit_1(
    manifest: Path, ask: Callable[..., tuple[int, str]]
) -> None:
    text = MANIFEST.replace("MEMORY", "600MiB").replace("steady: 350MiB", "steady: 350MiB, peak: 520MiB")
    (manifest / "desk.yaml").write_text(text)
    code, out = ask(str(manifest), "--json")
    assert code == 1
    pinned = json.loads(out)["pinned"]
    assert (pinned["fits"], pinned["need"], pinned["short"]) == (False, mib(520), mib(20))


def test_a_running_loop_is_asked(tmp_path: Path, ask: Callable[..., tuple[int, str]]) -> None:
    document: dict[str, Any] = json.loads(json.dumps(budget_json(snapshot())))
    with standing_in(tmp_path / "state") as loop:
        loop.documents("GET /api/v1/budget", document)
        assert ask() == (0, budget_text(document) + "\n")
        assert json.loads(ask("--json")[1]) == document
        assert set(loop.asked) == {"GET /api/v1/budget"}
    assert "(as the running loop sees it)" in budget_text(document).splitlines()[0]


def test_a_manifest_that_is_named_is_reckoned_with_what_the_loop_sees(
    manifest: Path, tmp_path: Path, ask: Callable[..., tuple[int, str]]
) -> None:
    applied = read_manifest(manifest, None)
    digest = applied.manifest.models[0].digest
    chat = Instance("chat", digest, 41, 977, 18100, True, mib(340), 0, NOW - 60, NOW - 50, 1)
    seen = World(Observation(5, NOW, Memory(mib(2000), mib(1500), "test"), (chat,)))
    with standing_in(tmp_path / "state") as loop:
        loop.documents(
            "GET /api/v1/world", world_to_json(replace(snapshot(), at=NOW, applied=applied, world=seen))
        )
        code, out = ask(str(manifest), "--json")
        assert loop.asked == ["GET /api/v1/world"]
    made = json.loads(out)
    assert (code, made["seen_by"], made["manifest"]["generation"]) == (0, "loop", 7)
    assert [(m["name"], m["state"], m["bytes"]["measured"]) for m in made["models"]] == [
        ("chat", "ready", mib(340)),
        ("long", "cold", None),
    ]


def test_blocks_are_for_terminals_that_can_show_them(monkeypatch: pytest.MonkeyPatch) -> None:
    import io
    import sys

    from reconciler.cli.budget import _blocks

    class Stream(io.StringIO):
        encoding = "UTF-8"

        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdout", Stream())
    assert _blocks()
    Stream.encoding = "ascii"
    assert not _blocks()
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert not _blocks()
