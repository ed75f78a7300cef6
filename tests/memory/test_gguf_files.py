"""Which files a model consists of: alone or split, whole or not; and that looking again does not read again."""

import mmap
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from raw_gguf import I32, U16, RawTensor, scalar, string, whole, write_part
from reconciler.memory.gguf import Header, Unreadable, WeightsError, find_weights, read_header, split_of
from reconciler.memory.gguf import files as gguf_files
from reconciler.memory.gguf.cache import Remembered, Stamp

ONE = RawTensor("a.weight")
GOOD = whole({"general.architecture": string("llama")}, [ONE])
ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def write_set(folder: Path, stem: str = "big") -> list[Path]:
    """Write a set of three parts, of which the first has no tensors."""
    names: tuple[list[str], ...] = ([], ["a", "b"], ["c"])
    return [write_part(folder, i + 1, 3, names=names[i], total=3, stem=stem) for i in range(3)]


def refusal(path: Path, find: Callable[[Path], object] = find_weights) -> str:
    with pytest.raises(WeightsError) as raised:
        find(path)
    return str(raised.value)


def test_one_file(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(GOOD)
    found = find_weights(path)
    assert (found.files, found.size, found.tensor_bytes) == ((path,), len(GOOD), 128)
    assert found.header == read_header(path)
    assert [file.size for file in found.mapped] == [len(GOOD)]


@ON_LINUX
def test_the_key_of_a_file_is_the_one_its_mapping_shows(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(GOOD)
    (mapped,) = find_weights(path).mapped
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ):
        maps = Path("/proc/self/maps").read_text().splitlines()
    device, inode = next(line.split()[3:5] for line in maps if line.endswith(str(path)))
    major, minor = (int(part, 16) for part in device.split(":"))
    assert mapped.key == f"{major}:{minor}:{inode}"


def test_a_split_set_is_read_whole_from_any_part(tmp_path: Path) -> None:
    paths = write_set(tmp_path)
    found = find_weights(paths[0])
    assert (found.files, found.size) == (tuple(paths), sum(path.stat().st_size for path in paths))
    assert [tensor.name for tensor in found.header.tensors] == ["a", "b", "c"]
    assert found.header.keys["general.architecture"] == "llama"
    assert found.tensor_bytes == 3 * 128
    assert {file.key.split(":")[2] for file in found.mapped} == {str(path.stat().st_ino) for path in paths}
    assert [file.key for file in found.mapped] == sorted(file.key for file in found.mapped)
    assert [split_of(path) for path in paths] == [found] * 3


def test_a_header_alone_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "vocabulary.gguf"
    path.write_bytes(whole({"general.architecture": string("llama")}, []))
    assert read_header(path).tensors == ()
    assert refusal(path) == f"{path} holds no tensors, only a header: name a file that has the weights"
    paths = [write_part(tmp_path, number, 2, names=[], total=0) for number in (1, 2)]
    assert refusal(paths[0]).startswith(f"{paths[0]} holds no tensors in any of its parts, only a header")


def test_a_later_part_is_refused_as_the_model(tmp_path: Path) -> None:
    paths = write_set(tmp_path)
    assert refusal(paths[1]) == f"{paths[1]} is part 2 of 3: name the first part, big-00001-of-00003.gguf"


def test_the_parts_may_be_links(tmp_path: Path) -> None:
    blobs, named = tmp_path / "blobs", tmp_path / "snapshot"
    blobs.mkdir()
    named.mkdir()
    for path in write_set(blobs):
        blob = path.rename(blobs / f"{path.stat().st_ino}")
        (named / path.name).symlink_to(blob)
    assert find_weights(named / "big-00001-of-00003.gguf").tensor_bytes == 3 * 128
    (named / "big-00003-of-00003.gguf").resolve().unlink()
    assert "big-00003-of-00003.gguf is not there" in refusal(named / "big-00001-of-00003.gguf")


@pytest.mark.parametrize(
    ("gone", "asked", "words"),
    [
        ((1,), 0, "has 3 parts, and big-00002-of-00003.gguf is not there"),
        ((1, 2), 0, "has 3 parts, and big-00002-of-00003.gguf, big-00003-of-00003.gguf are not there"),
        ((0,), 2, "has 3 parts, and big-00001-of-00003.gguf is not there"),
        ((0,), 0, "does not exist"),
    ],
)
def test_missing_parts_are_named(tmp_path: Path, gone: tuple[int, ...], asked: int, words: str) -> None:
    paths = write_set(tmp_path)
    for number in gone:
        paths[number].unlink()
    assert refusal(paths[asked], split_of) == f"{paths[asked]} {words}"


def test_of_many_missing_parts_some_are_named(tmp_path: Path) -> None:
    path = write_part(tmp_path, 1, 1000, names=[], total=3)
    message = refusal(path)
    assert "big-00002-of-01000.gguf, big-00003-of-01000.gguf, big-00004-of-01000.gguf and 996 more" in message


def test_a_name_that_tells_of_too_many_parts_costs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "big-00001-of-99999.gguf"
    path.write_bytes(GOOD)
    began = time.process_time()
    assert "is named like one of 99999 parts, and sets of more than 1000 are not read" in refusal(path)
    assert time.process_time() - began < 0.1
    assert refusal(tmp_path / "gone-00001-of-99999.gguf").endswith("does not exist")


def test_a_damaged_part_is_named(tmp_path: Path) -> None:
    paths = write_set(tmp_path)
    paths[2].write_bytes(b"<html>")
    assert refusal(paths[0]).startswith(f"{paths[2]} is an HTML page")
    paths[2].write_bytes(paths[1].read_bytes()[:-1])
    assert refusal(paths[0]).startswith(f"{paths[2]} is truncated: ")


def rewrite(path: Path, names: list[str], **split: int) -> None:
    keys = {f"split.{name.replace('_', '.')}": scalar(I32, value) for name, value in split.items()}
    tensors = [RawTensor(name, offset=128 * i) for i, name in enumerate(names)]
    path.write_bytes(whole(keys, tensors, data=128 * len(names)))


def test_headers_must_say_what_the_names_say(tmp_path: Path) -> None:
    first, second, third = write_set(tmp_path)
    rewrite(third, ["c"], no=1, count=3)
    assert refusal(first).startswith(f"{third} is part 2 of 3 by its header: it belongs to another set")
    rewrite(third, ["c"], no=2, count=4)
    assert refusal(first).startswith(f"{third} is part 3 of 4 by its header")
    rewrite(third, ["c"])
    assert refusal(first).startswith(f"{third} is part of unknown number of 0 by its header")
    rewrite(third, ["c", "d"], no=2, count=3)
    assert refusal(first) == f"{first} has 3 tensors by its header, but its 3 parts have 4"
    rewrite(third, ["b"], no=2, count=3)
    assert refusal(first) == f"{first} has tensors that are in several of its parts"
    rewrite(third, ["c"], no=2, count=3)
    assert find_weights(first).tensor_bytes == 3 * 128
    rewrite(first, [], no=0, count=2)
    assert refusal(first) == f"{first} is one of 2 parts by its header, but one of 3 by its name"
    assert second.exists()


def test_a_part_that_is_not_named_like_one(tmp_path: Path) -> None:
    first = write_part(tmp_path, 1, 3, names=[], total=3).rename(tmp_path / "model.gguf")
    assert "is part 1 of 3 but not named like one" in refusal(first)


def test_a_name_with_an_impossible_number(tmp_path: Path) -> None:
    for name in ("m-00004-of-00003.gguf", "m-00000-of-00003.gguf"):
        (tmp_path / name).write_bytes(GOOD)
    assert "is named like part 4 of 3" in refusal(tmp_path / "m-00004-of-00003.gguf", split_of)
    assert "is part 0 of 3: name the first part" in refusal(tmp_path / "m-00000-of-00003.gguf")
    (tmp_path / "m-00001-of-00000.gguf").write_bytes(GOOD)
    assert find_weights(tmp_path / "m-00001-of-00000.gguf").size == len(GOOD)


def test_a_whole_model_may_be_named_like_a_first_part(tmp_path: Path) -> None:
    path = tmp_path / "m-00001-of-00003.gguf"
    path.write_bytes(GOOD)
    found = find_weights(path)
    assert (found.files, found.tensor_bytes) == ((path,), 128)
    assert found.header.oddities == (
        "m-00001-of-00003.gguf is named like a part, but its header tells of none: it is taken as whole",
    )
    alone = tmp_path / "n-00001-of-00001.gguf"
    alone.write_bytes(whole({"split.no": scalar(U16, 0), "split.count": scalar(U16, 1)}, [ONE]))
    assert find_weights(alone).header.oddities == ()


def test_parts_whose_headers_tell_of_none_are_all_counted(tmp_path: Path) -> None:
    paths = [tmp_path / f"m-0000{i}-of-00002.gguf" for i in (1, 2)]
    for path in paths:
        path.write_bytes(whole({"k": string(b"\xff")}, [ONE]))
    found = find_weights(paths[0])
    assert (found.size, found.tensor_bytes) == (sum(path.stat().st_size for path in paths), 256)
    assert found.header.oddities == (
        "m-00001-of-00002.gguf is named like a part, but its header tells of none: its parts are counted",
        "m-00001-of-00002.gguf: key 'k' is not UTF-8",
        "m-00002-of-00002.gguf: key 'k' is not UTF-8",
    )


def test_what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "link.gguf").symlink_to(tmp_path / "gone")
    os.mkfifo(tmp_path / "pipe.gguf")
    for name, words in {
        "none.gguf": "does not exist",
        ".": "is a folder; name the .gguf file in it",
        "link.gguf": "is a link to a file that is not there",
        "pipe.gguf": "is no regular file",
        "a\0b.gguf": "cannot be read: embedded null byte",
        "x" * 300: "cannot be read: File name too long",
    }.items():
        assert refusal(tmp_path / name) == f"{tmp_path / name} {words}"


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Count the files that are really read."""
    seen: list[Path] = []

    def counted(path: Path) -> Header:
        seen.append(path)
        return read_header(path)

    monkeypatch.setattr(gguf_files, "read_header", counted)
    return seen


def test_looking_again_reads_nothing(tmp_path: Path, reads: list[Path]) -> None:
    paths = write_set(tmp_path)
    first = find_weights(paths[0])
    assert find_weights(paths[0]) is first
    assert reads == paths
    paths[2].write_bytes(whole({"split.no": scalar(U16, 2), "split.count": scalar(U16, 3)}, [RawTensor("x")]))
    assert [tensor.name for tensor in find_weights(paths[0]).header.tensors] == ["a", "b", "x"]
    assert reads == paths * 2


def test_a_broken_file_is_judged_once_until_it_changes(tmp_path: Path, reads: list[Path]) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(GOOD[:-1])
    assert refusal(path) == refusal(path)
    assert reads == [path]
    path.write_bytes(GOOD)
    assert find_weights(path).size == len(GOOD)


def test_a_change_that_keeps_size_and_time_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(whole({}, [RawTensor("a")]))
    before = path.stat()
    assert find_weights(path).header.tensors[0].name == "a"
    deadline = time.monotonic() + 10
    while path.stat().st_ctime_ns == before.st_ctime_ns and time.monotonic() < deadline:
        # Some kernels tell times in steps of 4 ms.
        path.write_bytes(whole({}, [RawTensor("b")]))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert find_weights(path).header.tensors[0].name == "b"


def test_a_file_that_could_not_be_read_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(GOOD)

    def refused(path: Path) -> Header:
        raise Unreadable.because(path, OSError(13, "Permission denied"))

    with monkeypatch.context() as patch:
        patch.setattr(gguf_files, "read_header", refused)
        assert refusal(path) == f"{path} cannot be read: Permission denied"
    assert find_weights(path).size == len(GOOD)


def stamp(name: str) -> tuple[Stamp, ...]:
    found = SimpleNamespace(st_dev=1, st_ino=2, st_size=3, st_mtime_ns=4, st_ctime_ns=5)
    return (Stamp.of(Path(name), found),)  # type: ignore[arg-type]


def test_the_memory_of_files_is_bounded_by_number_and_weight() -> None:
    kept: Remembered[str] = Remembered(most=3, heaviest=10)
    for name in "abc":
        kept.put(stamp(name), name, 1)
    assert kept.get(stamp("a")) == "a"
    kept.put(stamp("d"), "d", 1)
    assert [kept.get(stamp(name)) for name in "abcd"] == ["a", None, "c", "d"]
    kept.put(stamp("e"), "e", 9)
    assert [kept.get(stamp(name)) for name in "acde"] == [None, None, "d", "e"]
    kept.put(stamp("e"), "E", 2)
    kept.put(stamp("f"), "f", 7)
    assert [kept.get(stamp(name)) for name in "def"] == ["d", "E", "f"]
    kept.put(stamp("g"), "g", 11)
    assert [kept.get(stamp(name)) for name in "defg"] == [None] * 4


def test_several_threads_may_look_at_once(tmp_path: Path) -> None:
    paths = [tmp_path / f"{i}.gguf" for i in range(100)]
    for i, path in enumerate(paths):
        path.write_bytes(whole({}, [RawTensor(f"t{i}")]))
    together = threading.Barrier(4)

    def look(_: int) -> list[str]:
        together.wait(timeout=10)
        return [find_weights(path).header.tensors[0].name for path in paths * 3]

    with ThreadPoolExecutor(4) as pool:
        for names in pool.map(look, range(4)):
            assert names == [f"t{i}" for i in range(100)] * 3
