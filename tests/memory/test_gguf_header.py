"""The first look at weights: what is a GGUF file, what only looks like one, and which parts belong together."""

import struct
from pathlib import Path

import pytest

from reconciler.memory.gguf import WeightsError, find_weights

GOOD = struct.pack("<4sIQQ", b"GGUF", 3, 2, 3) + bytes(500)

BAD = {
    "empty": (b"", "is empty"),
    "lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 9\n", "git lfs pull"),
    "annex": (b"/annex/objects/MD5E-s1--2.gguf\n", "git annex get"),
    "html": (b"\n<!DOCTYPE html><html><head>", "HTML page"),
    "html without doctype": (b"<HTML>", "HTML page"),
    "zip": (b"PK\x03\x04aaaaaaaaaaaaaaaaaaaaaaaaaaaa", "zip archive"),
    "cut in the magic": (b"GG", "truncated"),
    "cut in the header": (GOOD[:20], "truncated"),
    "cut after the header": (GOOD[:60], "truncated"),
    "other": (b"lmgg" + bytes(100), "not GGUF: it begins with b'lmgg'"),
    "version 1": (struct.pack("<4sIQQ", b"GGUF", 1, 2, 3) + bytes(500), "version 1"),
    "big endian": (struct.pack(">4sIQQ", b"GGUF", 3, 2, 3) + bytes(500), "big-endian"),
    "counts": (struct.pack("<4sIQQ", b"GGUF", 3, 2**40, 3) + bytes(500), "damaged"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_weights_is_named(tmp_path: Path, name: str) -> None:
    content, reason = BAD[name]
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(WeightsError) as raised:
        find_weights(path)
    assert reason in str(raised.value)
    assert str(path) in str(raised.value)


def test_a_good_header(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(GOOD)
    found = find_weights(path)
    assert (found.files, found.size) == ((path,), len(GOOD))


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="does not exist"):
        find_weights(tmp_path / "none.gguf")
    with pytest.raises(WeightsError, match="is a folder"):
        find_weights(tmp_path)


def parts(folder: Path, *numbers: int) -> list[Path]:
    paths = [folder / f"big-{number:05d}-of-00003.gguf" for number in numbers]
    for path in paths:
        path.write_bytes(GOOD)
    return paths


def test_a_split_set_counts_all_parts(tmp_path: Path) -> None:
    paths = parts(tmp_path, 1, 2, 3)
    found = find_weights(paths[0])
    assert (found.files, found.size) == (tuple(paths), 3 * len(GOOD))


def test_a_split_set_lacks_a_part(tmp_path: Path) -> None:
    first, _ = parts(tmp_path, 1, 3)
    with pytest.raises(WeightsError, match=r"big-00002-of-00003\.gguf is not there"):
        find_weights(first)


def test_a_damaged_part_is_named(tmp_path: Path) -> None:
    paths = parts(tmp_path, 1, 2, 3)
    paths[2].write_bytes(b"<html>")
    with pytest.raises(WeightsError, match=r"big-00003-of-00003\.gguf is an HTML page"):
        find_weights(paths[0])


def test_a_later_part_is_refused(tmp_path: Path) -> None:
    paths = parts(tmp_path, 1, 2, 3)
    with pytest.raises(WeightsError, match=r"name the first part, big-00001-of-00003\.gguf"):
        find_weights(paths[1])
