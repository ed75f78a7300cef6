"""The manifest and git: files of another revision, and which commit the applied files belong to.

The only place besides the host that starts a program. git is asked to write nothing and to run no hook.
"""

import os
import subprocess
from pathlib import Path
from typing import Final

from reconciler.manifest.diagnostics import Diagnostic, ManifestError
from reconciler.manifest.files import Content, FileBytes, is_manifest_name, odd_name, read_regular, shown

#: Seconds git gets: much for a revision somebody waits for, little for a remark in the status.
READ_TIMEOUT: Final = 30.0
DESCRIBE_TIMEOUT: Final = 2.0
_GIT: Final = ("git", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false")


class GitError(Exception):
    """git could not do it. The text is for people."""


class NotInRevisionError(GitError):
    """A revision is there, and has nothing at the path."""


def absent(path: Path, rev: str) -> bool:
    """Return whether revision `rev` is there and has nothing at `path`. Blocks."""
    try:
        _read_revision(path, rev)
    except NotInRevisionError:
        return True
    except GitError:
        return False
    return False


def read_revision(path: Path, rev: str) -> Content:
    """Return the manifest's files as they are in revision `rev`. Blocks. Raises ManifestError."""
    try:
        return _read_revision(path, rev)
    except GitError as error:
        raise ManifestError([Diagnostic(shown(path), 0, 0, "git", str(error))]) from None


def describe(content: Content) -> tuple[str | None, bool]:
    """Return the short commit the files lie in, and whether they differ from it. Blocks.

    (None, False) outside a repository, without git, or if git takes longer than DESCRIBE_TIMEOUT.
    """
    names = [file.directory / file.entry for file in content.files]
    if not names:
        return None, False
    try:
        if content.rev is not None:
            return content.rev, False
        report = _run(names[0].parent, DESCRIBE_TIMEOUT, *_STATUS, *(str(name) for name in names))
    except GitError:
        return None, False
    lines = report.decode(errors="replace").split("\0")
    commit = next((line.split()[-1] for line in lines if line.startswith("# branch.oid ")), "")
    if not commit or commit.startswith("("):
        return None, False
    return commit[:7], any(line and not line.startswith("#") for line in lines)


def pulse(content: Content) -> tuple[int, ...]:
    """Return something that differs once a commit or an `add` was made where the files lie. Cheap; blocks.

    The times of the repository's own files; () outside one.
    """
    for directory in {file.directory for file in content.files}:
        for above in (directory, *directory.parents):
            if (above / ".git").exists():
                home = _git_directory(above / ".git")
                return tuple(_modified(home / name) for name in ("HEAD", "index", "logs/HEAD"))
    return ()


def _git_directory(entry: Path) -> Path:
    """Return the directory behind `.git`, which in a linked work tree is a file that names it."""
    if entry.is_dir():
        return entry
    try:
        named = os.fsdecode(read_regular(entry)).partition("gitdir:")[2].strip()
    except OSError:
        return entry
    return (entry.parent / named) if named else entry


def _modified(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


_STATUS: Final = (
    "status",
    "--porcelain=v2",
    "--branch",
    "-z",
    "--untracked-files=all",
    "--ignored=matching",
    "--",
)


def _path_hint(rev: str) -> str:
    if not os.path.exists(rev):
        return ""
    return (
        f"; it is a path: `reconcile --dry-run {rev}` plans for it, and revisions are commits, branches, tags"
    )


def _shallow_hint(base: Path) -> str:
    """Return what to do where the history was cut off when it was cloned, as most CI does; "" = it was not."""
    shallow = _run(base, READ_TIMEOUT, "rev-parse", "--is-shallow-repository").strip() == b"true"
    return "; the clone is shallow: `git fetch --unshallow` gets the rest" if shallow else ""


def _read_revision(path: Path, rev: str) -> Content:
    base, below = _existing(path.absolute())
    if rev.startswith("-"):
        raise GitError(f"{rev!r} is not a revision")
    prefix = os.fsdecode(_run(base, READ_TIMEOUT, "rev-parse", "--show-prefix")).removesuffix("\n")
    try:
        commit = _run(base, READ_TIMEOUT, "rev-parse", "--verify", f"{rev}^{{commit}}").decode().strip()
    except GitError as error:
        raise GitError(
            f"there is no revision {rev!r} ({error}){_path_hint(rev) or _shallow_hint(base)}"
        ) from None
    where = os.path.normpath(prefix + below)
    kind, data = _object(base, f"{commit}:" if where == "." else f"{commit}:{where}", where, rev)
    directory = path.absolute()
    if kind == "blob":
        files = [FileBytes(f"{rev}:{shown(path)}", directory.parent, data)]
    else:
        tree = f"{commit}:" if where == "." else f"{commit}:{where}"
        listed = _run(base, READ_TIMEOUT, "ls-tree", "--full-tree", "-z", "--name-only", tree)
        wanted = [name for name in sorted(os.fsdecode(listed).split("\0")) if is_manifest_name(name)]
        if not wanted:
            raise GitError(f"there is no *.yaml file in {shown(path)} in revision {rev!r}")
        files = [
            FileBytes(f"{rev}:{shown(path / name)}", directory, error=odd)
            if (odd := odd_name(name))
            else FileBytes(
                f"{rev}:{shown(path / name)}", directory, _object(base, _below(tree, name), name, rev)[1]
            )
            for name in wanted
        ]
    return Content(shown(path), tuple(files), rev=commit[:7])


def _below(tree: str, name: str) -> str:
    return tree + name if tree.endswith(":") else f"{tree}/{name}"


def _existing(path: Path) -> tuple[Path, str]:
    """Split a path into the nearest directory that exists now and the rest, since the rest may be in the past only."""
    base = path
    while not base.is_dir():
        base = base.parent
    return base, os.path.relpath(path, base)


def _object(base: Path, name: str, called: str, rev: str) -> tuple[str, bytes]:
    """Return kind and bytes of an object; symbolic links within the revision are followed."""
    if "\n" in name:
        raise GitError("a path with a line break cannot be read from a revision")
    answer = _run(
        base, READ_TIMEOUT, "cat-file", "--batch", "--follow-symlinks", stdin=os.fsencode(name) + b"\n"
    )
    head, _, rest = answer.partition(b"\n")
    fields = head.decode(errors="replace").split()
    if len(fields) == 3 and fields[1] in ("blob", "tree"):
        return fields[1], rest[: int(fields[2])]
    if head.startswith((b"symlink", b"dangling")):
        raise GitError(f"{called} is a link that leads out of revision {rev!r}")
    raise NotInRevisionError(f"{called} is not in revision {rev!r}")


def _run(directory: Path, timeout: float, *arguments: str, stdin: bytes = b"") -> bytes:
    """Run git in `directory` and return its output. Raises GitError."""
    env = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            [*_GIT, "-C", str(directory), *arguments],
            input=stdin,
            capture_output=True,
            env=env,
            timeout=timeout,
            check=False,
        )
    except FileNotFoundError:
        raise GitError("git is not installed, or not on PATH") from None
    except subprocess.TimeoutExpired:
        raise GitError(f"git did not answer within {timeout:.0f} s") from None
    except OSError as error:
        raise GitError(f"git cannot be started: {error.strerror}") from None
    if done.returncode == 0:
        return done.stdout
    complaint = done.stderr.decode(errors="replace").strip().splitlines()
    if any("not a git repository" in line for line in complaint):
        raise GitError(f"git says that {shown(directory)} is not in a repository")
    raise GitError(complaint[0].removeprefix("fatal: ") if complaint else f"git {arguments[0]} failed")
