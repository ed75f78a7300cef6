"""Flags and variables that are not the user's to give, cut short or not, and those that decide the size."""

import dataclasses
import re
from pathlib import Path

import pytest

import media_specs
import text_engines
from hf_files import write_model
from reconciler.core.launch import LaunchSpec, Role
from reconciler.engines import registry
from reconciler.engines.adapter import Adapter

RECORDED = Path(__file__).with_name("recorded")
MEDIA = ("comfyui", "faster-whisper", "kokoro", "ollama", "sd.cpp", "whisper.cpp")
HELP = ("infinity", "mlx", "mlx-vlm", "transformers", "vllm")


def adapter(name: str) -> Adapter:
    found = registry.get(name)
    assert isinstance(found, Adapter)
    return found


def bare(name: str, root: Path) -> LaunchSpec:
    return media_specs.bare(name, root) if name in MEDIA else text_engines.bare(name, root)


def said(name: str, root: Path, *words: str, **changes: object) -> list[str]:
    """Return what is found wrong with these `args`, each with what to do."""
    spec = dataclasses.replace(bare(name, root), args=words, **changes)  # type: ignore[arg-type]
    return [f"{found.message}; {found.hint}" for found in registry.get(name).check(spec)]


@pytest.mark.parametrize(
    ("name", "word", "full"),
    [
        ("mlx", "--hos=0.0.0.0", "--host"),
        ("mlx", "--mode=/other", "--model"),
        ("mlx", "--mod", "--model"),
        ("mlx", "--prompt-cache-byte=20GB", "--prompt-cache-bytes"),
        ("mlx", "--kv_bit=4", "--kv-bits"),
        ("mlx-vlm", "--vision-cache=9", "--vision-cache-size"),
        ("vllm", "--max-model-le=8", "--max-model-len"),
        ("vllm", "--kv-cache-memory=4G", "--kv-cache-memory-bytes"),
        ("sglang", "--hicache-s=100", "--hicache-size"),
        ("faster-whisper", "--worker=2", "--workers"),
        ("comfyui", "--lis=0.0.0.0", "--listen"),
    ],
)
def test_the_beginning_of_a_flag_is_no_way_around_it(name: str, word: str, full: str, tmp_path: Path) -> None:
    [found] = said(name, tmp_path, word)
    assert found == f"{word.partition('=')[0]} is cut short: {name} takes it for {full}; give flags in full"


@pytest.mark.parametrize("name", HELP)
def test_no_flag_that_a_server_has_is_taken_for_another_cut_short(name: str) -> None:
    text = (RECORDED / f"{name}-help.txt").read_text()
    engine = adapter(name)
    own = {*engine.owned, *engine.sizing, *engine.sizes}
    known = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*[a-z0-9](?![\w*-])", text)) - own
    begun = {flag for flag in known if any(full.startswith(flag) for full in own)}
    assert len(known) > 5
    assert not (begun if engine.abbreviates else set())


@pytest.mark.parametrize(
    ("name", "word"),
    [
        *((name, "--host=0.0.0.0") for name in ("infinity", "kokoro", "mlx", "mlx-vlm", "sglang", "vllm")),
        *((name, "--port=1") for name in ("infinity", "kokoro", "mlx", "mlx-vlm", "sglang", "tei", "vllm")),
        *(("whisper.cpp", word) for word in ("-m", "--model", "--host", "--port", "-ng", "--inference-path")),
        *(("sd.cpp", word) for word in ("-m", "-l", "--listen-ip", "--listen-port", "--diffusion-model")),
        *(("tei", word) for word in ("-p", "-p8080", "--hostname", "--model_id", "--uds-path=/x")),
        *(
            ("vllm", word)
            for word in ("--config", "--uds", "--ssl-keyfile", "--api-server-count", "--root-path")
        ),
        *(("vllm", word) for word in ("--no-enable-sleep-mode", "--speculative-config.model", "--runner")),
        *(("sglang", word) for word in ("--config", "--device", "--enable-lora", "--uds", "--lora_paths")),
        *(("kokoro", word) for word in ("--fd", "--root-path", "--workers", "--env-file", "--ssl-certfile")),
        *(("comfyui", word) for word in ("--tls-keyfile", "--port", "--cuda_device=1")),
        ("faster-whisper", "--workers=4"),
        ("infinity", "--preload-only"),
        ("mlx", "--api-key"),
        ("mlx", "--quantized-kv-start"),
        ("mlx-vlm", "--kv-quant-scheme"),
        ("mlx-vlm", "--decision-model"),
        ("transformers", "--model-timeout"),
        ("transformers", "--force-model"),
    ],
)
def test_address_model_and_number_of_processes_are_not_for_args(name: str, word: str, tmp_path: Path) -> None:
    [found] = said(name, tmp_path, word)
    assert " cannot be given here; " in found


@pytest.mark.parametrize(
    ("name", "variable", "hint"),
    [
        ("ollama", "OLLAMA_NUM_PARALLEL", "it is stated as `context.slots`"),
        ("ollama", "OLLAMA_CONTEXT_LENGTH", "it is stated as `context.max_tokens`"),
        ("ollama", "OLLAMA_KV_CACHE_TYPE", "it is stated as `context.cache_type`"),
        ("ollama", "OLLAMA_MAX_LOADED_MODELS", "it is chosen by reconcile"),
        ("ollama", "OLLAMA_KEEP_ALIVE", "it is stated as `idle_ttl`"),
        ("ollama", "OLLAMA_HOST", "it is stated as `port`"),
        ("kokoro", "WEB_CONCURRENCY", "it is chosen by reconcile"),
        ("faster-whisper", "WEB_CONCURRENCY", "it is chosen by reconcile"),
        ("vllm", "VLLM_PORT", "vLLM takes it for a port of its own: leave it out"),
    ],
)
def test_variables_that_decide_what_the_manifest_states(
    name: str, variable: str, hint: str, tmp_path: Path
) -> None:
    assert said(name, tmp_path, env=((variable, "1"),)) == [f"{variable} cannot be given here; {hint}"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("infinity", ("--batch-size=4096",)),
        ("mlx", ("--prefill-step-size", "99999")),
        ("mlx-vlm", ("--vision-cache-size", "100")),
        ("mlx-vlm", ("--expert_cache_gb=10",)),
        ("sglang", ("--enable-hierarchical-cache",)),
        ("sglang", ("--hicache-size", "100")),
        ("transformers", ("--continuous-batching",)),
        ("vllm", ("--kv-offloading-size", "20")),
        ("vllm", ("--tensor-parallel-size=2",)),
        ("whisper.cpp", ("-p", "4")),
        ("faster-whisper", ("--batch-size", "16")),
    ],
)
def test_what_the_sum_does_not_follow_leaves_the_size_unknown(
    name: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    spec = bare(name, tmp_path)
    plain = registry.get(name).preflight(spec)
    found = registry.get(name).preflight(dataclasses.replace(spec, args=words))
    assert (plain.reason, found.reason) == (None, None)
    assert (found.steady, found.peak) == (None, None)
    flag = words[0].partition("=")[0].replace("_", "-")
    assert found.message == f"{flag} decides what it takes, and nothing tells how much: give memory.steady"
    assert found.parts is None or (found.parts.weights, found.parts.steady) == (
        plain.parts and plain.parts.weights,
        None,
    )


def test_a_variable_of_its_runner_leaves_the_size_of_ollama_unknown(tmp_path: Path) -> None:
    spec = dataclasses.replace(bare("ollama", tmp_path), context_tokens=512)
    found = adapter("ollama").foreseen(dataclasses.replace(spec, env=(("LLAMA_ARG_CACHE_RAM", "8192"),)))
    assert found.reason is not None or found.message.startswith("LLAMA_ARG_CACHE_RAM decides")


@pytest.mark.parametrize(
    ("name", "flag", "well", "wrong"),
    [
        (
            "mlx",
            "--prompt-cache-bytes",
            ("4GB", "4gb", "1.5G", "4096", "1 MB"),
            ("2GiB", "500KB", "lots", ""),
        ),
        ("vllm", "--kv-cache-memory-bytes", ("4G", "4g", "1.5T", "4096"), ("4GB", "4GiB", "lots", "-1")),
    ],
)
def test_a_size_that_the_program_cannot_read_is_found_before_it_starts(
    name: str, flag: str, well: tuple[str, ...], wrong: tuple[str, ...], tmp_path: Path
) -> None:
    for index, text in enumerate(well):
        assert not said(name, tmp_path / f"well{index}", flag, text)
    for index, text in enumerate(wrong):
        [found] = said(name, tmp_path / f"wrong{index}", f"{flag}={text}")
        assert found.startswith(f"{flag}: {text!r} is no size that {name} can read")
    assert said(name, tmp_path / "none", flag) == [f"{flag} has no value; "]


def test_contexts_kept_by_mlx_count_where_their_number_is_the_bound(tmp_path: Path) -> None:
    root = write_model(tmp_path / "w", text_engines.LLAMA)
    spec = dataclasses.replace(bare("mlx", tmp_path), weights=str(root), context_tokens=1024)
    mlx = adapter("mlx")

    def cache(*words: str, kind: str = "q8_0") -> int:
        found = mlx.preflight(dataclasses.replace(spec, args=words, cache_type=kind))
        assert found.parts is not None
        return found.parts.cache

    one = cache()
    assert cache("--prompt-cache-size", "5") == 5 * one
    # In a batch bytes are the bound, however many there are.
    assert cache("--prompt-cache-size=5", kind="f16") == cache(kind="f16")
    # A group of 32 has twice as many scales as one of 64: 9 bits in place of 8.5.
    assert cache("--kv-group-size", "32") == pytest.approx(one * 9 / 8.5)
    [found] = said("mlx", tmp_path / "b", "--prompt-cache-size", "many")
    assert found == "--prompt-cache-size wants a whole number, at least 1; "


def test_flags_beside_are_the_users(tmp_path: Path) -> None:
    words = ("--trust-remote-code", "--", "--max-tokens", "99", "--chat-template", "x")
    assert not said("mlx", tmp_path / "a", *words)
    assert not said("vllm", tmp_path / "b", "--enforce-eager", "--seed", "1")
    # Its parser takes no beginnings: this is a flag of its own.
    assert not said("whisper.cpp", tmp_path / "c", "--vad")


def test_a_role_without_flags_of_its_own_is_checked_as_well(tmp_path: Path) -> None:
    found = said("mlx-vlm", tmp_path, role=Role.EMBEDDING, slots=3, cache_type="q8_0")
    assert [text.partition(" that ")[2] for text in found] == [
        "`context.cache_type` could set; leave it out for this model",
        "`context.slots` could set; leave it out for this model",
    ]
