"""The verb `import`: where its output goes, what it refuses, its exit codes."""

import json
from pathlib import Path

import jsonschema
import pytest

from reconciler.cli import main
from reconciler.manifest import load_manifest
from reconciler.render.schemas import import_schema

SIMPLE = "models:\n  chat:\n    # the usual\n    cmd: llama-server --port ${PORT} -m /models/chat.gguf\n"
LOSSY = SIMPLE + "    unlisted: true\n"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "llama-swap" / "config.yaml"
    path.parent.mkdir()
    path.write_text(SIMPLE)
    return path


def test_the_manifest_goes_to_stdout_and_the_report_to_stderr(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", "llama-swap", str(source)]) == 0
    out = capsys.readouterr()
    assert "  chat:\n    # the usual\n    weights: /models/chat.gguf\n" in out.out
    assert f"{source}:1:1: note: models: no --parallel for chat" in out.err
    assert out.err.endswith("1 model: 3 to know.\n")


def test_what_is_lost_makes_it_two_and_what_cannot_be_read_one(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source.write_text(LOSSY)
    assert main(["import", "llama-swap", str(source)]) == 2
    source.write_text("models: {a: {cmd: '${nothing}'}}\n")
    capsys.readouterr()
    assert main(["import", "llama-swap", str(source)]) == 1
    out = capsys.readouterr()
    assert out.out == ""
    assert f"{source}:1:20: error: models.a.cmd: there is no macro ${{nothing}}" in out.err


@pytest.mark.parametrize("given", ["new.yaml", "folder", "there"])
def test_it_writes_a_file_that_loads(source: Path, given: str, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    out = tmp_path / given
    assert main(["import", "llama-swap", str(source), "--out", str(out)]) == 0
    written = out if given == "new.yaml" else out / "models.yaml"
    assert [spec.name for spec in load_manifest(written, environ={}).manifest.models] == ["chat"]
    assert sorted(path.name for path in written.parent.iterdir() if path.name.startswith(".")) == []


def test_a_file_that_is_there_stays_unless_forced(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "models.yaml"
    out.write_text("mine")
    assert main(["import", "llama-swap", str(source), "--out", str(out)]) == 1
    assert out.read_text() == "mine"
    assert "with --force it is kept" in capsys.readouterr().err
    assert main(["import", "llama-swap", str(source), "--out", str(out), "--force"]) == 0
    assert "weights: /models/chat.gguf" in out.read_text()
    assert (tmp_path / "models.yaml.1.bak").read_text() == "mine"


def test_nothing_is_written_where_it_cannot_be_converted(source: Path, tmp_path: Path) -> None:
    source.write_text("models: {a: {cmd: '${nothing}'}}\n")
    assert main(["import", "llama-swap", str(source), "--out", str(tmp_path / "new.yaml")]) == 1
    assert not (tmp_path / "new.yaml").exists()


def test_a_name_that_no_manifest_can_have_is_said_and_nothing_written(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source.write_text("models:\n  /a/b:\n    cmd: llama-server --port ${PORT} -m /models/a.gguf\n")
    assert main(["import", "llama-swap", str(source), "--out", str(tmp_path / "new.yaml")]) == 1
    err = capsys.readouterr().err
    assert f'{source}:2:3: error: models./a/b: "/a/b": a name must not begin with / or .' in err
    assert not (tmp_path / "new.yaml").exists()


def test_the_report_as_json_follows_its_schema_and_holds_the_manifest(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source.write_text(LOSSY)
    assert main(["import", "llama-swap", str(source), "--json"]) == 2
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, import_schema())
    assert document["complete"] is False
    assert document["models"] == ["chat"]
    assert "weights: /models/chat.gguf" in document["manifest"]
    lost = [finding for finding in document["findings"] if finding["kind"] == "lost"]
    assert [(finding["line"], finding["col"], finding["key"]) for finding in lost] == [
        (5, 5, "models.chat.unlisted")
    ]


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (["no-such.yaml"], 1, "no-such.yaml"),
        (["."], 64, "name one configuration"),
        (["x.yaml", "--force"], 64, "--force has no effect without --out"),
        (["x.yaml", "--out", "x.txt"], 64, "x.txt is no *.yaml file"),
    ],
)
def test_wrong_usage(
    argv: list[str], code: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.yaml").write_text(SIMPLE)
    (tmp_path / "x.txt").write_text("a file")
    assert main(["import", "llama-swap", *argv]) == code
    assert message in capsys.readouterr().err
