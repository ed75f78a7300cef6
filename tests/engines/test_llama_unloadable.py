"""Weights that the embedded server would refuse are refused before anybody is evicted for them."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from gguf_headers import GEMMA_270M, write_header
from raw_gguf import RawTensor, string, whole
from reconciler.core.launch import LaunchSpec
from reconciler.core.plan import plan
from reconciler.core.types import Evict, Preflight, Reason
from reconciler.engines import registry
from reconciler.engines.llama import library as llama_library
from reconciler.memory.gguf import find_weights
from reconciler.memory.gguf.types_table import NAMES
from tiny_gguf import write_llama
from worlds import GIB, NOW, manifest, model, running, waiting, world

ENGINE = registry.get("llama.cpp")


@pytest.fixture(autouse=True)
def embedded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    pytest.importorskip("xllamacpp")
    monkeypatch.setenv("PATH", "/nowhere")
    yield
    llama_library._found.cache_clear()


def preflight(path: Path, command: tuple[str, ...] = ()) -> Preflight:
    spec = LaunchSpec("new", "llama.cpp", weights=str(path), command=command, context_tokens=64, cwd="/")
    return ENGINE.preflight(spec)


def of_type(path: Path, kind: int, arch: str = "llama") -> Path:
    path.write_bytes(whole({"general.architecture": string(arch)}, [RawTensor("t", (256,), kind)], data=4096))
    return path


def cut(path: Path) -> Path:
    """A file whose header is whole, and of whose data a part is missing."""
    path.write_bytes(write_llama(path.with_suffix(".whole"), pad_mib=8).read_bytes()[: 3 << 20])
    return path


def lacking(path: Path) -> Path:
    first = path.with_name("big-00001-of-00003.gguf")
    for number in (1, 3):
        first.with_name(f"big-0000{number}-of-00003.gguf").write_bytes(b"GGUF")
    return first


BROKEN = {
    "cut": (cut, r"is truncated: 3 MiB of \d+ MiB are there"),
    "a part is missing": (lacking, r"has 3 parts, and big-00002-of-00003.gguf is not there"),
    "a type given up": (
        lambda path: of_type(path, 31),
        r"type 31 \(Q4_0_4_4\), which llama.cpp has given up",
    ),
    "a type of the future": (lambda path: of_type(path, 77), r"type 77, which xllamacpp .* does not know"),
    "an architecture of the future": (
        lambda path: of_type(path, 0, "brandnew9"),
        r"xllamacpp .* does not know the architecture 'brandnew9'",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_nobody_is_evicted_for_what_cannot_be_loaded(tmp_path: Path, case: str) -> None:
    make, words = BROKEN[case]
    found = preflight(make(tmp_path / "m.gguf"))
    assert found.reason == Reason.NOT_STARTABLE
    assert re.search(words, found.message), found.message
    # There is no room beside the other model, which is idle: with whole weights it has to go.
    desired = manifest(model("new", 900), model("other", 900), mib=1000)
    before = world(running("other", 900, idle=600), demands=[waiting("new")], preflights=[found])
    decided = plan(desired, before, NOW)
    assert decided.steps == ()
    verdict = decided.verdict("new")
    assert verdict is not None
    assert verdict.reason is Reason.NOT_STARTABLE
    good = preflight(write_llama(tmp_path / "good.gguf"))
    startable = replace(before, observation=replace(before.observation, preflights=(good,)))
    assert isinstance(plan(desired, startable, NOW).head, Evict)


def test_a_server_of_the_users_may_know_more(tmp_path: Path) -> None:
    server = tmp_path / "llama-server"
    server.write_text("#!/bin/sh\n")
    server.chmod(0o755)
    for kind, arch in ((31, "llama"), (77, "llama"), (0, "brandnew9")):
        assert preflight(of_type(tmp_path / "m.gguf", kind, arch), (str(server),)).reason is None


@pytest.mark.parametrize("arch", ["llama", "gemma3", "qwen3moe", "gpt-oss", "bert", "nomic-bert", "mamba2"])
def test_what_the_library_holds_is_not_refused(tmp_path: Path, arch: str) -> None:
    path = write_header(tmp_path / "m.gguf", arch, GEMMA_270M)
    assert llama_library.cannot_load(find_weights(path).header) is None


@pytest.mark.parametrize("kind", sorted(NAMES))
def test_the_library_knows_all_types_that_are_known_here(kind: int) -> None:
    assert llama_library._holds(llama_library._ggml_name(NAMES[kind])) is True


def installed(monkeypatch: pytest.MonkeyPatch, folder: Path, data: bytes, version: str) -> None:
    """Have the embedded server be a library of these bytes."""
    (folder / "xllamacpp.abi3.so").write_bytes(data)
    monkeypatch.setattr(
        "reconciler.engines.llama.library.importlib.util.find_spec",
        lambda _: SimpleNamespace(origin=str(folder / "__init__.py")),
    )
    monkeypatch.setattr(llama_library, "embedded_version", lambda: version)


USUAL = b"..llama\0gemma3\0qwen3\0f16\0f32\0q4_K\0"


@pytest.mark.parametrize(
    ("data", "version", "kind", "arch", "refused"),
    [
        (USUAL, "2026.10.1", 0, "brandnew9", True),
        # A longer text may end like this one: it is not certain that it lacks.
        (USUAL + b"xbrandnew9\0", "2026.10.1", 0, "brandnew9", False),
        # A library that keeps its texts in another way tells nothing.
        (b"packed", "2026.10.1", 0, "brandnew9", False),
        (b"packed", "2026.10.1", 42, "llama", False),
        # An older build: it lacks a name that is known here.
        (USUAL, "2026.4.1", 42, "llama", True),
        (USUAL + b"q2_0\0", "2026.4.1", 42, "llama", False),
        # A newer one may have types of which nothing is known here.
        (b"packed", "2026.10.1", 43, "llama", True),
        (USUAL, "2026.11.1", 43, "llama", False),
        (USUAL, "2027.1.1", 43, "llama", False),
    ],
)
def test_only_what_is_certain_is_refused(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    data: bytes,
    version: str,
    kind: int,
    arch: str,
    refused: bool,
) -> None:
    installed(monkeypatch, tmp_path, data, version)
    header = find_weights(of_type(tmp_path / "m.gguf", kind, arch)).header
    assert bool(llama_library.cannot_load(header)) is refused


def test_sizes_of_a_cut_file_are_told_as_people_read_them(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    tensor = RawTensor("t", (1 << 20, 1126))
    path.write_bytes(whole({"general.architecture": string("llama")}, [tensor], data=64))
    with path.open("r+b") as file:
        file.truncate(int(3.1 * GIB))
    assert "is truncated: 3.1 GiB of 4.4 GiB are there" in preflight(path).message


def test_a_library_that_cannot_be_read_tells_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    installed(monkeypatch, tmp_path, b"", "2026.10.1")
    header = find_weights(of_type(tmp_path / "m.gguf", 0, "brandnew9")).header
    assert llama_library.cannot_load(header) is None
    (tmp_path / "xllamacpp.abi3.so").unlink()
    assert llama_library.cannot_load(header) is None
