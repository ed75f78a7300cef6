"""Devices and FIFOs in place of files that a model names: refused at once, nothing is read of them."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hf_files import write_model
from reconciler.memory.gguf import Unreadable, WeightsError, find_weights, read_header
from reconciler.memory.hf import find_model, read_safetensors
from reconciler.memory.regular import open_regular, read_regular

#: Seconds until a read that hangs has failed, and bytes a child may have.
DEADLINE = 20
ROOM = 1 << 30
LOOK = """
import sys
from pathlib import Path
from reconciler.memory.gguf import WeightsError
from reconciler.memory.hf import find_model
try:
    print(find_model(Path(sys.argv[1])).oddities)
except WeightsError as error:
    print(error)
"""
INDEX = "model.safetensors.index.json"


def look(path: Path) -> str:
    """Return what a process of its own makes of a model; one that eats memory or waits is ended."""
    return subprocess.run(
        [sys.executable, "-c", LOOK, str(path)],
        capture_output=True,
        check=True,
        text=True,
        timeout=DEADLINE,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (ROOM, ROOM)),
    ).stdout.strip()


@contextmanager
def special(path: Path, kind: str) -> Iterator[None]:
    """Put a device or a FIFO at `path`."""
    path.unlink(missing_ok=True)
    if kind == "FIFO":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    yield
    path.unlink()


@pytest.mark.parametrize("kind", ["device", "FIFO"])
def test_a_folder_whose_texts_are_no_files(kind: str, tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", {}, shards=2)
    for name in ("config.json", INDEX):
        before = (folder / name).read_bytes()
        with special(folder / name, kind):
            assert look(folder) == f"{folder / name} cannot be read: it is a {kind}, not a file"
        (folder / name).write_bytes(before)
    with special(folder / "config.json", kind):
        beside = look(folder / "model-00001-of-00002.safetensors")
    assert f"config.json cannot be read: it is a {kind}, not a file" in beside, "it need not belong to it"


@pytest.mark.parametrize("read", [read_header, read_safetensors, find_weights, open_regular])
@pytest.mark.parametrize("kind", ["device", "FIFO"])
def test_weights_that_are_no_files(kind: str, read: object, tmp_path: Path) -> None:
    assert callable(read)
    path = tmp_path / "weights.gguf"
    with special(path, kind), pytest.raises((WeightsError, OSError), match=r"it is a|no regular file"):
        read(path)


def test_a_fifo_that_takes_the_place_of_a_file_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "regular").touch()
    os.mkfifo(tmp_path / "pipe")
    state = os.stat(tmp_path / "regular")
    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", lambda _path: state)
        with pytest.raises(Unreadable, match="it is a FIFO, not a file"):
            read_header(tmp_path / "pipe")


def test_no_more_is_read_than_asked_for(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.write(b"abc")
        file.truncate(1 << 40)
    assert read_regular(tmp_path / "sparse", 5) == b"abc\0\0"
    (tmp_path / "short").write_bytes(b"ab")
    assert read_regular(tmp_path / "short", 5) == b"ab"


def test_find_model_names_a_folder_in_place_of_a_configuration(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m")
    (folder / "config.json").mkdir()
    with pytest.raises(Unreadable, match=r"config\.json cannot be read: it is a directory, not a file"):
        find_model(folder)
