"""The engine `command`: findings, what must be there, the exact command line, and what health answers mean."""

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from hf_files import write_model
from reconciler.core.launch import LaunchSpec, Role
from reconciler.core.types import Preflight, Reason
from reconciler.engines import registry
from reconciler.engines.base import Command, Readiness
from reconciler.memory.gguf import find_weights
from tiny_gguf import write_llama

ENGINE = registry.get("command")
GOOD = LaunchSpec("m", "command", command=(sys.executable, "server.py", "--port", "${port}"), cwd="/")

FINDINGS = {
    "fine": (GOOD, ()),
    "fixed port": (replace(GOOD, command=("server",), port=9001), ()),
    "port in args": (replace(GOOD, command=("server",), args=("-p${port}",)), ()),
    "port in env": (replace(GOOD, command=("server",), env=(("PORT", "${port}"),)), ()),
    "shell text is left alone": (replace(GOOD, args=("$HOME", "~", "*", "${HOME}")), ()),
    "own variable": (replace(GOOD, args=("${PORT}",), env=(("PORT", "${port}"),)), ()),
    "no command": (replace(GOOD, command=()), ("command",)),
    "no port": (replace(GOOD, command=("server",)), ("command",)),
    "mistyped": (replace(GOOD, args=("${prot}",)), ("args",)),
    "another tool's spelling": (replace(GOOD, args=("${PORT}",)), ("args",)),
    "mistyped in env": (replace(GOOD, env=(("A", "${modle}"),)), ("env", "A")),
    "weights used but not given": (replace(GOOD, args=("${weights}",)), ("weights",)),
    "health is no path": (replace(GOOD, health_path="health"), ("health",)),
}


@pytest.mark.parametrize("name", FINDINGS)
def test_findings(name: str) -> None:
    spec, path = FINDINGS[name]
    assert [finding.path for finding in ENGINE.check(spec)] == ([path] if path else [])


def test_placeholders_are_filled_and_nothing_else_is_touched() -> None:
    spec = replace(
        GOOD,
        command=(
            sys.executable,
            "a b",
            '{"q": "${model}"}',
            "${port}${port}",
            "$port",
            "${weights}",
            "#x",
            "ü",
        ),
        args=("--port=${port}", "${HOME}", "~"),
        env=(("URL", "http://127.0.0.1:${port}/"), ("PLAIN", "a=b c")),
        weights="/w/my model.gguf",
        cwd="/tmp",
    )
    argv = (sys.executable, "a b", '{"q": "m"}', "1800118001", "$port", "/w/my model.gguf", "#x", "ü")
    assert ENGINE.command(spec, 18001) == Command(
        (*argv, "--port=18001", "${HOME}", "~"), "/tmp", {"URL": "http://127.0.0.1:18001/", "PLAIN": "a=b c"}
    )


def make_program(path: Path, mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return path


def test_a_program_is_found_where_the_process_would_find_it(tmp_path: Path) -> None:
    program = make_program(tmp_path / "bin/my-server")
    relative = replace(GOOD, command=("bin/my-server", "${port}"), cwd=str(tmp_path))
    on_path = replace(GOOD, command=("my-server", "${port}"), env=(("PATH", str(program.parent)),))
    for spec in (relative, on_path):
        assert ENGINE.command(spec, 1).argv == (str(program), "1")
        assert ENGINE.preflight(spec) == Preflight("m")


def test_what_is_missing_is_said_before_anything_is_stopped(tmp_path: Path) -> None:
    make_program(tmp_path / "plain", 0o644)
    (tmp_path / "empty.bin").touch()
    (tmp_path / "folder").mkdir()
    base = replace(GOOD, cwd=str(tmp_path))
    cases = {
        "the program 'no-such-program-x' is not on PATH": replace(base, command=("no-such-program-x",)),
        f"the program {tmp_path}/nothing does not exist": replace(base, command=("./nothing",)),
        f"the program {tmp_path}/plain is not executable": replace(base, command=("./plain",)),
        f"the program {tmp_path}/folder is a directory": replace(base, command=("./folder",)),
        f"the working directory {tmp_path}/gone does not exist": replace(base, cwd=f"{tmp_path}/gone"),
        f"the weights {tmp_path}/gone.bin do not exist": replace(base, weights=f"{tmp_path}/gone.bin"),
        f"the weights file {tmp_path}/empty.bin is empty": replace(base, weights=f"{tmp_path}/empty.bin"),
        f"the weights folder {tmp_path}/folder is empty": replace(base, weights=f"{tmp_path}/folder"),
    }
    found = {ENGINE.preflight(spec).message for spec in cases.values()}
    assert found == set(cases)
    assert all(ENGINE.preflight(spec).reason == Reason.NOT_STARTABLE for spec in cases.values())


LLAMA = {
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "max_position_embeddings": 16384,
    "torch_dtype": "bfloat16",
}
GIB = 1 << 30
MIB = 1 << 20


def test_a_folder_of_safetensors_tells_what_its_size_is_made_of(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", LLAMA, shards=3, elements=GIB)
    spec = replace(GOOD, weights=str(folder), context_tokens=8192)
    found = ENGINE.preflight(spec)
    assert (
        found.message
        == "its weights are 6.0 GiB; with 8192 tokens of context about 7.0 GiB: give memory.steady"
    )
    assert (found.reason, found.steady, found.peak, found.files) == (None, None, None, ())
    assert found.parts is not None
    assert (found.parts.weights, found.parts.context, found.parts.compute) == (6 * GIB, GIB, None)
    assert found.parts.loading == 2 * GIB + -(-6 * GIB // 10)
    assert ENGINE.preflight(replace(spec, weights=str(folder / "model-00001-of-00003.safetensors"))) == found


#: Configuration, tokens, slots, stated bytes a token, and what is said of the context.
HINTS: list[tuple[dict[str, object], int | None, int, int | None, str]] = [
    (LLAMA, 8192, 2, None, "; with 2 x 8192 tokens of context about 4.0 GiB"),
    (LLAMA, None, 1, None, "; with 16384 tokens of context about 4.0 GiB"),
    (LLAMA, 8192, 1, 256 * 1024, "; with 8192 tokens of context about 4.0 GiB"),
    ({}, 8192, 1, 256 * 1024, "; with 8192 tokens of context about 4.0 GiB"),
    ({"model_type": "no such"}, 8192, 1, None, ""),
    ({**LLAMA, "max_position_embeddings": None}, None, 1, None, ""),
]


@pytest.mark.parametrize(("config", "tokens", "slots", "each", "context"), HINTS)
def test_the_hint_says_what_is_known(
    config: dict[str, object], tokens: int | None, slots: int, each: int | None, context: str, tmp_path: Path
) -> None:
    folder = write_model(tmp_path / "m", config, elements=GIB)
    spec = replace(
        GOOD, weights=str(folder), context_tokens=tokens, slots=slots, context_bytes_per_token=each
    )
    assert ENGINE.preflight(spec).message == f"its weights are 2.0 GiB{context}: give memory.steady"


def test_the_weights_of_a_gguf_file_are_told(tmp_path: Path) -> None:
    path = write_llama(tmp_path / "m.gguf")
    found = ENGINE.preflight(replace(GOOD, weights=str(path)))
    assert found.parts is not None
    assert found.parts.weights == find_weights(path).size
    assert found.message.startswith("its weights are ")


def test_damaged_weights_are_said_before_anything_is_stopped(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "parts", LLAMA, shards=3, elements=8)
    (folder / "model-00002-of-00003.safetensors").unlink()
    pointer = tmp_path / "pointer.safetensors"
    pointer.write_text("version https://git-lfs.github.com/spec/v1\n")
    cut = write_model(tmp_path / "cut", LLAMA)
    os.truncate(cut / "model.safetensors", 1 << 20)
    (tmp_path / "cut.gguf").write_bytes(b"GGUF\x03")
    config = write_model(tmp_path / "config")
    (config / "config.json").write_text("{")
    cases = {
        folder: "model-00002-of-00003.safetensors is not there",
        pointer: "Git LFS pointer",
        cut: "is truncated: 1 MiB of 2 MiB are there",
        tmp_path / "cut.gguf": "is truncated",
        config: "config.json is no JSON",
    }
    for path, words in cases.items():
        found = ENGINE.preflight(replace(GOOD, weights=str(path)))
        assert found.reason == Reason.NOT_STARTABLE
        assert words in found.message
        assert str(path) in found.message


def test_weights_of_other_kinds_are_left_to_their_program(tmp_path: Path) -> None:
    (tmp_path / "whisper").mkdir()
    (tmp_path / "whisper/model.bin").write_bytes(b"x")
    (tmp_path / "voice.onnx").write_bytes(b"x")
    for name in ("whisper", "voice.onnx"):
        assert ENGINE.preflight(replace(GOOD, weights=str(tmp_path / name))) == Preflight("m")


def test_a_look_again_reads_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_model(tmp_path / "m", LLAMA, shards=2)
    spec = replace(GOOD, weights=str(folder))
    first = ENGINE.preflight(spec)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", refuse)
        patched.setattr(Path, "read_bytes", refuse)
        assert ENGINE.preflight(spec) == first
    (folder / "model-00002-of-00002.safetensors").unlink()
    assert ENGINE.preflight(spec).reason == Reason.NOT_STARTABLE


def refuse(*args: object, **kwargs: object) -> None:
    raise AssertionError("a file was read")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_weights(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o000)
    assert "cannot be read" in ENGINE.preflight(replace(GOOD, weights=str(closed / "x"))).message


def answering(status: int) -> Callable[[httpx.Request], httpx.Response]:
    return lambda request: httpx.Response(status if request.url.path == "/ready" else 500)


def failing(error: type[httpx.HTTPError]) -> Callable[[httpx.Request], httpx.Response]:
    def handle(request: httpx.Request) -> httpx.Response:
        raise error("no") if not issubclass(error, httpx.RequestError) else error("no", request=request)

    return handle


PROBES = [
    (answering(200), Readiness.READY),
    (answering(204), Readiness.READY),
    (answering(307), Readiness.READY),
    (answering(401), Readiness.READY),
    (answering(403), Readiness.READY),
    (answering(404), Readiness.FAILED),
    (answering(405), Readiness.FAILED),
    (answering(429), Readiness.LOADING),
    (answering(500), Readiness.LOADING),
    (answering(503), Readiness.LOADING),
    (failing(httpx.ConnectError), Readiness.LOADING),
    (failing(httpx.ConnectTimeout), Readiness.LOADING),
    (failing(httpx.ReadTimeout), Readiness.LOADING),
    (failing(httpx.RemoteProtocolError), Readiness.LOADING),
    (failing(httpx.ReadError), Readiness.LOADING),
]


@pytest.mark.anyio
@pytest.mark.parametrize(("handler", "expected"), PROBES)
async def test_probe(handler: Callable[[httpx.Request], httpx.Response], expected: Readiness) -> None:
    spec = replace(GOOD, health_path="/ready")
    async with httpx.AsyncClient(transport=httpx.MockTransport(handler)) as client:
        probe = await ENGINE.probe(spec, "http://127.0.0.1:1", client)
    assert probe.readiness is expected
    if expected is Readiness.FAILED:
        assert "health:" in probe.detail


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (200, Readiness.READY),
        (404, Readiness.READY),  # it need not know this call
        (400, Readiness.READY),
        (401, Readiness.READY),
        (501, Readiness.READY),
        (500, Readiness.FAILED),
        (503, Readiness.LOADING),
        (None, Readiness.LOADING),
    ],
)
async def test_one_that_was_ready_is_asked_more_than_its_health(
    status: int | None, expected: Readiness
) -> None:
    """A call of the usual form; a server that only says that it is well has proved nothing."""
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(f"{request.method} {request.url.path}")
        if request.method == "GET":
            return httpx.Response(200)
        if status is None:
            raise httpx.ReadTimeout("nothing came")
        return httpx.Response(status, json={"error": {"message": "no"}} if status >= 400 else {})

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        found = await ENGINE.prove(GOOD, "http://127.0.0.1:1", client)
    assert found.readiness is expected
    assert asked == ["GET /health", "POST /v1/chat/completions"]


@pytest.mark.anyio
async def test_whose_role_has_no_usual_call_is_believed_its_health() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.method == "GET"
        return httpx.Response(200)

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        spec = replace(GOOD, role=Role.IMAGE)
        assert (await ENGINE.prove(spec, "http://127.0.0.1:1", client)).readiness is Readiness.READY


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (-9, "out of memory"),
        (137, "out of memory"),
        (-4, "another CPU"),
        (132, "another CPU"),
        (-11, "segmentation"),
        (127, "not found"),
        (0, "foreground"),
    ],
)
def test_exit_statuses_with_a_meaning(status: int, words: str) -> None:
    assert words in (ENGINE.explain("", status) or "")


@pytest.mark.parametrize("status", [None, 1, 3, -15])
def test_exit_statuses_without_one(status: int | None) -> None:
    assert ENGINE.explain("anything", status) is None
