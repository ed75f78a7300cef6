"""What llama.cpp would end with is said in preflight, before anybody is evicted for it."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import raw_gguf
from random_gguf import RandomModel, write_random
from reconciler.core.launch import LaunchSpec
from reconciler.core.types import Preflight, Reason
from reconciler.engines import registry

ENGINE = registry.get("llama.cpp")
#: Heads of 64 elements fill the blocks of quantised caches, heads of 16 do not.
MODEL = RandomModel("model", layers=2, head=64)
NARROW = RandomModel("narrow", layers=2, head=16)


@pytest.fixture(autouse=True)
def embedded(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("xllamacpp")
    monkeypatch.setenv("PATH", "/nowhere")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("weights")
    for model in (MODEL, NARROW, replace(MODEL, name="qwen", arch="qwen3")):
        write_random(model, folder)
    for name, keys in {
        "projector": {"general.architecture": "clip", "general.type": "mmproj"},
        "adapter": {"general.architecture": "llama", "general.type": "adapter"},
        "foreign": {"general.architecture": "qwen3", "general.type": "adapter"},
    }.items():
        texts = {key: raw_gguf.string(value) for key, value in keys.items()}
        (folder / f"{name}.gguf").write_bytes(raw_gguf.whole(texts, [raw_gguf.RawTensor("a")]))
    server = folder / "llama-server"
    server.write_text("#!/bin/sh\n")
    server.chmod(0o755)
    return folder


def preflight(folder: Path, *args: str, weights: str = "model", **more: Any) -> Preflight:
    spec = LaunchSpec(
        "m", "llama.cpp", weights=str(folder / f"{weights}.gguf"), context_tokens=2048, cwd=str(folder)
    )
    return ENGINE.preflight(replace(spec, args=args, **more))


FINE: list[tuple[str, ...]] = [
    (),
    ("-fa", "off"),
    ("-fa", "off", "-ctk", "q8_0"),
    ("-ctk", "q8_0", "-ctv", "q4_0"),
    ("-b", "2"),
    ("--mmproj", "projector.gguf"),
    ("--lora", "adapter.gguf,adapter.gguf"),
    ("--cache_ram", "1"),
    ("--chat-template", "-ub", "--no-slots"),
]


@pytest.mark.parametrize("args", FINE)
def test_what_starts_has_a_size(folder: Path, args: tuple[str, ...]) -> None:
    found = preflight(folder, *args)
    assert (found.reason, found.message) == (None, "")
    assert found.steady is not None


#: Refused for any server, and what is said of it.
ALWAYS: dict[tuple[str, ...], str] = {
    ("-fa", "banana"): "-fa banana|--flash-attn banana",
    ("-fa", "off", "-ctv", "q8_0"): "--cache-type-v f16",
    ("-cram", "99999999999999"): "too large",
    ("-cram", "1_000"): "1_000.* is not a whole number",
    ("-b", "0"): "at least",
    ("--mmproj", "nope.gguf"): "nope.gguf does not exist",
    ("--mmproj", "model.gguf"): "no projector but of architecture llama",
    ("--lora", "model.gguf"): "is no adapter but a model",
    ("--lora", "adapter.gguf,nope.gguf"): "nope.gguf does not exist",
    ("--lora", "foreign.gguf"): "of architecture qwen3, not llama",
    ("--chat-template-file", "nope.jinja"): "nope.jinja",
}


def refused(found: Preflight, words: str) -> None:
    assert (found.reason, found.steady) == (Reason.NOT_STARTABLE, None)
    assert re.search(words, found.message), found.message


@pytest.mark.parametrize("args", ALWAYS)
def test_what_no_server_starts_with(folder: Path, args: tuple[str, ...]) -> None:
    server = str(folder / "llama-server")
    refused(preflight(folder, *args), ALWAYS[args])
    refused(preflight(folder, *args, command=(server,)), ALWAYS[args])
    # Of a type of cache ours is said later: the manifest has a key for it.
    if "-ctv" not in args:
        refused(preflight(folder, command=(server, *args)), ALWAYS[args])


#: Refused for the embedded server alone: one of the user's may be older or newer.
EMBEDDED: dict[tuple[str, ...], str] = {
    ("-lm", "foo"): "must be one of auto, dio, mlock, mmap, mmap.mlock, none",
    ("-ctk", "q9_9"): "must be one of",
    ("-b", "1"): "with 1 slots at least 2",
    ("--hf-repo-draft", "a/b"): "unknown flag --hf-repo-draft",
    ("--temp", "hot"): "--temp hot",
}


@pytest.mark.parametrize("args", EMBEDDED)
def test_what_only_the_embedded_server_refuses(folder: Path, args: tuple[str, ...]) -> None:
    refused(preflight(folder, *args), EMBEDDED[args])
    assert preflight(folder, *args, command=(str(folder / "llama-server"),)).reason is None


def test_the_batch_has_room_for_a_token_of_each_slot(folder: Path) -> None:
    assert preflight(folder, "-b", "16", slots=16).reason is None
    refused(preflight(folder, "-b", "15", slots=16), "with 16 slots at least 16")


def test_quantised_caches_need_heads_that_fill_their_blocks(folder: Path) -> None:
    refused(
        preflight(folder, weights="narrow", cache_type="q8_0"), "keys of 16 elements cannot be kept in q8_0"
    )
    refused(preflight(folder, "-ctv", "q4_0", weights="narrow"), "values of 16 elements")
    assert preflight(folder, weights="narrow").reason is None


def test_projectors_and_adapters_are_no_models(folder: Path) -> None:
    refused(preflight(folder, weights="projector"), "is a projector, not a model")
    refused(preflight(folder, weights="adapter"), "is an adapter, not a model")
    server = (str(folder / "llama-server"),)
    refused(preflight(folder, "-md", "projector.gguf", command=server), "is a projector, not a model")


def test_the_check_needs_no_library(folder: Path) -> None:
    code = (
        "import sys; from reconciler.engines import registry; from reconciler.core.launch import LaunchSpec; "
    )
    code += (
        f"spec = LaunchSpec('m', 'llama.cpp', weights={str(folder / 'model.gguf')!r}, args=('-fa', 'x')); "
    )
    code += "print(registry.get('llama.cpp').preflight(spec).reason, 'xllamacpp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["NotStartable", "False"]
