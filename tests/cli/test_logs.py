"""Reading log files: the last lines, what is added, and nothing lost when the file is rotated."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from board_samples import NOW, snapshot
from loop_stand_in import standing_in
from reconciler.cli import main
from reconciler.cli.logs import following
from reconciler.log_lines import last_lines
from reconciler.render.status_document import status_json


@pytest.mark.parametrize(
    ("text", "count", "expected"),
    [
        (b"a\nb\nc\n", 2, b"b\nc\n"),
        (b"a\nb\nc", 2, b"b\nc"),
        (b"a\n", 5, b"a\n"),
        (b"a\nb\n", 0, b""),
        (b"", 3, b""),
        (b"\n\n\n", 2, b"\n\n"),
        (b"x" * 200_000 + b"\nlast\n", 1, b"last\n"),
        (b"x" * 200_000 + b"\nlast\n", 2, b"x" * 200_000 + b"\nlast\n"),
    ],
)
def test_last_lines(tmp_path: Path, text: bytes, count: int, expected: bytes) -> None:
    (tmp_path / "log").write_bytes(text)
    assert last_lines(tmp_path / "log", count) == expected


class Script:
    """Stands for the passing of time: each pause performs the next step; after the last it ends the following."""

    def __init__(self, *steps: Callable[[], object]) -> None:
        self.steps = list(steps)

    def __call__(self) -> None:
        if not self.steps:
            raise InterruptedError
        self.steps.pop(0)()


def follow(path: Path, lines: int, *steps: Callable[[], object]) -> bytes:
    out = b""
    try:
        for piece in following(path, lines, Script(*steps)):
            out += piece
    except InterruptedError:
        return out
    raise AssertionError("following ended by itself")


def append(path: Path, data: bytes) -> Callable[[], object]:
    def step() -> None:
        with path.open("ab") as file:
            file.write(data)

    return step


def rotate(
    path: Path, just_before: bytes = b"", keep: int = 10_000, after: bytes = b""
) -> Callable[[], object]:
    """Copy and empty the file as the host does, with lines that came in since it was last read."""

    def step() -> None:
        whole = path.read_bytes() + just_before
        path.with_name(path.name + ".1").write_bytes(whole[-keep:])
        os.truncate(path, 0)
        append(path, after)()

    return step


def test_what_was_rotated_just_now_is_shown_too(tmp_path: Path) -> None:
    """Of a model that died flooding its log the file itself is empty."""
    log = tmp_path / "m.log"
    log.write_bytes(b"")
    (tmp_path / "m.log.1").write_bytes(b"one\ntwo\nthree\n")
    assert last_lines(log, 2) == b"two\nthree\n"
    assert next(following(log, 2, lambda: None)) == b"two\nthree\n"
    log.write_bytes(b"four\n")
    assert last_lines(log, 2) == b"three\nfour\n"
    assert last_lines(log, 1) == b"four\n"


def test_following_prints_what_is_added(tmp_path: Path) -> None:
    path = tmp_path / "m.log"
    path.write_bytes(b"1\n2\n3\n")
    assert follow(path, 2, append(path, b"4\n"), append(path, b"5\n6\n")) == b"2\n3\n4\n5\n6\n"


def test_following_waits_for_the_file(tmp_path: Path) -> None:
    path = tmp_path / "m.log"
    assert follow(path, 2, lambda: None, append(path, b"1\n")) == b"1\n"


@pytest.mark.parametrize("lines", [0, 1])
def test_following_loses_nothing_over_a_rotation(tmp_path: Path, lines: int) -> None:
    path = tmp_path / "m.log"
    path.write_bytes(b"old\n" * 5000 + b"begin\n")
    start = b"begin\n" if lines else b""
    steps = (
        append(path, b"1\n"),
        rotate(path, b"2\n3\n", after=b"4\n"),
        append(path, b"5\n"),
        rotate(path, b"6\n"),
    )
    assert follow(path, lines, *steps) == start + b"1\n2\n3\n4\n5\n6\n"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "chat.log").write_bytes(b"one\ntwo\nthree\n")
    return tmp_path


def test_logs_without_a_loop(state: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["logs", "chat", "-n", "2", "--state-dir", str(state)]) == 0
    assert capfdbinary.readouterr().out == b"two\nthree\n"


def test_no_log_yet(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", "vision", "--state-dir", str(state)]) == 1
    assert "vision has no log yet" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["../secret", "..%2fsecret", "/etc/passwd", "a\x00b"])
def test_a_name_never_becomes_a_path(name: str, state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (state / "secret.log").write_text("CANARY")
    assert main(["logs", name, "--state-dir", str(state)]) == 1
    said = capsys.readouterr()
    assert "CANARY" not in said.out + said.err
    assert "\x00" not in said.err


def test_a_running_loop_names_the_file(state: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    (state / "elsewhere.log").write_bytes(b"there\n")
    document = json.loads(json.dumps(status_json(snapshot(), NOW)))
    document["models"][0]["log"] = str(state / "elsewhere.log")
    with standing_in(state) as loop:
        loop.documents("GET /api/v1/status", document)
        assert main(["logs", "gpt-4o", "--state-dir", str(state)]) == 0
    assert capfdbinary.readouterr().out == b"there\n"
