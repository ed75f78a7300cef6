"""What is no readable manifest file is named and left alone: it holds nothing up and is never opened."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from manifest_texts import HEAD, load
from reconciler.manifest import Diagnostic, ManifestError
from reconciler.manifest.files import read_content, read_regular, shown

GOOD = HEAD + "models: {}\n"


def refused(path: Path) -> tuple[Diagnostic, ...]:
    with pytest.raises(ManifestError) as caught:
        load(path)
    return caught.value.diagnostics


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


def make_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


ODD = [(os.mkfifo, "FIFO"), (make_socket, "socket"), (make_device, "device"), (Path.mkdir, "directory")]


@pytest.mark.parametrize(("make", "kind"), ODD, ids=[kind for _, kind in ODD])
def test_only_regular_files_are_read(tmp_path: Path, make: Callable[[Path], None], kind: str) -> None:
    (tmp_path / "a.yaml").write_text(GOOD)
    make(tmp_path / "b.yaml")
    (found,) = refused(tmp_path)
    assert str(found) == f"{tmp_path}/b.yaml: error: it is a {kind}, not a file [unreadable]"


def test_a_manifest_that_is_a_fifo_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (found,) = refused(tmp_path / "pipe")
    assert "it is a FIFO, not a file" in found.message


def test_a_fifo_that_takes_the_place_of_a_file_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe, regular = tmp_path / "m.yaml", tmp_path / "regular"
    os.mkfifo(pipe)
    regular.touch()
    state = os.stat(regular)
    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", lambda _path: state)
        with pytest.raises(OSError, match="it is a FIFO, not a file"):
            read_regular(pipe)


def test_a_file_of_keys_that_is_a_fifo_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "keys")
    (tmp_path / "m.yaml").write_text(GOOD + "gateway: {api_keys: {file: keys}}\n")
    (found,) = refused(tmp_path / "m.yaml")
    assert found.message == "the file of API keys cannot be read: it is a FIFO, not a file"
    assert read_content(tmp_path / "m.yaml", [str(tmp_path / "keys")]).digest


def test_no_more_of_a_file_is_read_than_may_count(tmp_path: Path) -> None:
    with (tmp_path / "m.yaml").open("w") as file:
        file.truncate(1 << 40)
    (tmp_path / "keys").symlink_to("m.yaml")
    (found,) = refused(tmp_path / "m.yaml")
    assert (found.code, found.message) == ("too-large", "the file has more than 8 MiB")
    (tmp_path / "n.yaml").write_text(GOOD + "gateway: {api_keys: {file: keys}}\n")
    (found,) = refused(tmp_path / "n.yaml")
    assert found.message == "the file of API keys has more than 8 MiB"


def odd_file(directory: Path, name: bytes) -> Path:
    path = Path(os.fsdecode(os.fsencode(directory) + b"/" + name))
    try:
        path.write_text(GOOD)
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    return path


def test_a_name_that_is_not_utf8_is_told_in_ascii(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(GOOD)
    odd_file(tmp_path, b"\xff\xfe.yaml")
    odd_file(tmp_path, b"\xff.txt")
    (found,) = refused(tmp_path)
    assert str(found) == (f"{tmp_path}/\\xff\\xfe.yaml: error: its name is not UTF-8: rename it [unreadable]")
    json.dumps(found.file, ensure_ascii=False).encode()


def test_a_directory_whose_name_is_not_utf8_is_no_obstacle(tmp_path: Path) -> None:
    directory = Path(os.fsdecode(os.fsencode(tmp_path) + b"/mod\xe8les"))
    directory.mkdir()
    (directory / "m.yaml").write_text(HEAD + "models: {chat: {}}\n")
    applied = load(directory)
    assert applied.source.path == f"{tmp_path}/mod\\xe8les"
    assert applied.source.files == (f"{tmp_path}/mod\\xe8les/m.yaml",)
    (found,) = refused(directory / "absent.yaml")
    found.file.encode()


def test_a_revision_with_a_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(GOOD)
    odd_file(tmp_path, b"\xff.yaml")
    who = ["-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "commit.gpgsign=false"]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run(["git", "-C", str(tmp_path), *who, *arguments], check=True, capture_output=True)
    with pytest.raises(ManifestError) as caught:
        load(tmp_path, rev="HEAD")
    (found,) = caught.value.diagnostics
    assert found.message == "its name is not UTF-8: rename it"
    found.file.encode()


def test_git_is_asked_by_the_name_the_system_has(tmp_path: Path) -> None:
    (tmp_path / "a\nb.yaml").write_text(GOOD)
    who = ["-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "commit.gpgsign=false"]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run(["git", "-C", str(tmp_path), *who, *arguments], check=True, capture_output=True)
    (tmp_path / "a\nb.yaml").write_text(GOOD + "# changed\n")
    source = load(tmp_path).source
    assert source.files == (f"{tmp_path}/a\\x0ab.yaml",)
    assert source.git_dirty


@pytest.mark.parametrize("verb", [("validate",), ("--dry-run",)])
def test_the_program_ends_although_a_fifo_is_among_the_files(tmp_path: Path, verb: tuple[str, ...]) -> None:
    os.mkfifo(tmp_path / "b.yaml")
    code = "import sys; from reconciler.cli import main; sys.exit(main())"
    argv = [sys.executable, "-c", code, *verb, str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert "it is a FIFO, not a file" in done.stderr


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("modèles/a b.yaml", "modèles/a b.yaml"),
        ("a\udcff\n\u2028", "a\\xff\\x0a\\u2028"),
        ("\ud800", "\\ud800"),
    ],
)
def test_shown(path: str, text: str) -> None:
    assert shown(path) == text
    text.encode()
