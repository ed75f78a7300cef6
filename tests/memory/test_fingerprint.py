"""The fingerprint of weights changes exactly when what is in them does, and is empty while that cannot be told."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.memory import fingerprint as module
from reconciler.memory.fingerprint import SETTLED, fingerprint

#: Every file of a test is older than that by then.
LATER = time.time() + 3600
SIZE = 3 << 20


def write(path: Path, size: int = SIZE, seed: int = 1) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes((seed * 31 + n * 7) % 256 for n in range(997)) * (size // 997 + 1))
    os.truncate(path, size)
    return path


def of(*paths: Path, now: float = LATER) -> str:
    return fingerprint(paths, now)


def test_sixteen_digits_and_always_the_same(tmp_path: Path) -> None:
    made = of(write(tmp_path / "a.gguf"))
    assert len(made) == 16
    assert int(made, 16)
    assert of(tmp_path / "a.gguf") == made


def replaced(path: Path) -> None:
    """Another file of the same size and time, moved into its place."""
    before = path.stat()
    other = write(path.with_name("other"), before.st_size, seed=2)
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(path)


def truncated(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def grown(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"x")


def head_changed(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\0\1\2\3")


def end_changed(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(b"\0\1\2\3")


def touched(path: Path) -> None:
    os.utime(path)


def copied(path: Path) -> None:
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").replace(path)


def renamed(path: Path) -> None:
    path.chmod(0o600)
    path.rename(path.with_name("b"))
    path.with_name("b").rename(path)


def linked(path: Path) -> None:
    path.rename(path.with_name("blob"))
    path.symlink_to("blob")


@pytest.mark.parametrize("change", [replaced, truncated, grown, head_changed, end_changed])
def test_other_contents(change: Callable[[Path], None], tmp_path: Path) -> None:
    path = write(tmp_path / "a.gguf")
    before = of(path)
    change(path)
    after = of(path)
    assert after
    assert after != before


@pytest.mark.parametrize("change", [touched, copied, renamed, linked])
def test_the_same_contents(change: Callable[[Path], None], tmp_path: Path) -> None:
    path = write(tmp_path / "a.gguf")
    before = of(path)
    change(path)
    assert of(path) == before


def test_a_file_that_was_just_written_may_still_be_written(tmp_path: Path) -> None:
    path = write(tmp_path / "a.gguf")
    # The time that a copying tool restores is not the one that counts.
    os.utime(path, (1, 1))
    changed = path.stat().st_ctime
    assert of(path, now=changed + SETTLED - 0.1) == ""
    assert of(path, now=changed - 60) == ""
    assert of(path, now=changed + SETTLED) != ""


def test_a_file_that_changes_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.gguf")
    real = module._digest

    def meanwhile(file: object, size: int) -> str:
        made = real(file, size)  # type: ignore[arg-type]
        grown(path)
        return made

    monkeypatch.setattr(module, "_digest", meanwhile)
    assert of(path) == ""


@pytest.mark.parametrize("what", ["nothing", "missing", "folder", "fifo", "lacking", "dangling"])
def test_what_cannot_be_told(what: str, tmp_path: Path) -> None:
    path = tmp_path / "a-00001-of-00002.gguf"
    if what == "folder":
        path.mkdir()
    elif what == "fifo":
        path = tmp_path / "pipe.gguf"
        os.mkfifo(path)
    elif what == "lacking":
        # Of a set of three the third is not there.
        path = write(tmp_path / "a-00002-of-00003.gguf", 10)
        write(tmp_path / "a-00001-of-00003.gguf", 10)
    elif what == "dangling":
        path = tmp_path / "a.gguf"
        path.symlink_to("gone")
    whole = write(tmp_path / "whole.gguf", 10)
    assert of(whole) != ""
    assert of(*([] if what == "nothing" else [whole, path])) == ""


def test_every_part_of_a_split_set_counts(tmp_path: Path) -> None:
    parts = [write(tmp_path / f"m-{n:05d}-of-00003.gguf", 1000, n) for n in (1, 2, 3)]
    before = of(parts[0])
    grown(parts[2])
    assert of(parts[0]) not in ("", before)


def model(folder: Path) -> Path:
    for number, name in enumerate(
        ("model.safetensors", "config.json", "tokenizer.json", "1_Pooling/config.json")
    ):
        write(folder / name, 100 + number, number)
    return folder


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("model.safetensors", True),
        ("config.json", True),
        ("1_Pooling/config.json", True),
        ("model-00001-of-00002.safetensors", True),
        ("onnx/model.onnx", True),
        ("model.bin", True),
        # What a server writes beside its weights is no reason to start it again.
        ("README.md", False),
        ("state.json", False),
        ("server.log", False),
        (".cache/huggingface/model.safetensors", False),
        ("runs/a/b/c/model.safetensors", False),
    ],
)
def test_what_counts_in_a_folder(name: str, counts: bool, tmp_path: Path) -> None:
    folder = model(tmp_path / "m")
    before = of(folder)
    write(folder / name, 50, 9)
    assert (of(folder) != before) is counts
    assert of(folder) != ""


def test_a_folder_that_was_moved_is_the_same_one(tmp_path: Path) -> None:
    folder = model(tmp_path / "m")
    before = of(folder)
    shutil.copytree(folder, tmp_path / "n", symlinks=True)
    assert of(tmp_path / "n") == before
    (tmp_path / "n/config.json").rename(tmp_path / "n/generation_config.json")
    assert of(tmp_path / "n") != before


def test_a_store_of_many_models_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_FILES", 4)
    folder = model(tmp_path / "m")
    assert of(folder) != ""
    write(folder / "more.bin", 10)
    assert of(folder) == ""


def test_files_are_read_once_and_never_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "large.gguf"
    with path.open("wb") as file:
        file.truncate(64 << 30)
    read: list[int] = []
    real = module._digest

    def counted(file: object, size: int) -> str:
        class Counting:
            def read(self, count: int) -> bytes:
                read.append(count)
                return file.read(count)  # type: ignore[attr-defined, no-any-return]

            def seek(self, to: int) -> None:
                file.seek(to)  # type: ignore[attr-defined]

        return real(Counting(), size)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "_digest", counted)
    first = of(path)
    assert first
    assert sum(read) == (64 << 10) + 64 * (4 << 10)
    assert of(path) == first
    assert len(read) == 65


@settings(max_examples=60)
@given(size=st.integers(1, 1 << 19), at=st.integers(0, (1 << 19) - 1))
def test_a_change_at_the_beginning_or_of_a_small_file_is_always_seen(
    size: int, at: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    # Up to 256 KiB the samples lie side by side; of a larger file only what lies between them may pass unseen.
    size = min(size, 256 << 10)
    at %= size
    path = tmp_path_factory.mktemp("f") / "a"
    write(path, size)
    before = of(path)
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 1]))
    assert of(path) != before
