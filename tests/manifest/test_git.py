"""The manifest of another revision, and what git knows of the applied one."""

import subprocess
from pathlib import Path

import pytest

from manifest_texts import HEAD, load
from reconciler.manifest import ManifestError

IDENTITY = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")


def git(repo: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", repo, *IDENTITY, *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def commit(repo: Path) -> str:
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "x")
    return git(repo, "rev-parse", "HEAD")[:7]


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository whose first commit has the model `old`, and whose work tree has `new`."""
    git(tmp_path, "init", "-q", "-b", "main")
    directory = tmp_path / "manifests"
    directory.mkdir()
    (directory / "a.yaml").write_text(f"{HEAD}models: {{old: {{weights: w.gguf}}}}\n")
    (directory / "shared.txt").write_text(f"{HEAD}models: {{linked: {{}}}}\n")
    (directory / "b.yaml").symlink_to("shared.txt")
    commit(tmp_path)
    (directory / "a.yaml").write_text(f"{HEAD}models: {{new: {{}}}}\n")
    (directory / "b.yaml").unlink()
    return tmp_path


def test_a_revision_is_read_without_touching_the_work_tree(repo: Path) -> None:
    before = git(repo, "status", "--porcelain")
    applied = load(repo / "manifests", rev="HEAD")
    assert sorted(applied.launches) == ["linked", "old"]
    assert applied.launches["old"].weights == str(repo / "manifests" / "w.gguf")
    assert applied.source.git_commit == git(repo, "rev-parse", "HEAD")[:7]
    assert not applied.source.git_dirty
    assert sorted(load(repo / "manifests").launches) == ["new"]
    assert git(repo, "status", "--porcelain") == before


def test_one_file_of_a_revision(repo: Path) -> None:
    assert sorted(load(repo / "manifests" / "a.yaml", rev="main").launches) == ["old"]
    assert sorted(load(repo / "manifests" / "b.yaml", rev="main").launches) == ["linked"]


def test_a_directory_that_is_only_in_the_past(repo: Path) -> None:
    for file in (repo / "manifests").iterdir():
        file.unlink()
    (repo / "manifests").rmdir()
    assert "old" in load(repo / "manifests", rev="HEAD").launches


def test_a_manifest_at_the_top_of_the_repository(repo: Path) -> None:
    (repo / "top.yaml").write_text(f"{HEAD}models: {{top: {{}}}}\n")
    commit(repo)
    assert "top" in load(repo, rev="HEAD").launches


def test_faults_of_a_revision_name_it(repo: Path) -> None:
    (repo / "manifests" / "a.yaml").write_text(f"{HEAD}models: {{old: {{prt: 1}}}}\n")
    commit(repo)
    with pytest.raises(ManifestError) as caught:
        load(repo / "manifests" / "a.yaml", rev="HEAD")
    (found,) = caught.value.diagnostics
    assert str(found).startswith(f"HEAD:{repo}/manifests/a.yaml:2:16: error: ")


@pytest.mark.parametrize(
    ("path", "rev", "said"),
    [
        ("manifests", "nope", "there is no revision 'nope'"),
        ("manifests", "--output=x", "is not a revision"),
        ("manifests", "HEAD:manifests", "there is no revision"),
        ("manifests/c.yaml", "HEAD", "manifests/c.yaml is not in revision 'HEAD'"),
        (".", "HEAD", "there is no *.yaml file in"),
    ],
)
def test_what_is_not_in_git_is_said(repo: Path, path: str, rev: str, said: str) -> None:
    with pytest.raises(ManifestError) as caught:
        load(repo / path, rev=rev)
    (found,) = caught.value.diagnostics
    assert (found.code, said in found.message) == ("git", True), found.message


def test_a_clone_whose_history_was_cut_off_says_how_to_get_the_rest(repo: Path, tmp_path: Path) -> None:
    commit(repo)
    cut = tmp_path / "cut"
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{repo}", str(cut))
    with pytest.raises(ManifestError, match="the clone is shallow: `git fetch --unshallow` gets the rest"):
        load(cut / "manifests", rev="HEAD~1")
    with pytest.raises(ManifestError) as caught:
        load(repo / "manifests", rev="HEAD~9")
    assert "shallow" not in str(caught.value.diagnostics)


def test_no_repository_and_no_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    (tmp_path / "m.yaml").write_text(f"{HEAD}models: {{}}\n")
    with pytest.raises(ManifestError, match="not in a repository"):
        load(tmp_path / "m.yaml", rev="HEAD")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ManifestError, match="git is not installed"):
        load(tmp_path / "m.yaml", rev="HEAD")
    assert load(tmp_path / "m.yaml").source.git_commit is None


def test_commit_and_dirty_flag_are_of_the_applied_files_only(repo: Path) -> None:
    path = repo / "manifests" / "a.yaml"
    assert load(path).source.git_dirty
    head = commit(repo)
    assert (load(path).source.git_commit, load(path).source.git_dirty) == (head, False)
    (repo / "other.txt").write_text("x")
    assert not load(path).source.git_dirty
    untracked = repo / "manifests" / "u.yaml"
    untracked.write_text(f"{HEAD}models: {{}}\n")
    assert load(untracked).source.git_dirty
    (repo / ".gitignore").write_text("u.yaml\n")
    assert load(untracked).source.git_dirty


def test_a_repository_without_a_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "m.yaml").write_text(f"{HEAD}models: {{}}\n")
    source = load(tmp_path / "m.yaml").source
    assert (source.git_commit, source.git_dirty) == (None, False)


def test_a_git_that_hangs_does_not_hold_up_the_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nexec sleep 30\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}:/usr/bin:/bin")
    monkeypatch.setattr("reconciler.manifest.git.DESCRIBE_TIMEOUT", 0.2)
    (tmp_path / "m.yaml").write_text(f"{HEAD}models: {{}}\n")
    assert load(tmp_path / "m.yaml").source.git_commit is None
