"""Headers of `.safetensors` files: what they hold, and every way in which they can be something else."""

import json
import os
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_files import header, write_raw, write_tensors
from reconciler.memory.hf import WeightsError, read_safetensors
from reconciler.memory.hf.scan import Malformed, members

TWO = {"a": ("BF16", [4, 8]), "b": ("F32", [16])}


def test_bytes_and_types_of_the_tensors(tmp_path: Path) -> None:
    path = write_tensors(tmp_path / "m.safetensors", TWO)
    found = read_safetensors(path)
    assert (found.tensor_bytes, found.tensors, found.dtypes) == (64 + 64, 2, ("BF16", "F32"))
    assert found.size == path.stat().st_size
    assert found.oddities == ()


def entry(dtype: str, shape: object, begin: object, end: object) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


TOLERATED = {
    "a type that is not known": ({"a": entry("F4_NEW", [3], 0, 7)}, 7, 7, 0),
    "no tensors": ({}, 0, 0, 0),
    "a scalar": ({"a": entry("F32", [], 0, 4)}, 4, 4, 0),
    "an empty tensor": ({"a": entry("F32", [0, 5], 0, 0), "b": entry("U8", [2], 0, 2)}, 2, 2, 0),
    "further keys": ({"a": {**entry("U8", [2], 0, 2), "note": 'x "{[,]}"'}}, 2, 2, 0),
    "another order of keys": ({"a": {"data_offsets": [0, 2], "shape": [2], "dtype": "U8"}}, 2, 2, 0),
    "not in the order of the data": ({"b": entry("U8", [2], 2, 4), "a": entry("U8", [2], 0, 2)}, 4, 4, 0),
    "braces in the metadata": ({"__metadata__": {"x": '{"}"\\'}, "a": entry("U8", [1], 0, 1)}, 1, 1, 0),
    "bytes that belong to nobody": ({"a": entry("U8", [1], 0, 1)}, 9, 1, 1),
    "a hole": ({"a": entry("U8", [1], 0, 1), "b": entry("U8", [1], 5, 6)}, 6, 2, 1),
}


@pytest.mark.parametrize("name", TOLERATED)
def test_what_can_be_passed_over(name: str, tmp_path: Path) -> None:
    described, data, expected, oddities = TOLERATED[name]
    path = write_raw(tmp_path / "m.safetensors", json.dumps(described).encode() + b"   ", data)
    found = read_safetensors(path)
    assert (found.tensor_bytes, len(found.oddities)) == (expected, oddities)


REFUSED = {
    "overlapping": ({"a": entry("U8", [4], 0, 4), "b": entry("U8", [4], 3, 7)}, 7, "two tensors share"),
    "the same bytes twice": (
        {"a": entry("U8", [4], 0, 4), "b": entry("U8", [4], 0, 4)},
        4,
        "two tensors share",
    ),
    "out of the file": ({"a": entry("U8", [4096], 0, 4096)}, 100, "is truncated"),
    "backwards": ({"a": entry("U8", [4], 4, 0)}, 4, "does not have the bytes of its shape"),
    "not the bytes of its shape": ({"a": entry("F32", [4], 0, 4)}, 4, "does not have the bytes"),
    "negative": ({"a": entry("U8", [4], -4, 0)}, 4, "has no dtype, shape and data_offsets"),
    "a fraction": ({"a": entry("U8", [4], 0, 4.0)}, 4, "has no dtype, shape and data_offsets"),
    "true": ({"a": entry("U8", [True], 0, 1)}, 1, "has no dtype, shape and data_offsets"),
    "no offsets": ({"a": {"dtype": "U8", "shape": [1]}}, 1, "has no dtype, shape and data_offsets"),
    "no description": ({"a": [1, 2]}, 1, "has no dtype, shape and data_offsets"),
    "too many axes": ({"a": entry("U8", [1] * 99, 0, 1)}, 1, "has no dtype, shape and data_offsets"),
    "too deep": ({"a": {"x": {"y": {}}}}, 1, "makes no sense at byte 1"),
    "huge": ({"a": entry("U8", [1 << 62], 0, 1 << 62)}, 1, "is truncated"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_damaged_headers(name: str, tmp_path: Path) -> None:
    described, data, words = REFUSED[name]
    path = write_raw(tmp_path / "m.safetensors", json.dumps(described).encode(), data)
    with pytest.raises(WeightsError, match=words):
        read_safetensors(path)


CONTENTS = {
    "is empty": b"",
    "Git LFS pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4976698672\n",
    "git-annex pointer": b"/annex/objects/SHA256E-s4976698672--00.safetensors\n",
    "HTML page": b"\n<!DOCTYPE html><html><body>404</body></html>",
    "HTML page ": b"\xef\xbb\xbf\n<html><body>404</body></html>",
    "zip archive": b"PK\x03\x04" + b"a" * 60,
    "compressed with gzip": b"\x1f\x8b\x08" + b"a" * 60,
    "is JSON": b'{"error":"Repository not found"}',
    "is GGUF": b"GGUF\x03\x00\x00\x00" + bytes(60),
    "is not safetensors": bytes(range(1, 65)),
    "is not safetensors: ": b"\x10\x00\x00\x00\x00\x00\x00\x00" + bytes(60),
    "is truncated": b"\x10\x00\x00",
    "is truncated: ": b"\xff\x00\x00\x00\x00\x00\x00\x00{",
    "it makes no sense at byte": b"\x06\x00\x00\x00\x00\x00\x00\x00{'a':1}",
    "something follows": b"\x04\x00\x00\x00\x00\x00\x00\x00{}{}",
}


@pytest.mark.parametrize("words", CONTENTS)
def test_what_is_found_in_place_of_weights(words: str, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(CONTENTS[words])
    with pytest.raises(WeightsError, match=words.strip()):
        read_safetensors(path)


def test_what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "folder.safetensors").mkdir()
    os.mkfifo(tmp_path / "pipe.safetensors")
    (tmp_path / "link.safetensors").symlink_to(tmp_path / "gone")
    for name, words in (
        ("folder", "cannot be read: it is a directory, not a file"),
        ("pipe", "cannot be read: it is a FIFO, not a file"),
        ("link", "does not exist"),
    ):
        with pytest.raises(WeightsError, match=words):
            read_safetensors(tmp_path / f"{name}.safetensors")


def test_a_length_may_begin_like_another_format(tmp_path: Path) -> None:
    for start in (b"\x1f\x8b", b'{"'):
        length = int.from_bytes(start, "little")
        text = header(TWO).ljust(length)
        assert read_safetensors(write_raw(tmp_path / "m.safetensors", text, 128)).tensor_bytes == 128


@given(data=st.data())
def test_a_file_that_is_cut_anywhere_is_refused(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp()
    whole = write_tensors(folder / "whole.safetensors", TWO).read_bytes()
    kept = data.draw(st.integers(0, len(whole) - 1))
    cut = folder / "cut.safetensors"
    cut.write_bytes(whole[:kept])
    with pytest.raises(WeightsError, match=r"truncated|empty"):
        read_safetensors(cut)


def test_a_header_of_100_mb_is_not_read(tmp_path: Path) -> None:
    path = write_raw(tmp_path / "m.safetensors", b"{", 99_000_000 + 5)
    with path.open("r+b") as file:
        file.write((99_000_000).to_bytes(8, "little"))
    tracemalloc.start()
    found = read_safetensors(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.tensor_bytes == 6
    assert "was not looked into" in found.oddities[0]
    assert peak < 1 << 20


TENSOR = b'"a":{"dtype":"Z","shape":[],"data_offsets":[0,0]}'
UNUSUAL = b'"":{"shape":[],"dtype":"","data_offsets":[0,0]}'
#: What stands before something that is repeated, how often at most, and what stands behind.
ADVERSARIAL = {
    "tensors": (b"{" + TENSOR, b"," + TENSOR, 77_999, b"}"),
    "tensors written unusually": (b"{" + UNUSUAL, b"," + UNUSUAL, 84_999, b"}"),
    "lists": (b'{"a":{"b":[', b"[],", 1_350_000, b"[]]}}"),
    "texts": (b'{"__metadata__":{', b'"":"",', 650_000, b'"":""}}'),
    "text without end": (b'{"', b"\\n", 2_000_000, b""),
    "braces": (b"", b"{", 4_000_000, b""),
    "depth": (b'{"a":{"b":', b"[", 60_000, b"]" * 5_000 + b"}}"),
}


@pytest.mark.parametrize("name", ADVERSARIAL)
def test_headers_that_are_made_to_cost_much(name: str, tmp_path: Path) -> None:
    head, repeated, times, tail = ADVERSARIAL[name]
    text = head + repeated * times + tail
    assert len(text) <= 4 << 20
    path = write_raw(tmp_path / "m.safetensors", text, 0)
    began = time.process_time()
    judged(path)
    assert time.process_time() - began < 1.0
    # Watching memory makes it many times slower: it is watched at an eighth of the size.
    path = write_raw(tmp_path / "eighth.safetensors", head + repeated * (times // 8) + tail, 0)
    tracemalloc.start()
    judged(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100 << 17


def judged(path: Path) -> str:
    try:
        return str(read_safetensors(path).tensor_bytes)
    except WeightsError as error:
        return str(error)


flat = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
values = (
    flat
    | st.lists(flat, max_size=3)
    | st.dictionaries(st.text(max_size=4), flat | st.lists(flat), max_size=3)
)


@given(st.dictionaries(st.text(max_size=6), values, max_size=6), st.booleans(), st.sampled_from([None, 0, 2]))
def test_members_are_those_a_json_parser_sees(
    document: dict[str, object], ascii_only: bool, indent: int | None
) -> None:
    text = json.dumps(document, ensure_ascii=ascii_only, indent=indent).encode()
    seen = {
        json.loads(name): json.loads(text[first:last]) for name, first, last in members(text, 0, len(text))
    }
    assert seen == document


@given(st.dictionaries(st.text(max_size=6), values, min_size=1, max_size=4), st.data())
def test_a_document_that_is_cut_has_no_end(document: dict[str, object], data: st.DataObject) -> None:
    text = json.dumps(document).encode()
    end = data.draw(st.integers(0, len(text) - 1))
    with pytest.raises(Malformed):
        list(members(text, 0, end))


def test_the_header_of_the_tests_is_the_format() -> None:
    assert json.loads(header({"a": ("F16", [3])}))["a"]["data_offsets"] == [0, 6]
