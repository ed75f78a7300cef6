"""The engine `llama.cpp` without starting it: command lines, sizes, refusals, probes, explanations."""

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

import raw_gguf
from reconciler.core.launch import LaunchSpec, LoadMode, Role
from reconciler.core.types import Reason
from reconciler.engines import devices, registry
from reconciler.engines.base import Readiness
from reconciler.host.spawn import child_environment
from tiny_gguf import write_llama

ENGINE = registry.get("llama.cpp")
BARE = LaunchSpec("m", "llama.cpp", weights="/w/m.gguf")
EMBEDDED = (sys.executable, "-P", "-m", "reconciler.engines.llama.launcher")
OPTIONS = (
    "-fit",
    "off",
    "--cache-ram",
    "0",
    "--ctx-checkpoints",
    "2",
    "--sse-ping-interval",
    "1",
    "--no-ui",
    "--offline",
    "--no-warmup",
)
THREADS = str(devices.threads(LaunchSpec("m", "llama.cpp")))


@pytest.fixture(autouse=True)
def no_server_on_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    folder = tmp_path / "path"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def server(tmp_path: Path) -> str:
    path = tmp_path / "llama-server"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_a_bare_launch() -> None:
    command = ENGINE.command(BARE, 18100)
    address = ("-m", "/w/m.gguf", "--host", "127.0.0.1", "--port", "18100", "-a", "m")
    settings = ("-np", "1", "-t", THREADS, "-ctk", "f16", "-ctv", "f16")
    assert command.argv == (*EMBEDDED, *address, *settings, *OPTIONS)
    assert command.env == {"GOMP_SPINCOUNT": "1000", "OMP_WAIT_POLICY": "passive"}
    assert command.cwd == "/"


def test_a_rich_launch() -> None:
    spec = replace(
        BARE,
        context_tokens=4096,
        slots=3,
        cache_type="q8_0",
        load_mode=LoadMode.MLOCK,
        env=(("OMP_WAIT_POLICY", "active"), ("P", "${port}")),
        args=("-fa", "on", "-a", "${model}-x"),
        cwd="/tmp",
    )
    command = ENGINE.command(spec, 18100)
    address = ("-m", "/w/m.gguf", "--host", "127.0.0.1", "--port", "18100", "-a", "m")
    settings = ("-np", "3", "-t", THREADS, "-c", "12288", "-ctk", "q8_0", "-ctv", "q8_0")
    extra = ("-lm", "mlock", "-fa", "on", "-a", "m-x")
    assert command.argv == (*EMBEDDED, *address, *settings, *OPTIONS, *extra)
    assert command.env == {"OMP_WAIT_POLICY": "active", "P": "18100"}
    assert command.cwd == "/tmp"


def test_a_server_of_the_users_gets_optional_settings_by_environment(server: str) -> None:
    spec = replace(BARE, command=(server,), load_mode=LoadMode.NONE, context_tokens=512)
    command = ENGINE.command(spec, 18100)
    assert command.argv[0] == server
    assert set(command.argv).isdisjoint({"-fit", "-lm", "--cache-ram", "--no-ui"})
    assert command.env == {
        "GOMP_SPINCOUNT": "1000",
        "LLAMA_ARG_CACHE_RAM": "0",
        "LLAMA_ARG_CTX_CHECKPOINTS": "2",
        "LLAMA_ARG_FIT": "off",
        "LLAMA_ARG_LOAD_MODE": "none",
        "LLAMA_ARG_NO_MMAP": "1",
        "LLAMA_ARG_NO_WEBUI": "1",
        "LLAMA_ARG_OFFLINE": "1",
        "LLAMA_ARG_SSE_PING_INTERVAL": "1",
        "LLAMA_ARG_UI": "0",
        "OMP_WAIT_POLICY": "passive",
    }


def test_a_server_on_path_comes_before_the_embedded_one(no_server_on_path: Path, server: str) -> None:
    os.symlink(server, no_server_on_path / "llama-server")
    assert ENGINE.command(BARE, 1).argv[0] == str(no_server_on_path / "llama-server")


@pytest.mark.parametrize(
    ("role", "tokens", "flags"),
    [
        (Role.EMBEDDING, None, ("--embeddings", "-b", "2048", "-ub", "2048")),
        (Role.EMBEDDING, 256, ("--embeddings", "-b", "512", "-ub", "512")),
        (Role.RERANK, 100_000, ("--rerank", "-b", "8192", "-ub", "8192")),
    ],
)
def test_vectors_take_a_whole_input_in_one_batch(
    role: Role, tokens: int | None, flags: tuple[str, ...]
) -> None:
    argv = ENGINE.command(replace(BARE, role=role, context_tokens=tokens), 1).argv
    at = argv.index(flags[0])
    assert argv[at : at + len(flags)] == flags


def test_slots_without_a_budget_share_the_models_own_length() -> None:
    assert "-kvu" in ENGINE.command(replace(BARE, slots=2), 1).argv
    assert "-c" not in ENGINE.command(replace(BARE, slots=2), 1).argv


FINDINGS = {
    "fine": (BARE, None),
    "no weights": (replace(BARE, weights=None), ("weights",)),
    "owned: port": (replace(BARE, args=("--port", "9")), ("args",)),
    "owned: context": (replace(BARE, args=("-c", "9")), ("args",)),
    "owned: with =": (replace(BARE, args=("--parallel=2",)), ("args",)),
    "cache type": (replace(BARE, cache_type="q9"), ("context", "cache_type")),
    "slots": (replace(BARE, slots=0), ("context", "slots")),
}


@pytest.mark.parametrize("name", FINDINGS)
def test_findings(name: str) -> None:
    spec, path = FINDINGS[name]
    assert [finding.path for finding in ENGINE.check(spec)] == ([path] if path else [])


def test_what_to_give_for_a_size_is_one_sentence(tmp_path: Path) -> None:
    weights = str(write_llama(tmp_path / "m.gguf"))
    found = ENGINE.preflight(replace(BARE, weights=weights, args=("--cache-ram", "-1")))
    message = "--cache-ram has no bound, so the size has none: give --cache-ram N (MiB), or memory.steady"
    assert (found.reason, found.message, found.steady) == (None, message, None)


def test_the_servers_memory_does_not_hang_on_variables_of_ours(server: str) -> None:
    for command in ((), (server,)):
        spec = replace(BARE, command=command, env=(("LLAMA_ARG_CACHE_RAM", "7"), ("GGML_X", "1")))
        made = ENGINE.command(spec, 1)
        ours = {
            "LLAMA_ARG_UBATCH": "9",
            "GGML_CUDA_ENABLE_UNIFIED_MEMORY": "1",
            "LLAMA_API_KEY": "k",
            "LLAMA_CACHE": "/c",
            "HOME": "/h",
        }
        environment = child_environment(ours, made, {})
        assert environment.keys() & ours.keys() == {"LLAMA_CACHE", "HOME"}
        # What the model's own `env` states stays.
        assert (environment["LLAMA_ARG_CACHE_RAM"], environment["GGML_X"]) == ("7", "1")


def test_what_cannot_start_is_said_before_anything_is_stopped(tmp_path: Path, server: str) -> None:
    weights = str(write_llama(tmp_path / "m.gguf"))
    (tmp_path / "page.gguf").write_text("<!doctype html>")
    (tmp_path / "header.gguf").write_bytes(raw_gguf.whole({"general.architecture": raw_gguf.string("llama")}))
    good = replace(BARE, weights=weights)
    cases = {
        "does not exist": replace(good, weights=str(tmp_path / "none.gguf")),
        "holds no tensors": replace(good, weights=str(tmp_path / "header.gguf")),
        "HTML page": replace(good, weights=str(tmp_path / "page.gguf")),
        "is not on PATH": replace(good, command=("llama-server-of-mine",)),
        "working directory": replace(good, cwd=str(tmp_path / "gone")),
        "unknown flag --flash-atn; the nearest is --flash-attn": replace(good, args=("--flash-atn", "on")),
        "-t needs a value": replace(good, args=("-t",)),
    }
    for words, spec in cases.items():
        found = ENGINE.preflight(spec)
        assert found.reason == Reason.NOT_STARTABLE
        assert words in found.message
        assert found.steady is None
    # The flags of a server of one's own are not ours to judge.
    assert ENGINE.preflight(replace(good, command=(server,), args=("--brand-new",))).reason is None


def test_without_any_server_it_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    found = ENGINE.preflight(replace(BARE, weights=str(write_llama(tmp_path / "m.gguf"))))
    assert found.reason == Reason.NOT_STARTABLE
    assert "pip install 'reconciler[llama]'" in found.message


def server_that(health: int, call: int, message: str = "why") -> Callable[[httpx.Request], httpx.Response]:
    def handle(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/health":
            return httpx.Response(health)
        return httpx.Response(call, json={"error": {"message": message}} if call >= 400 else {})

    return handle


PROBES = [
    (server_that(503, 200), Readiness.LOADING, "503"),
    (server_that(200, 200), Readiness.READY, ""),
    (server_that(200, 503), Readiness.LOADING, "why"),
    (server_that(200, 401), Readiness.FAILED, "args: [--api-key, KEY]"),
    (server_that(200, 500), Readiness.FAILED, "why"),
    (server_that(200, 400, "Pooling type 'none'"), Readiness.FAILED, "args: [--pooling, mean]"),
]


@pytest.mark.anyio
@pytest.mark.parametrize(("handler", "expected", "words"), PROBES)
async def test_ready_means_that_a_real_call_worked(
    handler: Callable[[httpx.Request], httpx.Response], expected: Readiness, words: str
) -> None:
    async with httpx.AsyncClient(transport=httpx.MockTransport(handler)) as client:
        probe = await ENGINE.probe(BARE, "http://127.0.0.1:1", client)
    assert probe.readiness is expected
    assert words in probe.detail


EXPLANATIONS = {
    "gguf_init_from_file: invalid magic characters 'xxxx'": "not GGUF",
    "failed to read key-value pairs": "truncated or damaged",
    "tensor 'a' has invalid ggml type 99. should be in [0, 43)": "type 99",
    "error loading model: something new": "did not load: something new",
    "unknown model architecture: 'qwen9'": "'qwen9'",
    "error: invalid argument: --no-mmap": "flag --no-mmap",
    "failed to allocate buffer for kv cache": "context.max_tokens",
    "failed to allocate CPU buffer of size 123456": "CPU refused 123456 bytes",
    "couldn't bind HTTP server socket, hostname: 127.0.0.1": "port is taken",
    "quantized V cache requires flash_attn": "flash attention",
    "ggml_vulkan: Device memory allocation failed: ErrorOutOfDeviceMemory": "GPU",
    "CUDA error: out of memory": "GPU",
    "launcher: unknown flag --x; the nearest is -s": "unknown flag --x",
    "ModuleNotFoundError: No module named 'xllamacpp'": "xllamacpp is not installed",
}


@pytest.mark.parametrize("line", EXPLANATIONS)
def test_known_failures_are_explained(line: str) -> None:
    log = f"0.00.1 I loading\n{line}\nexiting\n"
    assert EXPLANATIONS[line] in (ENGINE.explain(log, 1) or "")


def test_an_unknown_log_leaves_the_exit_status_to_speak() -> None:
    assert "another CPU" in (ENGINE.explain("nothing {known} here", -4) or "")
    assert ENGINE.explain("nothing known", 1) is None
