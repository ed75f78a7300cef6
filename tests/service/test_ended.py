"""What runs after the loop has ended: it writes down how, and ends models that nobody else would."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.service.ended import last_exit, note

RUN = [sys.executable, "-P", "-m", "reconciler.service.ended"]


@pytest.mark.parametrize(
    ("result", "code", "status", "words"),
    [
        ("success", "exited", "0", "it was asked to stop"),
        ("exit-code", "exited", "1", "exit status 1"),
        ("signal", "killed", "SEGV", "killed by SIGSEGV"),
        ("core-dump", "dumped", "ABRT", "killed by SIGABRT"),
        ("watchdog", "dumped", "ABRT", "its loop hung and was ended by the watchdog"),
        ("oom-kill", "killed", "KILL", "the kernel ended it for want of memory"),
    ],
)
def test_an_end_is_kept_in_words(tmp_path: Path, result: str, code: str, status: str, words: str) -> None:
    note(tmp_path, {"SERVICE_RESULT": result, "EXIT_CODE": code, "EXIT_STATUS": status}, 1234.5)
    assert last_exit(tmp_path) == (words, 1234.5)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"result": 1}', "\x00"])
def test_a_note_that_cannot_be_read_is_none(tmp_path: Path, text: str) -> None:
    assert last_exit(tmp_path) is None
    (tmp_path / "service-exit.json").write_text(text)
    assert last_exit(tmp_path) is None


def test_the_program(tmp_path: Path) -> None:
    env = {**os.environ, "SERVICE_RESULT": "exit-code", "EXIT_CODE": "exited", "EXIT_STATUS": "3"}
    assert subprocess.run([*RUN, str(tmp_path)], env=env, cwd="/", timeout=50, check=False).returncode == 0
    kept = last_exit(tmp_path)
    assert kept is not None
    assert kept[0] == "exit status 3"
    assert subprocess.run([*RUN, str(tmp_path / "none")], env=env, timeout=50, check=False).returncode == 0
    assert not (tmp_path / "none").exists()
    assert subprocess.run(RUN, env=env, timeout=50, check=False, capture_output=True).returncode == 64
