"""Two revisions of a manifest: what changed, what would be done, who no longer fits."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from golden_files import assert_golden
from reconciler.cli import main
from reconciler.manifest.diagnostics import ManifestError
from reconciler.manifest.files import Content, FileBytes
from reconciler.manifest.load import read_document
from reconciler.render.schemas import diff_schema
from reconciler.revisions.keys import KeyChange, Side, compare

DESK = """\
apiVersion: reconciler/v1
machine: {memory: 24GiB, reserve: 10%}
gateway:
  api_keys: [{key: first-secret-key, name: desk}]
defaults:
  engine_: x
models:
  chat:
    engine: command
    command: [serve, --port, "${port}"]
    residency: pinned
    memory: {steady: 8GiB}
    env: {TOKEN: hush-one}
  coder:
    engine: command
    command: [serve, --port, "${port}"]
    residency: warm
    memory: {steady: 9GiB}
  vision:
    engine: command
    command: [serve, --port, "${port}"]
    memory: {steady: 10GiB}
""".replace("defaults:\n  engine_: x\n", "")
MACHINE = "apiVersion: reconciler/v1\nmemory: 32GiB\nin_use: 2GiB\n"


class Repository:
    """A git repository with a manifest and the description of a machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "manifests").mkdir(parents=True)
        (folder / "desk.yaml").write_text(MACHINE)
        self.git("init", "-q", "-b", "main")
        self.write(DESK)
        self.commit()

    def git(self, *words: str) -> str:
        who = ("-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false")
        done = subprocess.run(
            ["git", *who, *words], cwd=self.folder, check=True, capture_output=True, text=True
        )
        return done.stdout

    def write(self, text: str) -> None:
        (self.folder / "manifests" / "models.yaml").write_text(text)

    def commit(self) -> None:
        self.git("add", "-A")
        self.git("commit", "-qm", "a change")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    monkeypatch.chdir(tmp_path)
    return Repository(tmp_path)


def document(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["diff", *words, "--machine", "desk.yaml", "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    jsonschema.validate(found, diff_schema())
    return found


def steps(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(step["action"], step["model"]) for step in found["steps"]]


def test_what_changed_what_comes_of_it_and_who_no_longer_fits(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = (
        DESK.replace("steady: 8GiB", "steady: 14GiB")
        .replace("memory: 24GiB", "memory: 20GiB")
        .replace("hush-one", "hush-two")
        .replace("first-secret-key", "second-secret-key")
        .replace("    residency: warm\n", "    residency: warm\n    priority: low\n")
        + "  new:\n    engine: command\n    command: [serve, --port, '${port}']\n    memory: {steady: 1GiB}\n"
    )
    repository.write(changed)
    assert main(["diff", "HEAD", "--machine", "desk.yaml"]) == 0
    text = re.sub(r"\b[0-9a-f]{7}\b", "0a1b2c3", capsys.readouterr().out)
    assert "secret-key" not in text
    assert "hush" not in text
    assert_golden("diff.txt", text)
    found = document(capsys, "HEAD")
    assert steps(found) == [("evict", "coder"), ("evict", "chat"), ("load", "chat")]
    assert [(v["model"], v["reason"]) for v in found["lost"]] == [
        ("coder", "NeverFits"),
        ("vision", "NeverFits"),
    ]
    assert found["account_before"]["held"] == 17 << 30
    assert found["account_after"]["held"] == 14 << 30
    assert "secret-key" not in json.dumps(found)
    assert "hush" not in json.dumps(found)


def test_two_commits_are_compared_without_the_files(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.write(DESK.replace("9GiB", "7GiB"))
    repository.commit()
    repository.write("broken: [")
    found = document(capsys, "HEAD~1", "HEAD")
    assert [(c["name"], c["keys"][0]["before"], c["keys"][0]["after"]) for c in found["changes"]] == [
        ("coder", "9GiB", "7GiB")
    ]
    assert found["changes"][0]["keys"][0]["place"] == "HEAD:manifests/models.yaml:16:22"
    assert found["after"]["git"]["dirty"] is False


def test_what_means_the_same_is_no_difference(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.write("# more words\n" + DESK.replace("memory: {steady: 8GiB}", "memory: {steady: 8192MiB}"))
    assert document(capsys, "HEAD")["changes"] == []
    assert main(["diff", "HEAD", "--machine", "desk.yaml", "--detailed-exitcode"]) == 0
    assert "No difference: both mean the same." in capsys.readouterr().out
    repository.write(DESK.replace("8GiB", "6GiB"))
    assert main(["diff", "HEAD", "--machine", "desk.yaml", "--detailed-exitcode"]) == 2


def test_strict_fails_for_who_can_no_longer_be_in_memory(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["diff", "HEAD", "--machine", "desk.yaml", "--strict"]
    repository.write(DESK.replace("8GiB", "9GiB"))
    assert main(words) == 0
    repository.write(DESK.replace("9GiB", "15GiB"))
    assert main(words) == 1
    said = capsys.readouterr()
    assert "can no longer be in memory" in said.out
    assert "--strict" in said.err


def test_a_model_that_comes_and_one_that_goes(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.write(DESK.replace("  coder:\n", "  other:\n"))
    found = document(capsys, "HEAD")
    assert [(c["name"], c["change"]) for c in found["changes"]] == [("coder", "removed"), ("other", "added")]
    assert found["changes"][0]["keys"][0]["place"] == "HEAD:manifests/models.yaml:12:3"
    assert steps(found) == [("evict", "coder"), ("load", "other")]


def test_the_faults_of_both_are_said(repository: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    repository.write(DESK.replace("residency: warm", "residency: hot"))
    repository.commit()
    repository.write(DESK.replace("residency: pinned", "residency: glued"))
    assert main(["diff", "HEAD"]) == 1
    said = capsys.readouterr().err
    assert "HEAD:manifests/models.yaml:15:16" in said
    assert "manifests/models.yaml:9:16" in said
    assert main(["diff", "nowhere"]) == 1
    assert "there is no revision 'nowhere'" in capsys.readouterr().err
    assert main(["diff", "HEAD", "manifests"]) == 1
    assert "it is a path: `reconcile --dry-run manifests` plans for it" in capsys.readouterr().err


def test_a_manifest_that_was_not_there_before_is_new_as_a_whole(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["diff", "HEAD", "--manifest", "others", "--machine", "desk.yaml"]
    assert main(words) == 1
    refused = capsys.readouterr().err
    assert "others: error: there is no such file" in refused
    assert "others is not in revision 'HEAD'" in refused
    (repository.folder / "others").mkdir()
    (repository.folder / "others" / "models.yaml").write_text(DESK)
    assert main([*words, "--json"]) == 0
    said = capsys.readouterr()
    assert "others is not in HEAD: everything is new" in said.err
    found = json.loads(said.out)
    assert [(c["name"], c["change"]) for c in found["changes"] if c["section"] == "model"] == [
        ("chat", "added"),
        ("coder", "added"),
        ("vision", "added"),
    ]
    assert steps(found) == [("load", "chat"), ("load", "coder")]


def side(text: str) -> Side:
    whole = f"apiVersion: reconciler/v1\n{text}\n"
    content = Content("m.yaml", (FileBytes("m.yaml", Path("/"), whole.encode(), entry="m.yaml"),))
    try:
        return Side(*read_document(content, environ={"HOME": "/root"}))
    except ManifestError as error:
        raise AssertionError(error.render()) from error


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        (
            "models: {a: {weights: x.gguf}}",
            "models: {a: {weights: x.gguf, timeouts: {load: 3m}}}",
            [KeyChange(("models", "a", "timeouts", "load"), "(default)", "3m", "m.yaml:2:48")],
        ),
        (
            "models: {a: {weights: x.gguf}}\ndefaults: {timeouts: {load: 3m}}",
            "models: {a: {weights: x.gguf}}\ndefaults: {timeouts: {load: 4m}}",
            [KeyChange(("models", "a", "timeouts", "load"), "3m", "4m", "m.yaml:3:29")],
        ),
        (
            "models: {a: {weights: x.gguf, args: [--a, b]}}",
            "models: {a: {weights: x.gguf, args: [--a, c]}}",
            [KeyChange(("models", "a", "args"), "[--a, b]", "[--a, c]", "m.yaml:2:31")],
        ),
        (
            "models: {a: {weights: x.gguf, env: {A: one, B: same}}}",
            "models: {a: {weights: x.gguf, env: {A: two, B: same}}}",
            [KeyChange(("models", "a", "env", "A"), "(hidden)", "(hidden) (another)", "m.yaml:2:40")],
        ),
        (
            "models: {}\nmachine: {memory: 8GiB}",
            "models: {}\nmachine: {memory: 8192MiB, swap: {max_used: never}}",
            [KeyChange(("machine", "swap", "max_used"), "(default)", "never", "m.yaml:3:45")],
        ),
        ("models: {a: {weights: x.gguf}}", "models: {a: {weights: x.gguf, role: chat}}", []),
        (
            "models: {a: {weights: x.gguf}}",
            "models: {a: {weights: x.gguf}}\nvirtual: {v: {use: [a]}}",
            [KeyChange(("virtual", "v"), None, "", "m.yaml:3:11")],
        ),
    ],
)
def test_keys(old: str, new: str, changes: list[KeyChange]) -> None:
    assert list(compare(side(old), side(new))) == changes
