"""The size of a llama.cpp launch worked out from the manifest's keys, its args and the files."""

import os
import platform
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gguf_headers import GEMMA_270M, LLAMA_8B, Value, write_header
from random_gguf import RandomModel, write_random
from reconciler.core.launch import Device, LaunchSpec, LoadMode, Role
from reconciler.core.memory import Estimate
from reconciler.core.types import Preflight, Reason
from reconciler.engines import registry
from reconciler.engines.elsewhere import elsewhere
from reconciler.engines.llama import build as llama_build
from reconciler.engines.llama import projector as llama_projector
from reconciler.engines.llama.args import read_settings
from reconciler.engines.llama.estimate import Place, Sized, size
from reconciler.engines.llama.repack import types_for
from reconciler.memory.gguf import find_weights
from tiny_gguf import write_llama

ENGINE = registry.get("llama.cpp")
MIB = 1024 * 1024
CPU = Place(cpu=True)
TINY = RandomModel("tiny", vocab=1000)


def launch(path: Path, **settings: Any) -> LaunchSpec:
    return replace(LaunchSpec("m", "llama.cpp", weights=str(path), context_tokens=8192, cwd="/"), **settings)


def sized(spec: LaunchSpec, place: Place = CPU, *, embedded: bool = True) -> Sized:
    settings = read_settings(spec, spec.args, embedded=embedded)
    return size(spec, settings, find_weights(Path(spec.weights or "")), place)


def parts(path: Path, **settings: Any) -> Estimate:
    found = sized(launch(path, **settings))
    assert found.missing == ""
    return found.estimate


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    return write_header(tmp_path / "llama.gguf", "llama", LLAMA_8B | {"context_length": 131072})


@pytest.fixture
def gemma(tmp_path: Path) -> Path:
    keys = GEMMA_270M | {"context_length": 32768, "feed_forward_length": 2048}
    return write_header(tmp_path / "gemma.gguf", "gemma3", keys, tokens=1000)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random(TINY, tmp_path_factory.mktemp("whole"))


CONTEXTS: dict[str, tuple[dict[str, Any], float]] = {
    "8192 tokens": ({}, 1024),
    "four slots of 8192": ({"slots": 4}, 4096),
    "the model's own length": ({"context_tokens": None}, 16384),
    "its own length, shared by slots": ({"context_tokens": None, "slots": 4}, 16384),
    "a cache type": ({"cache_type": "q8_0"}, 544),
    "types of their own in args": ({"args": ("-ctk", "q8_0", "--cache-type-v=q4_0")}, 272 + 144),
    "the last flag rules": ({"args": ("-ctk", "f32", "-ctk", "f16", "-ctv", "f16")}, 1024),
    "args over keys": ({"args": ("--ctx-size", "4096")}, 512),
    "slots in args": ({"args": ("-np", "2", "-c", "1000")}, 128),
    "what the manifest states": ({"context_bytes_per_token": 1000, "slots": 2}, 1000 * 16384 / MIB),
    "stated, for its own length": ({"context_bytes_per_token": 8, "context_tokens": None}, 1),
}


@pytest.mark.parametrize("name", CONTEXTS)
def test_context(llama: Path, name: str) -> None:
    settings, mib = CONTEXTS[name]
    assert parts(llama, **settings).context == mib * MIB


WINDOWED: dict[str, tuple[dict[str, Any], float]] = {
    "plain": ({}, 24 + 15),
    "four slots": ({"slots": 4}, 96 + 60),
    # Of one pool the windows of all slots are taken: 4 x 512 + 512 tokens.
    "four slots in one pool": ({"slots": 4, "args": ("-kvu",)}, 96 + 37.5),
    "everything kept": ({"args": ("--swa-full",)}, 24 + 120),
    "a smaller batch": ({"args": ("-ub", "256")}, 24 + 11.25),
}


@pytest.mark.parametrize("name", WINDOWED)
def test_windows(gemma: Path, name: str) -> None:
    settings, mib = WINDOWED[name]
    assert parts(gemma, **settings).context == mib * MIB


@pytest.mark.parametrize(
    ("args", "mib"),
    [
        ((), 2 * 7.5),
        (("--ctx-checkpoints", "0"), 0),
        (("-ctxcp", "5"), 5 * 7.5),
        (("--swa-full",), 0),
        (("--cache-ram", "100"), 2 * 7.5 + 100),
        (("-cram", "100", "-ctxcp", "0"), 100),
    ],
)
def test_what_it_may_grow_to_is_reserved(gemma: Path, args: tuple[str, ...], mib: float) -> None:
    assert parts(gemma, args=args).cache == mib * MIB


def test_each_slot_keeps_copies_and_full_attention_needs_none(gemma: Path, llama: Path) -> None:
    assert parts(gemma, slots=4).cache == 4 * 2 * 7.5 * MIB
    assert parts(llama, slots=4).cache == 0


def test_a_prompt_cache_without_bound_has_no_size(llama: Path) -> None:
    found = sized(launch(llama, args=("--cache-ram", "-1")))
    assert "--cache-ram" in found.missing
    assert found.estimate.steady is None


def test_compute_buffers_are_those_of_the_log(gemma: Path) -> None:
    """A real server logs 27.28 MiB for this shape, at 8192 tokens and at 4 x 8192; the rest is one result a slot."""
    for slots in (1, 4):
        found = parts(gemma, slots=slots).compute
        assert found is not None
        assert 27.27 * MIB <= found <= 27.4 * MIB


def test_without_flash_attention_all_scores_are_there_at_once(llama: Path) -> None:
    with_it, without = (
        parts(llama, context_tokens=32768),
        parts(llama, context_tokens=32768, args=("-fa", "off")),
    )
    assert with_it.compute is not None
    assert without.compute is not None
    scores = 32 * 32768 * 512 * 4
    assert scores <= without.compute - with_it.compute <= scores + 32 * MIB


def test_an_embedding_has_a_result_for_every_token_of_a_batch(tmp_path: Path) -> None:
    path = write_header(tmp_path / "m.gguf", "qwen3", LLAMA_8B | {"context_length": 8192}, tokens=100_000)
    chat = parts(path, context_tokens=2048)
    vectors = parts(path, context_tokens=2048, role=Role.EMBEDDING)
    assert chat.compute is not None
    assert vectors.compute is not None
    results = 100_000 * 2048 * 4
    assert vectors.compute - chat.compute > results
    assert vectors.overhead - chat.overhead > results
    # One that ends in vectors has no table of tokens to multiply with.
    bert = write_header(tmp_path / "b.gguf", "bert", LLAMA_8B | {"context_length": 8192}, tokens=100_000)
    small = parts(bert, context_tokens=2048, role=Role.EMBEDDING)
    assert small.compute is not None
    assert small.compute < vectors.compute
    assert small.overhead < vectors.overhead - results
    assert small.context == 0


def test_an_older_server_makes_room_for_results_of_a_whole_batch(tmp_path: Path) -> None:
    path = write_header(tmp_path / "m.gguf", "qwen3", LLAMA_8B | {"context_length": 8192}, tokens=100_000)
    new, old = (sized(launch(path), Place(cpu=True, new=new)).estimate.compute for new in (True, False))
    assert new is not None
    assert old is not None
    assert old >= 100_000 * 512 * 4 > new


def test_a_vocabulary_takes_room(tmp_path: Path) -> None:
    keys = LLAMA_8B | {"context_length": 8192}
    small = parts(write_header(tmp_path / "s.gguf", "llama", keys, tokens=100))
    large = parts(write_header(tmp_path / "l.gguf", "llama", keys, tokens=100_100))
    assert 20 * MIB < large.overhead - small.overhead < 24 * MIB


FILES: list[tuple[dict[str, Any], Place, bool, int]] = [
    ({}, CPU, True, 0),
    ({"load_mode": LoadMode.MMAP}, CPU, True, 0),
    ({"load_mode": LoadMode.NONE}, CPU, False, 0),
    ({"load_mode": LoadMode.MLOCK}, CPU, False, 0),
    ({"args": ("-lm", "mmap+mlock")}, CPU, True, 0),
    ({"args": ("-lm", "dio")}, CPU, False, 0),
    ({}, Place(cpu=False, metal=True), True, 0),
    ({}, Place(cpu=False), False, 0),
    # A GPU that shares the memory gets a copy while the mapped file is still there.
    ({"load_mode": LoadMode.MMAP}, Place(cpu=False), False, 1),
]


@pytest.mark.parametrize(("settings", "place", "mapped", "copies"), FILES)
def test_files_are_mapped_or_read(
    whole: Path, settings: dict[str, Any], place: Place, mapped: bool, copies: int
) -> None:
    found = sized(launch(whole, **settings), place)
    weights = find_weights(whole)
    assert [file.size for file in found.files] == ([weights.tensor_bytes] if mapped else [])
    assert found.estimate.weights == weights.tensor_bytes
    assert found.estimate.loading == copies * weights.tensor_bytes
    assert found.estimate.peak == (found.estimate.steady or 0) + copies * weights.tensor_bytes


def test_rearranged_weights_are_there_twice_where_the_file_is_mapped(tmp_path: Path) -> None:
    path = write_random(replace(TINY, kind="q4_0"), tmp_path)
    weights = find_weights(path)
    multiplied = sum(
        t.size or 0 for t in weights.header.tensors if t.type == 2 and t.name != "token_embd.weight"
    )
    copied = multiplied if 2 in types_for(os.uname().machine, _features()) else 0
    assert parts(path).weights == weights.tensor_bytes + copied
    assert parts(path, args=("--no-repack",)).weights == weights.tensor_bytes
    assert parts(path, load_mode=LoadMode.NONE).weights == weights.tensor_bytes
    assert sized(launch(path), Place(cpu=False)).estimate.weights == weights.tensor_bytes


def _features() -> frozenset[str]:
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else "flags: asimddp"
    return frozenset(text.split())


@pytest.mark.parametrize(
    ("machine", "features", "types"),
    [
        ("x86_64", {"avx2"}, {2, 12, 20, 39}),
        ("x86_64", {"avx2", "avx512f"}, {2, 10, 12, 20, 39}),
        ("x86_64", {"sse4_2"}, set()),
        ("aarch64", {"asimddp"}, {2, 8, 12, 13, 14, 20, 39}),
        ("riscv64", {"avx2"}, set()),
    ],
)
def test_which_types_are_rearranged(machine: str, features: set[str], types: set[int]) -> None:
    assert types_for(machine, frozenset(features)) == types


def test_further_files_count(tmp_path: Path, whole: Path) -> None:
    own = find_weights(whole).tensor_bytes
    other = write_random(replace(TINY, name="other", layers=2), tmp_path)
    more = find_weights(other).tensor_bytes
    adapter = parts(whole, args=("--lora", str(other)))
    assert adapter.weights == own + more
    relative = parts(whole, cwd=str(tmp_path), args=("--lora-scaled", "other.gguf:0.5"))
    assert relative.weights == own + more
    draft = parts(whole, args=("-md", str(other)))
    bare = parts(whole)
    assert draft.weights == own + more
    assert draft.context == (bare.context or 0) + 2 * 4 * 64 * 2 * 2 * 8192
    assert (draft.compute or 0) > (bare.compute or 0)
    projector = parts(whole, args=("--mmproj", str(other)))
    assert projector.weights == own + more
    # Its header does not say how large a picture may be.
    assert projector.compute == (bare.compute or 0) + more


def test_a_projector_computes_all_patches_of_a_picture_at_once(tmp_path: Path, whole: Path) -> None:
    keys: Mapping[str, Value] = {
        "image_size": 896,
        "patch_size": 14,
        "embedding_length": 1152,
        "feed_forward_length": 4304,
        "attention.head_count": 16,
    }
    path = write_header(tmp_path / "p.gguf", "clip.vision", keys)
    with_all_scores = 4 * 4097 * (6 * 1152 + 3 * 4304 + 16 * 4097)
    for place, args, expected in (
        (CPU, (), 4 * 4097 * (4 * 1152 + 2 * 4304)),
        (CPU, ("-fa", "off"), with_all_scores),
        (Place(cpu=False), (), with_all_scores),
        (Place(cpu=True, new=False), (), with_all_scores),
    ):
        found = [sized(launch(whole, args=(*args, *more)), place) for more in ((), ("--mmproj", str(path)))]
        without, seeing = (one.estimate.compute or 0 for one in found)
        assert seeing - without == expected


#: What llama.cpp (b11434) says a projector of 2 layers computes in: (width, heads, picture), flash -> MiB.
PROJECTORS = {
    (256, 8, 448, True): 7.0,
    (256, 8, 448, False): 38.0,
    (512, 8, 896, True): 56.0,
    (512, 8, 896, False): 560.0,
    (1024, 16, 336, True): 15.75,
}


@pytest.mark.parametrize("shape", PROJECTORS)
def test_a_projector_takes_no_more_than_is_set_aside(
    tmp_path: Path, shape: tuple[int, int, int, bool]
) -> None:
    width, heads, picture, flash = shape
    keys: Mapping[str, Value] = {
        "image_size": picture,
        "patch_size": 14,
        "embedding_length": width,
        "feed_forward_length": 4 * width,
        "attention.head_count": heads,
    }
    weights = find_weights(write_header(tmp_path / "p.gguf", "clip.vision", keys))
    ours = llama_projector.compute_bytes(weights, flash=flash) / MIB
    assert PROJECTORS[shape] <= ours <= 2 * PROJECTORS[shape]


def test_missing_further_files_are_named(whole: Path) -> None:
    found = ENGINE.preflight(launch(whole, args=("--lora", "/nowhere/adapter.gguf")))
    assert found.reason == Reason.NOT_STARTABLE
    assert "/nowhere/adapter" in found.message


def test_a_server_of_the_users_is_told_by_variables(llama: Path) -> None:
    spec = launch(
        llama, command=("/bin/true",), env=(("LLAMA_ARG_CACHE_RAM", "512"), ("LLAMA_ARG_UBATCH", "64"))
    )
    settings = read_settings(spec, spec.args, embedded=False)
    assert settings.prompt_cache == 512 * MIB
    assert settings.micro_batch == 64
    assert read_settings(spec, ("--cache-ram", "1"), embedded=False).prompt_cache == MIB
    # The embedded one has none.
    assert read_settings(spec, (), embedded=True).prompt_cache == 0
    for args, mode in ((("--no-mmap",), "none"), (("--mlock",), "mmap+mlock"), ((), "auto")):
        assert read_settings(spec, args, embedded=False).load_mode == mode


def test_a_batch_of_0_or_less_is_as_large_as_it_can_be(llama: Path) -> None:
    whole, none, negative = (parts(llama, args=("-ub", size)).compute for size in ("2048", "0", "-1"))
    assert whole == none == negative
    assert parts(llama, args=("-b", "-1")).compute == parts(llama).compute
    assert (
        parts(llama, args=("-b", "-1", "-ub", "0")).compute
        == parts(llama, args=("-b", "8192", "-ub", "8192")).compute
    )


def test_the_smallest_models_take_what_program_and_libraries_take(whole: Path) -> None:
    """Measured with a model of 0.3 MB at 2048 tokens: 18 MiB once it serves, 26 while it loads."""
    tiny = write_llama(whole.parent / "tiny-llama.gguf")
    found = parts(tiny, context_tokens=2048)
    assert 26 * MIB <= (found.peak or 0) <= 32 * MIB


def test_types_that_only_a_newer_server_may_know_have_no_size(whole: Path, tmp_path: Path) -> None:
    server = tmp_path / "llama-server"
    server.write_text("#!/bin/sh\n")
    server.chmod(0o755)
    found = ENGINE.preflight(launch(whole, command=(str(server),), args=("-ctk", "q9_9")))
    assert (found.reason, found.steady) == (None, None)
    assert found.message == "--cache-type-k q9_9 is not a cache type: give memory.steady"


def preflight(path: Path, **settings: Any) -> Preflight:
    found = ENGINE.preflight(launch(path, **settings))
    assert found.reason is None
    return found


def test_the_engine_hands_over_estimate_files_and_build(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(llama_build, "place", lambda spec, settings, new: Place(cpu=True, new=new))
    found = preflight(whole)
    assert found.parts == parts(whole)
    assert (found.steady, found.peak) == (found.parts.steady, found.parts.peak)
    assert found.files == sized(launch(whole)).files
    assert found.context_tokens == 8192
    assert found.build.startswith("xllamacpp 20")
    assert preflight(whole, slots=4).context_tokens == 32768
    assert preflight(whole, context_tokens=None).context_tokens is None


def test_a_build_of_the_users_is_known_by_its_file(whole: Path, tmp_path: Path) -> None:
    server = tmp_path / "llama-server"
    server.write_text("#!/bin/sh\n")
    server.chmod(0o755)
    first = preflight(whole, command=(str(server),)).build
    assert first == preflight(whole, command=(str(server),)).build
    link = tmp_path / "link"
    link.symlink_to(server)
    assert preflight(whole, command=(str(link),)).build == first
    server.write_text("#!/bin/sh\n# newer\n")
    assert preflight(whole, command=(str(server),)).build != first
    assert (
        preflight(whole, command=("/bin/sh", str(server))).build
        != preflight(whole, command=("/bin/sh",)).build
    )


UNKNOWN = [
    ("falcon", {"block_count": 24}, "falcon.embedding_length"),
    (None, {}, "general.architecture"),
    ("llama", LLAMA_8B, "llama.context_length"),
]


@pytest.mark.parametrize(("arch", "keys", "named"), UNKNOWN)
def test_what_the_header_does_not_say_is_unknown_and_can_be_stated(
    tmp_path: Path, arch: str | None, keys: Mapping[str, Value], named: str
) -> None:
    path = write_header(tmp_path / "m.gguf", arch, keys)
    found = preflight(path, context_tokens=None)
    assert (found.steady, found.peak) == (None, None)
    assert named in found.message
    assert "give memory.steady" in found.message
    stated = preflight(path, context_bytes_per_token=1024)
    assert stated.parts is not None
    assert stated.parts.context == 8 * MIB
    assert stated.steady is not None
    assert stated.message == ""


@pytest.mark.skipif(platform.system() == "Darwin", reason="a Mac has its GPU")
def test_a_named_gpu_counts_where_another_machine_is_meant(
    whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llama_build, "_GPUS", ("/nonexistent/gpu",))
    spec = launch(whole, device=Device(gpus=("0",)))
    settings = read_settings(spec, spec.args, embedded=True)
    assert llama_build.place(spec, settings, new=True).cpu, "this machine has none"
    with elsewhere():
        assert not llama_build.place(spec, settings, new=True).cpu
    assert llama_build.place(spec, settings, new=True).cpu


def test_by_how_much_the_context_can_be_made_smaller(llama: Path) -> None:
    """What the server rounds up to, and the bytes of that; as stated where the bytes of a token are."""
    whole, fewer = (
        sized(launch(llama, context_tokens=n, slots=2)).estimate.context for n in (8000, 7936 - 256)
    )
    found = sized(launch(llama, context_tokens=8000, slots=2))
    assert whole is not None
    assert fewer is not None
    assert (found.context_step, found.context_step_bytes) == (512, (whole - fewer) // 2)
    stated = sized(launch(llama, context_bytes_per_token=8))
    assert (stated.context_step, stated.context_step_bytes) == (256, 2048)
