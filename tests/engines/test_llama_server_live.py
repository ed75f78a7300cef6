"""The embedded llama.cpp server for real: started from the engine's own command line, asked, measured, ended."""

import os
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import httpx
import pytest

from reconciler.core.launch import LaunchSpec, LoadMode, Role
from reconciler.engines import registry
from reconciler.engines.base import Probe, Readiness
from reconciler.memory.linux import LinuxMachine
from reconciler.memory.probe import Held
from tiny_gguf import context_bytes_per_token, write_llama

pytest.importorskip("xllamacpp")
pytestmark = [pytest.mark.anyio, pytest.mark.engine]

ENGINE = registry.get("llama.cpp")
DEADLINE = 30.0
MIB = 1024 * 1024


@pytest.fixture(autouse=True)
def no_server_on_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The embedded server is what is tested, whatever the machine has."""
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("weights") / "model.gguf")


@dataclass(frozen=True)
class Running:
    """A started server and where its output goes."""

    process: subprocess.Popen[bytes]
    url: str
    log: Path

    def said(self) -> str:
        return self.log.read_text(errors="replace")


def cut_short(path: Path, target: Path) -> Path:
    target.write_bytes(path.read_bytes()[:-50_000])
    return target


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def started(spec: LaunchSpec, log: Path) -> Iterator[Running]:
    port = free_port()
    command = ENGINE.command(spec, port)
    with log.open("wb") as out:
        process = subprocess.Popen(
            command.argv,
            cwd=command.cwd,
            env={**os.environ, **command.env},
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        yield Running(process, f"http://127.0.0.1:{port}", log)
    finally:
        process.kill()
        process.wait(DEADLINE)


async def until_settled(running: Running, spec: LaunchSpec, client: httpx.AsyncClient) -> Probe:
    """Probe until the server is ready, has failed, or its process has ended."""
    with anyio.fail_after(DEADLINE):
        while True:
            probe = await ENGINE.probe(spec, running.url, client)
            if probe.readiness is not Readiness.LOADING or running.process.poll() is not None:
                return probe
            await anyio.sleep(0.01)


@asynccontextmanager
async def ready(spec: LaunchSpec, log: Path) -> AsyncIterator[tuple[Running, httpx.AsyncClient]]:
    with started(spec, log) as running:
        async with httpx.AsyncClient(trust_env=False, timeout=DEADLINE) as client:
            probe = await until_settled(running, spec, client)
            assert probe.readiness is Readiness.READY, (probe, running.said())
            yield running, client


async def test_it_answers_and_ends_at_once(weights: Path, tmp_path: Path) -> None:
    spec = LaunchSpec("m", "llama.cpp", weights=str(weights), context_tokens=256, cwd=str(tmp_path))
    assert ENGINE.preflight(spec).reason is None
    async with ready(spec, tmp_path / "log") as (running, client):
        chat = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 5, "ignore_eos": True}
        answer = await client.post(running.url + "/v1/chat/completions", json=chat)
        assert answer.status_code == 200
        assert answer.json()["usage"]["completion_tokens"] == 5
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(DEADLINE) == -signal.SIGTERM
        assert (await ENGINE.probe(spec, running.url, client)).readiness is Readiness.LOADING


async def test_each_slot_has_the_whole_context(weights: Path, tmp_path: Path) -> None:
    spec = LaunchSpec("m", "llama.cpp", weights=str(weights), context_tokens=256, slots=2, cwd="/")
    async with ready(spec, tmp_path / "log") as (running, client):
        slots = (await client.get(running.url + "/slots")).json()
        assert [slot["n_ctx"] for slot in slots] == [256, 256]
        long = {"prompt": "x" * 400, "max_tokens": 1}
        answer = await client.post(running.url + "/v1/completions", json=long)
        assert answer.status_code == 400
        assert answer.json()["error"]["type"] == "exceed_context_size_error"


async def test_a_request_in_flight_does_not_hold_up_the_end(weights: Path, tmp_path: Path) -> None:
    spec = LaunchSpec("m", "llama.cpp", weights=str(weights), context_tokens=4096, cwd="/")
    async with ready(spec, tmp_path / "log") as (running, client):
        endless = {"prompt": "a", "max_tokens": 3000, "ignore_eos": True, "stream": True}
        async with client.stream("POST", running.url + "/v1/completions", json=endless) as stream:
            await anext(stream.aiter_bytes())
            running.process.send_signal(signal.SIGTERM)
            assert running.process.wait(5) == -signal.SIGTERM


async def test_embeddings(weights: Path, tmp_path: Path) -> None:
    spec = LaunchSpec(
        "m",
        "llama.cpp",
        weights=str(weights),
        role=Role.EMBEDDING,
        context_tokens=600,
        args=("--pooling", "mean"),
        cwd="/",
    )
    async with ready(spec, tmp_path / "log") as (running, client):
        # Longer than the engine's own default batch: our settings make room for the whole context.
        answer = await client.post(running.url + "/v1/embeddings", json={"input": "x" * 560})
        assert answer.status_code == 200
        assert len(answer.json()["data"][0]["embedding"]) == 64


async def test_a_server_that_cannot_do_its_role_has_failed(weights: Path, tmp_path: Path) -> None:
    spec = LaunchSpec("m", "llama.cpp", weights=str(weights), role=Role.EMBEDDING, cwd="/")
    with started(spec, tmp_path / "log") as running:
        async with httpx.AsyncClient(trust_env=False, timeout=DEADLINE) as client:
            probe = await until_settled(running, spec, client)
    assert probe.readiness is Readiness.FAILED
    assert "--pooling" in probe.detail


@pytest.mark.parametrize(("mode", "mapped"), [(LoadMode.MMAP, True), (LoadMode.NONE, False)])
async def test_where_the_weights_lie(tmp_path: Path, mode: LoadMode, mapped: bool) -> None:
    path = write_llama(tmp_path / "model.gguf", pad_mib=60)
    spec = LaunchSpec(
        "m",
        "llama.cpp",
        weights=str(path),
        context_tokens=256,
        load_mode=mode,
        context_bytes_per_token=context_bytes_per_token(pad_mib=60),
        cwd="/",
    )
    async with ready(spec, tmp_path / "log") as (running, _):
        trees = {"m": [running.process.pid]}
        held = (await anyio.to_thread.run_sync(LinuxMachine().held, trees, 0.0))["m"]
    expected = ENGINE.preflight(spec).steady
    check_sizes(held, expected, mapped=mapped)


def check_sizes(held: Held, expected: int | None, *, mapped: bool) -> None:
    assert held.committed is not None
    assert held.warm is not None
    assert expected is not None
    if mapped:
        assert held.committed < 45 * MIB <= held.warm
    else:
        assert held.warm < 15 * MIB
        assert held.committed > 60 * MIB
    # The estimate covers what is really held.
    assert held.committed + held.warm <= expected


async def test_damaged_weights_end_the_process_with_a_known_reason(weights: Path, tmp_path: Path) -> None:
    cut = cut_short(weights, tmp_path / "cut.gguf")
    spec = LaunchSpec("m", "llama.cpp", weights=str(cut), cwd="/")
    with started(spec, tmp_path / "log") as running:
        status = running.process.wait(DEADLINE)
        log = running.said()
    assert status == 1
    assert "truncated or damaged" in (ENGINE.explain(log, status) or log)


async def test_an_unknown_flag_ends_the_process_with_its_name(weights: Path, tmp_path: Path) -> None:
    spec = LaunchSpec("m", "llama.cpp", weights=str(weights), args=("--prot", "1"), cwd="/")
    with started(spec, tmp_path / "log") as running:
        status = running.process.wait(DEADLINE)
        log = running.said()
    assert status == 2
    assert ENGINE.explain(log, status) == "unknown flag --prot; the nearest is --port"


async def test_a_module_in_the_working_directory_shadows_nothing(weights: Path, tmp_path: Path) -> None:
    (tmp_path / "signal.py").write_text("raise SystemExit(9)\n")
    (tmp_path / "reconciler").mkdir()
    spec = LaunchSpec("m", "llama.cpp", weights=str(weights), context_tokens=64, cwd=str(tmp_path))
    async with ready(spec, tmp_path / "log") as (running, _):
        assert running.process.poll() is None
