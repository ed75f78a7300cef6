"""What `--version` says, and where it knows the commit from."""

import json
import platform
import re
from pathlib import Path

import jsonschema
import pytest

import reconciler
from reconciler.cli import main
from reconciler.cli.version import _commit
from reconciler.render.schemas import version_schema


def test_it_says_what_it_is_and_what_it_runs_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert re.fullmatch(
        rf"reconcile {re.escape(reconciler.__version__)}( \([0-9a-f]{{7}}(\+dirty)?\))?", first
    )
    assert [line.split()[0] for line in rest] == ["location", "python", "platform", "engines", "packages"]
    assert f"python    {platform.python_version()} " in rest[1]


def test_the_same_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, version_schema())
    assert document["location"] == str(Path(reconciler.__file__).parent)
    packages = {p["name"]: p["version"] for p in document["packages"]}
    assert packages["uvicorn"]
    assert "pytest" not in packages


def test_it_takes_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version", "chat"]) == 64
    assert "--version takes nothing but --json" in capsys.readouterr().err


def test_the_commit_of_a_checkout_and_of_a_build(tmp_path: Path) -> None:
    package, repository = tmp_path / "reconciler", tmp_path / ".git"
    package.mkdir()
    assert _commit(package) is None
    (package / "built_from.txt").write_text("1234567+dirty\n")
    assert _commit(package) == "1234567+dirty"
    repository.mkdir()
    (repository / "HEAD").write_text("ref: refs/heads/main\n")
    (repository / "packed-refs").write_text(f"# pack-refs\n{'ab' * 20} refs/heads/main\n")
    assert _commit(package) == "abababa"
    (repository / "refs/heads").mkdir(parents=True)
    (repository / "refs/heads/main").write_text("cd" * 20)
    assert _commit(package) == "cdcdcdc"
    (repository / "HEAD").write_text("ef" * 20)
    assert _commit(package) == "efefefe"
    tree = tmp_path / "tree"
    (tree / "reconciler").mkdir(parents=True)
    (tree / ".git").write_text("gitdir: ../.git/worktrees/tree\n")
    (repository / "worktrees/tree").mkdir(parents=True)
    (repository / "worktrees/tree/HEAD").write_text("ref: refs/heads/main\n")
    (repository / "worktrees/tree/commondir").write_text("../..\n")
    assert _commit(tree / "reconciler") == "cdcdcdc"
