"""The file of a class counts like weights: what runs is replaced when it was edited, and never by a broken one."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.core.diff import replaced
from reconciler.core.launch import LaunchSpec, Role
from reconciler.core.types import Reason
from reconciler.loop.preflights import examine


def test_the_file_of_a_class_counts_and_need_not_settle(tmp_path: Path) -> None:
    text = "class Words:\n    def embed(self, texts): ..."
    (tmp_path / "words.py").write_text(text)
    launch = LaunchSpec("m", "python", entry="words:Words", role=Role.EMBEDDING, cwd=str(tmp_path))
    before = examine(launch).weights
    assert before.startswith("+")
    (tmp_path / "words.py").write_text(text + "  # edited")
    edited = examine(launch).weights
    assert replaced(before, edited) == (False, True)
    (tmp_path / "words.py").write_text("class Words:\n    def embed(self, texts")
    broken = examine(launch)
    assert (broken.reason, broken.weights) == (Reason.NOT_STARTABLE, "")


def test_weights_and_class_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time() + 3600  # weights just written are not known yet
    monkeypatch.setattr(time, "time", lambda: now)
    (tmp_path / "words.py").write_text("class Words:\n    def embed(self, texts): ...")
    (tmp_path / "model.bin").write_bytes(b"weights")
    launch = LaunchSpec("m", "python", entry="words:Words", role=Role.EMBEDDING, cwd=str(tmp_path))
    launch = replace(launch, weights=str(tmp_path / "model.bin"))
    before = examine(launch).weights
    (tmp_path / "model.bin").write_bytes(b"others")
    assert replaced(before, examine(launch).weights) == (True, False)
