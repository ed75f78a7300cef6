"""Secrets in a model's log: the file has the engine's own words, what is printed of it does not."""

import os
from pathlib import Path

import pytest

from reconciler.cli import main
from reconciler.cli.logs import _secrets
from reconciler.log_lines import Masked

LOG = b"argv: a --api-key hunter2  --port 9\n\x1b[1mkey is\x1b[0m s3cret!\r 50%\rAuthorization: Bearer abc\r\n\xff\n"
SHOWN = (
    b"argv: a --api-key ***  --port 9\n\x1b[1mkey is\x1b[0m ***\r 50%\rAuthorization: Bearer ***\r\n\xff\n"
)


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_secrets_are_masked_however_the_pieces_fall(size: int) -> None:
    shown = Masked(frozenset({"s3cret!"}))
    parts = [LOG[at : at + size] for at in range(0, len(LOG), size)]
    assert b"".join(map(shown.feed, parts)) + shown.rest() == SHOWN


def test_a_line_that_is_not_ended_is_shown_at_the_end_only() -> None:
    shown = Masked(frozenset({"s3cret!"}))
    assert shown.feed(b"a\nkey s3cr") == b"a\n"
    assert shown.feed(b"et!") == b""
    assert shown.rest() == b"key ***"


def test_the_secrets_of_a_launch_come_from_its_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "THE_KEY", "from-env-1")
    model = '{engine: command, command: [serve], port: 9999, memory: {steady: 1GiB}, env: {API_KEY: "${env:THE_KEY}"}}'
    (tmp_path / "m.yaml").write_text(f"apiVersion: reconciler/v1\nmodels:\n  m: {model}\n")
    assert _secrets("m", str(tmp_path / "m.yaml")) == frozenset({"from-env-1"})
    (tmp_path / "m.yaml").write_text("models: [")
    assert _secrets("m", str(tmp_path / "m.yaml")) is None


def test_it_is_said_when_the_secrets_are_not_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "m.log").write_text("--api-key hunter2 s3cret!\n")
    assert main(["logs", "m", "--state-dir", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert said.out == "--api-key *** s3cret!\n"
    assert "only what looks like one by its name is masked" in said.err
