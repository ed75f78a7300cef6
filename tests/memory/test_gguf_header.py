"""Headers of untrusted files: what is right is read, what is wrong is named, in little time and memory."""

import io
import struct
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from raw_gguf import (
    ARRAY,
    BOOL,
    F32,
    I32,
    TEXT,
    U8,
    U16,
    U32,
    U64,
    RawTensor,
    array,
    header,
    nested,
    scalar,
    string,
    text,
    texts,
    whole,
)
from reconciler.memory.gguf import Array, Header, WeightsError, parse, read_header, tensor_bytes

ONE = RawTensor("a.weight")
GOOD = whole({"general.architecture": string("llama")}, [ONE])


def parsed(raw: bytes, size: int | None = None) -> Header:
    return parse(io.BytesIO(raw), len(raw) if size is None else size)


def test_values_of_all_kinds() -> None:
    found = parsed(
        whole(
            {
                "u8": scalar(U8, 200),
                "i32": scalar(I32, -5),
                "u64": scalar(U64, 2**64 - 1),
                "f32": scalar(F32, 0.5),
                "bool": scalar(BOOL, True),
                "text": string("größe"),
                "layers": array(I32, [8, 0, 4]),
                "flags": array(BOOL, [True, False]),
                "longest": array(U16, range(4096)),
                "scores": array(F32, [0.0] * 4097),
                "tokens": texts(["a", "", "bc"]),
                "grid": nested(3),
                "none": array(U32, []),
            }
        )
    )
    assert dict(found.keys) == {
        "u8": 200,
        "i32": -5,
        "u64": 2**64 - 1,
        "f32": 0.5,
        "bool": True,
        "text": "größe",
        "layers": Array(3, (8, 0, 4)),
        "flags": Array(2, (True, False)),
        "longest": Array(4096, tuple(range(4096))),
        "scores": Array(4097),
        "tokens": Array(3),
        "grid": Array(1),
        "none": Array(0),
    }
    assert found.oddities == ()
    assert isinstance(found.keys["bool"], bool)


@pytest.mark.parametrize("version", [2, 3])
def test_tensors_and_where_they_lie(version: int) -> None:
    tensors = [
        RawTensor("embd", (64, 10), 1, 0),
        RawTensor("blk.0", (256, 4, 2), 12, 1280),
        RawTensor("empty", (0, 4), 0, 1280 + 1152),
        RawTensor("number", (), 0, 1280 + 1152),
    ]
    raw = whole({"general.alignment": scalar(U32, 128)}, tensors, data=2436, version=version, alignment=128)
    found = parsed(raw)
    assert [(t.name, t.shape, t.type, t.offset, t.size) for t in found.tensors] == [
        ("embd", (64, 10), 1, 0, 64 * 10 * 2),
        ("blk.0", (256, 4, 2), 12, 1280, 8 * 144),
        ("empty", (0, 4), 0, 2432, 0),
        ("number", (), 0, 2432, 4),
    ]
    assert (found.version, found.data_offset) == (version, len(raw) - 2436)
    assert found.oddities == ()
    assert tensor_bytes(found.tensors, 2436) == 1280 + 1152 + 4
    with pytest.raises(WeightsError, match=f"is truncated: {len(raw) - 1} of {len(raw)} bytes are there"):
        parsed(raw[:-1])


def test_a_type_that_is_not_known_hides_nothing() -> None:
    tensors = [
        RawTensor("last", (32,), 99, 448),
        RawTensor("known", (32,), 0, 0),
        RawTensor("between", (64,), 99, 128),
        RawTensor("removed", (64,), 31, 384),
    ]
    found = parsed(whole({}, tensors, data=600))
    assert [t.size for t in found.tensors] == [None, 128, None, None]
    assert found.oddities == (
        "1 tensor has type 31, which is not known: sizes are told by places",
        "2 tensors have type 99, which is not known: sizes are told by places",
    )
    assert tensor_bytes(found.tensors, 600) == (600 - 448) + 128 + (384 - 128) + (448 - 384)


def test_what_can_be_passed_over_is_noted() -> None:
    raw = whole(
        [
            ("general.author", string(b"Andr\xe9")),
            (b"k\xff", scalar(U8, 1)),
            ("tokenizer.huggingface.json", string("x" * 70_000)),
        ],
        [ONE, RawTensor("far", offset=512)],
        data=640,
    )
    found = parsed(raw)
    assert dict(found.keys) == {"general.author": "Andr\\xe9", "k\\xff": 1}
    assert found.oddities == (
        "key 'general.author' is not UTF-8",
        "a key is not UTF-8",
        "the text of key 'tokenizer.huggingface.json' is passed over: 70000 bytes",
        "gaps between the tensors: 1",
    )


def test_oddities_are_bounded() -> None:
    found = parsed(whole([(f"k{i}", string(b"\xff")) for i in range(500)]))
    assert len(found.oddities) == 17
    assert found.oddities[-1] == "and 484 more oddities"


def bad_key(value: bytes, key: str | bytes = "k") -> bytes:
    return whole([(key, value)])


def bad_tensor(*tensors: RawTensor, **keys: bytes) -> bytes:
    return whole(keys, tensors, data=4096)


def listed(kind: int, count: int) -> bytes:
    return struct.pack("<IIQ", ARRAY, kind, count)


BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty"),
    "lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 9\n", "git lfs pull"),
    "annex": (b"/annex/objects/MD5E-s1--2.gguf\n", "git annex get"),
    "html": (b"\n<!DOCTYPE html><html><head>", "HTML page"),
    "html with a byte order mark": (b"\xef\xbb\xbf\n<!DOCTYPE html><html>", "HTML page"),
    "html after a comment": (b"<!-- page --><html>", "HTML page"),
    "html without doctype": (b"<HTML>", "HTML page"),
    "json": (b'{"error":"Repository not found"}', "is JSON"),
    "xml": (b"<?xml version='1.0'?><Error><Code>AccessDenied</Code>", "is XML"),
    "zip": (b"PK\x03\x04aaaaaaaaaaaaaaaaaaaaaaaaaaaa", "zip archive"),
    "gzip": (b"\x1f\x8b\x08aaaaaaaaaaaaaaaaaaaaaaaaaaaa", "gzip"),
    "safetensors": (struct.pack("<Q", 40) + b'{"__metadata__":{"format":"pt"}}', "safetensors"),
    "reserved space": (bytes(4096), "begins with zeros"),
    "older format": (b"tjgg" + bytes(100), "not GGUF: it begins with b'tjgg', a format older than GGUF"),
    "other": (b"what" + bytes(100), "not GGUF: it begins with b'what'"),
    "cut in the magic": (b"GG", "truncated"),
    "cut in the counts": (GOOD[:20], "truncated"),
    "cut after the counts": (GOOD[:24], "truncated"),
    "version 1": (header(version=1) + bytes(500), "version 1; 2 and 3 are known: get a newer file"),
    "version 4": (header(version=4) + bytes(500), "version 4; 2 and 3 are known"),
    "big endian": (struct.pack(">4sIQQ", b"GGUF", 3, 2, 3) + bytes(500), "big-endian"),
    "tensor count": (header(counts=(2**40, 3)) + bytes(500), "damaged header: 1099511627776 tensors, 3 keys"),
    "key count": (header(counts=(0, 2**63)) + bytes(500), "damaged header: 0 tensors, 9223372036854775808"),
    "counts beyond the file": (header(counts=(60, 3)) + bytes(500), "524 bytes cannot describe 60 tensors"),
    "key length": (
        header(counts=(0, 1)) + struct.pack("<Q", 2**63) + bytes(99),
        "a key of 92233720368547758",
    ),
    "long key": (bad_key(scalar(U8, 1), "k" * 65536), "a key of 65536 bytes"),
    "empty key": (bad_key(scalar(U8, 1), ""), "a key without name"),
    "two keys": (whole([("k", scalar(U8, 1)), ("k", scalar(U8, 2))]), "two keys 'k'"),
    "value type": (bad_key(struct.pack("<IQ", 13, 0)), "key 'k' has value type 13"),
    "text length": (bad_key(struct.pack("<IQ", TEXT, 2**64 - 1)), "truncated"),
    "array of texts": (bad_key(listed(TEXT, 2**61)), "key 'k' has 2305843009213693952 items, more than"),
    "array of numbers": (bad_key(listed(U8, 2**64 - 1)), "key 'k' has 18446744073709551615 items, more than"),
    "array of arrays": (bad_key(listed(ARRAY, 2**40)), "items, more than the file holds"),
    "array of unknown": (bad_key(listed(77, 1)), "key 'k' lists values of unknown type 77"),
    "length in an array": (bad_key(listed(TEXT, 2) + struct.pack("<QQ", 2**63, 0)), "truncated"),
    "deep arrays": (bad_key(nested(5)), "arrays more than 4 deep"),
    "very deep arrays": (bad_key(nested(20_000)), "arrays more than 4 deep"),
    "tensor's name": (header(counts=(1, 0)) + struct.pack("<Q", 2**40) + bytes(99), "name of 1099511627776"),
    "two tensors": (bad_tensor(ONE, RawTensor("a.weight", offset=128)), "two tensors 'a.weight'"),
    "dimensions": (bad_tensor(RawTensor("t", (1, 1, 1, 1, 1))), "tensor 't' has 5 dimensions"),
    "all dimensions": (
        header(counts=(1, 0)) + text("t") + struct.pack("<I", 2**32 - 1) + bytes(99),
        "has 4294967295 dimensions",
    ),
    "shape overflows": (bad_tensor(RawTensor("t", (2**32, 2**32))), "has the shape [4294967296, 4294967296]"),
    "shape wraps to 0": (bad_tensor(RawTensor("t", (2**63, 2, 1, 1))), "has the shape"),
    "negative length": (bad_tensor(RawTensor("t", (2**64 - 1, 0))), "has the shape"),
    "row of part blocks": (
        bad_tensor(RawTensor("t", (100, 2), 12)),
        "rows of 100 elements, which its type packs",
    ),
    "huge offset": (
        bad_tensor(RawTensor("t", offset=2**63)),
        "tensor 't' begins at byte 9223372036854775808",
    ),
    "offset wraps": (bad_tensor(RawTensor("t", (64,), offset=2**64 - 32)), "begins at byte"),
    "unaligned offset": (bad_tensor(RawTensor("t", offset=16)), "tensor 't' begins at byte 16"),
    "overlap": (bad_tensor(ONE, RawTensor("b", offset=96)), "tensors 'a.weight' and 'b' overlap"),
    "same place": (bad_tensor(ONE, RawTensor("b", offset=0)), "overlap"),
    "offset beyond the end": (bad_tensor(RawTensor("t", offset=8192)), "truncated"),
    "unknown type beyond the end": (bad_tensor(RawTensor("t", (1,), 99, 8192)), "truncated"),
    "alignment 0": (
        bad_tensor(ONE, **{"general.alignment": scalar(U32, 0)}),
        "alignment is 0, which is no pow",
    ),
    "alignment 48": (bad_tensor(ONE, **{"general.alignment": scalar(U32, 48)}), "alignment is 48"),
    "alignment negative": (bad_tensor(ONE, **{"general.alignment": scalar(I32, -32)}), "alignment is -32"),
    "alignment as text": (bad_tensor(ONE, **{"general.alignment": string("32")}), "alignment is '32'"),
    "alignment as flag": (bad_tensor(ONE, **{"general.alignment": scalar(BOOL, True)}), "alignment is True"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_weights_is_named(tmp_path: Path, name: str) -> None:
    content, reason = BAD[name]
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(WeightsError) as raised:
        read_header(path)
    assert reason in str(raised.value)
    assert str(raised.value).startswith(f"{path} ")


def test_a_sentence_is_short_whatever_the_file_says() -> None:
    name = "\n\x1b[31m" + "x" * 60_000
    with pytest.raises(WeightsError) as raised:
        parsed(whole([(name, scalar(U8, 1)), (name, scalar(U8, 1))]))
    assert len(str(raised.value)) < 200
    assert str(raised.value).isprintable()


def test_a_file_cut_anywhere_is_truncated() -> None:
    raw = whole(
        {"a": string("llama"), "b": array(I32, [1, 2]), "c": texts(["x", "yy"]), "d": nested(2)},
        [ONE, RawTensor("b.weight", (32, 2), 1, 128)],
        data=256,
    )
    assert len(parsed(raw).tensors) == 2
    for length in range(1, len(raw)):
        with pytest.raises(WeightsError, match="is truncated"):
            parsed(raw[:length])


def test_a_file_that_becomes_shorter_while_it_is_read() -> None:
    with pytest.raises(WeightsError, match="became shorter"):
        parsed(GOOD[:60], size=len(GOOD))


def large_texts() -> bytes:
    return header([(f"k{i}", string("\U0001f600" + "x" * 65_000)) for i in range(900)])


HEAVY: dict[str, tuple[Callable[[], bytes], str | None]] = {
    "many texts": (lambda: header({"k": listed(TEXT, 7_000_000)}) + bytes(56_000_000), "lists of millions"),
    "as many texts as may be": (lambda: header({"k": listed(TEXT, 1 << 21)}) + bytes(8 << 21), None),
    "many short lists": (
        lambda: header([(f"k{i}", array(U8, bytes(4096))) for i in range(9000)]),
        "numbers in",
    ),
    "large texts": (large_texts, "more than 8 MiB of names and texts"),
    "many tensors": (
        lambda: header(
            (), [RawTensor(f"blk.{i}.attn_output.weight", (32, 3), 0, i * 384) for i in range(65536)]
        ),
        None,
    ),
    "too many tensors": (lambda: header(counts=(65537, 1)) + bytes(3_000_000), "65537 tensors"),
    "many arrays": (
        lambda: header({"k": listed(ARRAY, 1 << 17)}) + struct.pack("<IQ", U8, 0) * (1 << 17),
        None,
    ),
    "many lists of lists": (
        lambda: header({"k": listed(ARRAY, 1 << 22)}) + bytes(48 << 20),
        "lists of millions",
    ),
    "a long list": (lambda: header({"k": array(U8, bytes(65 << 20))}), "a header of more than 64 MiB"),
}


@pytest.mark.parametrize("name", HEAVY)
def test_the_heaviest_files_are_judged_soon_and_in_little_memory(name: str) -> None:
    content, reason = HEAVY[name]
    raw = content()
    stream = io.BytesIO(raw)
    start = time.thread_time()
    said = judged(stream)
    seconds = time.thread_time() - start
    assert said is None if reason is None else reason in (said or "")
    assert seconds < 1
    if name in {"many tensors", "large texts", "many short lists"}:
        tracemalloc.start()
        judged(stream)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 100 << 20


def judged(stream: io.BytesIO) -> str | None:
    try:
        parse(stream, 1 << 40)
    except WeightsError as error:
        return str(error)
    return None


def test_a_large_vocabulary_is_passed_over_quickly(tmp_path: Path) -> None:
    count = 262_144
    vocabulary = struct.pack("<IIQ", ARRAY, TEXT, count) + b"".join(text(f"t{i:x}") for i in range(count))
    keys = {"tokenizer.ggml.tokens": vocabulary, "tokenizer.ggml.scores": array(F32, [0.0] * count)}
    path = tmp_path / "model.gguf"
    path.write_bytes(whole({**keys, "z": scalar(U8, 3)}, [ONE]))
    seconds = []
    for _ in range(3):
        start = time.thread_time()
        found = read_header(path)
        seconds.append(time.thread_time() - start)
    assert dict(found.keys) == {
        "tokenizer.ggml.tokens": Array(count),
        "tokenizer.ggml.scores": Array(count),
        "z": 3,
    }
    assert min(seconds) < 0.15


def test_only_the_header_of_a_large_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    size = 40 << 30
    with path.open("wb") as file:
        file.write(header((), [RawTensor("t", (1 << 20, 10_000), 0, 0)]))
        file.truncate(size)
    assert read_header(path).tensors[0].size == 40 * 1_048_576_000
    tracemalloc.start()
    read_header(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


def test_a_path_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="cannot be read: No such file"):
        read_header(tmp_path / "none.gguf")
    with pytest.raises(WeightsError, match="cannot be read: it is a directory, not a file"):
        read_header(tmp_path)
    with pytest.raises(WeightsError, match="cannot be read: embedded null"):
        read_header(tmp_path / "a\0b")
