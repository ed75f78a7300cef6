"""The checks of `examples/gitops`, run in a repository of their own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

#: Up to five starts of the program in a test: on a machine that is busy with others each takes its time.
pytestmark = pytest.mark.timeout(240)

EXAMPLE = Path(__file__).parents[2] / "examples" / "gitops"


class Desk:
    """A repository with the example in it, one commit, and a `reconcile` on PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "desk"
        shutil.copytree(EXAMPLE, self.folder)
        program = folder / "bin" / "reconcile"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m reconciler "$@"\n')
        program.chmod(0o755)
        self.summary = folder / "summary.md"
        paths = f"{program.parent}:{os.environ['PATH']}"
        self.env = {**os.environ, "PATH": paths, "SUMMARY": str(self.summary), "HOME": str(folder)}
        self.env.pop("GITHUB_STEP_SUMMARY", None)
        self.git("init", "-q", "-b", "main")
        self.commit()

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            words, cwd=self.folder, env=self.env, capture_output=True, text=True, check=False
        )

    def git(self, *words: str) -> "subprocess.CompletedProcess[str]":
        who = ("-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false")
        return self.run("git", *who, *words)

    def commit(self, *words: str) -> "subprocess.CompletedProcess[str]":
        self.git("add", "-A")
        return self.git("commit", "-qm", "a change", *words)

    def change(self, old: str, new: str) -> None:
        path = self.folder / "manifests" / "models.yaml"
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_good_change_passes_and_is_told(desk: Desk) -> None:
    desk.change(
        "max_tokens: 16384}\n    memory: {steady: 13GiB}", "max_tokens: 8192}\n    memory: {steady: 12GiB}"
    )
    done = desk.run("./check-manifest")
    assert done.returncode == 0, done.stdout + done.stderr
    for text in (
        "~ chat  restarts if it is loaded",
        "context.max_tokens  16384 -> 8192",
        "2 to load, 1 cold",
        "Is the manifest right?\n",
    ):
        assert text in done.stdout
    summary = desk.summary.read_text()
    assert summary.count("### ") == 4
    assert "failed" not in summary
    assert "context.max_tokens  16384 -> 8192" in summary


def test_a_bad_manifest_is_refused_with_its_place(desk: Desk) -> None:
    desk.change("residency: warm", "residency: hot")
    done = desk.run("./check-manifest")
    assert done.returncode == 1
    assert 'manifests/models.yaml:12:16: error: "hot" is not one of' in done.stdout
    assert "### Is the manifest right? (failed)" in desk.summary.read_text()


def test_a_change_over_the_budget_is_refused(desk: Desk) -> None:
    desk.change("steady: 13GiB", "steady: 33GiB")
    desk.commit()
    done = desk.run("./check-manifest", "HEAD~1", "HEAD")
    assert done.returncode == 1
    assert "== What changes from HEAD~1? (failed)" in done.stdout
    assert "! coder  NeverFits" in done.stdout


def test_the_hook_checks_what_would_be_committed(desk: Desk) -> None:
    hook = desk.folder / ".git" / "hooks" / "pre-commit"
    hook.symlink_to("../../pre-commit")
    (desk.folder / "notes.txt").write_text("nothing of the manifest")
    assert desk.commit().returncode == 0
    desk.change("residency: warm", "residency: hot")
    refused = desk.commit()
    assert refused.returncode == 1
    assert '"hot" is not one of' in refused.stdout + refused.stderr
    desk.change("residency: hot", "residency: on_demand")
    desk.git("add", "-A")
    desk.change("residency: on_demand", "residency: broken")
    taken = desk.git("commit", "-qm", "the index is right, the file is not")
    assert taken.returncode == 0, taken.stdout + taken.stderr


def test_the_samples_for_others_are_yaml_and_run_the_same_script() -> None:
    workflow = YAML(typ="safe").load(EXAMPLE / "github" / "manifest.yml")
    commands = [step.get("run", "") for step in workflow["jobs"]["check"]["steps"]]
    assert './check-manifest "$BASE"' in commands
    hooks = YAML(typ="safe").load(EXAMPLE / "pre-commit-config.yaml")["repos"][0]["hooks"]
    assert [hook["entry"] for hook in hooks] == ["./check-manifest"]
