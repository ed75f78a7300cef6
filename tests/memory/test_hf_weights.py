"""Which files make up a model in a folder, what they sum up to, and what is said when one is missing."""

import json
import os
import time
from pathlib import Path

import pytest

from hf_files import write_model, write_tensors
from reconciler.core.memory import MappedFile
from reconciler.memory.gguf import Unreadable
from reconciler.memory.hf import StatCache, WeightsError, find_model

MIB = 1 << 20
INDEX = "model.safetensors.index.json"


def test_a_single_file(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", {"model_type": "llama"})
    found = find_model(folder)
    assert found.files == (folder / "model.safetensors",)
    assert (found.tensor_bytes, found.largest_shard, found.dtypes) == (2 * MIB, 2 * MIB, ("BF16",))
    assert found.config == {"model_type": "llama"}
    status = found.files[0].stat()
    key = f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}:{status.st_ino}"
    assert found.mapped == (MappedFile(key, status.st_size),)
    assert find_model(folder / "model.safetensors") == found


@pytest.mark.parametrize("how", ["index", "no index", "first part", "last part"])
def test_a_model_in_parts(how: str, tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", {}, shards=3)
    if how == "no index":
        (folder / INDEX).unlink()
    named = {
        "first part": "model-00001-of-00003.safetensors",
        "last part": "model-00003-of-00003.safetensors",
    }
    found = find_model(folder / named.get(how, ""))
    assert len(found.files) == len(found.mapped) == 3
    assert (found.tensor_bytes, found.largest_shard) == (6 * MIB, 2 * MIB)
    assert found.size == sum(file.stat().st_size for file in found.files)
    assert found.oddities == ()


@pytest.mark.parametrize("how", ["index", "no index", "first part"])
def test_a_missing_part_is_named(how: str, tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", shards=3)
    (folder / "model-00002-of-00003.safetensors").unlink()
    if how == "no index":
        (folder / INDEX).unlink()
    path = folder / "model-00001-of-00003.safetensors" if how == "first part" else folder
    with pytest.raises(WeightsError, match=r"3 parts, and model-00002-of-00003\.safetensors is not there"):
        find_model(path)


def test_only_what_is_loaded_is_counted(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", shards=2)
    write_tensors(folder / "consolidated.safetensors", {"all": ("BF16", [1 << 21])})
    assert find_model(folder).tensor_bytes == 4 * MIB
    (folder / INDEX).unlink()
    assert find_model(folder).tensor_bytes == 4 * MIB
    for file in folder.glob("model-*"):
        file.unlink()
    assert find_model(folder).tensor_bytes == 4 * MIB, "with nothing else there, it is the model"


def test_links_of_a_download_cache_are_followed(tmp_path: Path) -> None:
    blob = write_tensors(tmp_path / "blob", {"a": ("U8", [100])})
    folder = tmp_path / "snapshot"
    folder.mkdir()
    (folder / "one.safetensors").symlink_to(blob)
    (folder / "two.safetensors").symlink_to(blob)
    assert [file.size for file in find_model(folder).mapped] == [blob.stat().st_size], "one inode, once"


def test_an_index_that_states_another_sum_is_odd(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", shards=2)
    index = json.loads((folder / INDEX).read_text())
    index["metadata"]["total_size"] = 5 * MIB
    (folder / INDEX).write_text(json.dumps(index))
    found = find_model(folder)
    assert found.tensor_bytes == 4 * MIB
    assert "states 5 MiB, the files hold 4 MiB" in found.oddities[0]


INDEXES = {
    "a pointer": ("version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
    "cut": ('{"metadata": {}, "weight_map": {"a": "model-0000', "is damaged"),
    "a list": ("[]", "is damaged"),
    "nothing": ("{}", "names no files"),
    "numbers": ('{"weight_map": {"a": 1}}', "is damaged: a file is not named by a text"),
    "another folder": ('{"weight_map": {"a": "../../secret.safetensors"}}', "is no file of its folder"),
    "an absolute path": ('{"weight_map": {"a": "/etc/passwd"}}', "is no file of its folder"),
    "a NUL": ('{"weight_map": {"a": "x\\u0000"}}', "is no file of its folder"),
    "a sum of 5000 digits": (
        '{"metadata": {"total_size": %s}, "weight_map": {"a": "x"}}' % ("1" * 5000),
        "is damaged: a number in it has 5000 digits$",
    ),
    "no text": ('{"weight_map": {"a": "\xff"}}', "is damaged|not there"),
}


@pytest.mark.parametrize("name", INDEXES)
def test_damaged_indexes(name: str, tmp_path: Path) -> None:
    text, words = INDEXES[name]
    (tmp_path / INDEX).write_bytes(text.encode("latin-1"))
    with pytest.raises(WeightsError, match=words):
        find_model(tmp_path)


CONFIGS = {
    "a pointer": (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
    "HTML": (b"<!doctype html>", "HTML page"),
    "cut": (b'{"a": ', "is no JSON"),
    "a list": (b"[]", "is no JSON object"),
    "deep": (b"[" * 100_000, "is no JSON"),
    "no UTF-8": (b'{"a": "\xff"}', "is no JSON"),
    "a number of 5000 digits": (
        b'{"a": ' + b"1" * 5000 + b"}",
        "is no JSON: a number in it has 5000 digits",
    ),
    "3 MB": (b" " * 3_000_000, "is no configuration"),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_damaged_configurations(name: str, tmp_path: Path) -> None:
    text, words = CONFIGS[name]
    folder = write_model(tmp_path / "m")
    (folder / "config.json").write_bytes(text)
    with pytest.raises(WeightsError, match=words):
        find_model(folder)
    beside = find_model(folder / "model.safetensors")
    assert beside.config == {}, "what stands beside a file need not belong to it"
    assert words in beside.oddities[0]


def test_an_index_that_is_made_to_cost_much(tmp_path: Path) -> None:
    (tmp_path / INDEX).write_bytes(b'{"weight_map":{' + b'"":"",' * 2_600_000 + b'"":""}}')
    began = time.process_time()
    with pytest.raises(WeightsError, match="500000 tensors"):
        find_model(tmp_path)
    assert time.process_time() - began < 1.5


def test_what_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(WeightsError, match=r"holds no \.safetensors file"):
        find_model(tmp_path)
    with pytest.raises(WeightsError, match="does not exist"):
        find_model(tmp_path / "gone.safetensors")
    for stem in ("a", "b"):
        (tmp_path / f"{stem}-00001-of-04000.safetensors").touch()
    with pytest.raises(WeightsError, match="more than 4096 parts"):
        find_model(tmp_path)


def test_an_index_that_is_too_long_is_told(tmp_path: Path) -> None:
    with (tmp_path / INDEX).open("w") as file:
        file.truncate(1 << 40)
    with pytest.raises(WeightsError, match=r"index\.json has more than 16 MiB and was not looked into"):
        find_model(tmp_path)
    write_tensors(tmp_path / "part.safetensors", {"a": ("U8", [100])})
    found = find_model(tmp_path)
    assert found.tensor_bytes == 100
    assert "was not looked into" in found.oddities[0]


def test_links_that_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").symlink_to("model.safetensors")
    with pytest.raises(WeightsError, match=r"/model\.safetensors is a link that leads back to itself"):
        find_model(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "model.safetensors").symlink_to("gone")
    with pytest.raises(WeightsError, match=r"/model\.safetensors is a link to a file that is not there"):
        find_model(tmp_path)


def test_what_the_system_refused_to_read_is_tried_again(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m")
    refusals = [Unreadable("too many open files")]

    def read(path: Path) -> int:
        if refusals:
            raise refusals.pop()
        return find_model(path).tensor_bytes

    seen = StatCache(read)
    with pytest.raises(WeightsError, match="too many open files"):
        seen.get(folder)
    assert seen.get(folder) == 2 * MIB


def test_files_are_read_again_only_when_one_has_changed(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", shards=2)
    reads = []

    def read(path: Path) -> int:
        reads.append(path)
        return find_model(path).tensor_bytes

    seen = StatCache(read)
    assert [seen.get(folder), seen.get(folder)] == [4 * MIB] * 2
    assert len(reads) == 1

    last = folder / "model-00002-of-00002.safetensors"
    whole = last.read_bytes()
    last.write_bytes(whole[:1000])
    for _ in range(2):
        with pytest.raises(WeightsError, match="truncated"):
            seen.get(folder)
    assert len(reads) == 2, "what is wrong is remembered as well"

    last.write_bytes(whole)
    assert seen.get(folder) == 4 * MIB
    (folder / "config.json").write_text("{}")
    assert seen.get(folder) == 4 * MIB
    assert len(reads) == 4
