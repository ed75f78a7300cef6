"""Pictures, adapters and a draft model on the real embedded server, by keys of the manifest."""

import base64
import os
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from random_gguf import RandomModel, write_random
from raw_gguf import RawTensor, string, whole
from reconciler.core.launch import Device, LaunchSpec, LoraAdapter, Role
from reconciler.core.types import Reason
from reconciler.engines import registry
from reconciler.engines.base import Probe, Readiness
from tiny_further import png, write_adapter, write_projector
from tiny_gguf import write_llama

pytest.importorskip("xllamacpp")
pytestmark = [pytest.mark.anyio, pytest.mark.engine]

ENGINE = registry.get("llama.cpp")
DEADLINE = 30.0


@pytest.fixture(autouse=True)
def no_server_on_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> LaunchSpec:
    weights = write_llama(tmp_path_factory.mktemp("weights") / "model.gguf")
    return LaunchSpec(
        "m", "llama.cpp", weights=str(weights), context_tokens=512, cwd="/", device=Device(threads=1)
    )


def launched(spec: LaunchSpec, log: Path) -> tuple["subprocess.Popen[bytes]", str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
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
    return process, f"http://127.0.0.1:{port}"


def said(log: Path) -> str:
    return log.read_text(errors="replace")


async def settled(
    spec: LaunchSpec, url: str, client: httpx.AsyncClient, process: "subprocess.Popen[bytes]"
) -> Probe:
    """Probe until the server is ready, has failed, or its process has ended."""
    with anyio.fail_after(DEADLINE):
        while True:
            probe = await ENGINE.probe(spec, url, client)
            if probe.readiness is not Readiness.LOADING or process.poll() is not None:
                return probe
            await anyio.sleep(0.02)


@asynccontextmanager
async def ready(spec: LaunchSpec, log: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a started server that has proved to work."""
    found = ENGINE.preflight(spec)
    assert found.reason is None, found.message
    process, url = launched(spec, log)
    try:
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=DEADLINE) as client:
            probe = await settled(spec, url, client, process)
            assert probe.readiness is Readiness.READY, (probe, said(log))
            yield client
    finally:
        process.kill()
        process.wait(DEADLINE)


async def ended(spec: LaunchSpec, log: Path) -> str:
    """Return why a server ended that cannot load what it is given."""
    process, _ = launched(spec, log)
    status = await anyio.to_thread.run_sync(process.wait, DEADLINE)
    assert status == 1
    why = ENGINE.explain(said(log), status)
    assert why is not None, said(log)
    return why


async def completed(client: httpx.AsyncClient) -> dict[str, Any]:
    body = {"prompt": "abc", "n_predict": 12, "temperature": 0, "ignore_eos": True}
    answer = await client.post("/completion", json=body)
    assert answer.status_code == 200, answer.text
    result: dict[str, Any] = answer.json()
    return result


async def looked(client: httpx.AsyncClient, picture: bytes | None) -> tuple[int, list[float]]:
    """Return the tokens of a prompt, with a picture in it, and how likely what is answered was."""
    content: list[dict[str, Any]] = [{"type": "text", "text": "hi"}]
    if picture is not None:
        url = "data:image/png;base64," + base64.b64encode(picture).decode()
        content.append({"type": "image_url", "image_url": {"url": url}})
    body = {"messages": [{"role": "user", "content": content}], "max_tokens": 4, "temperature": 0}
    answer = await client.post("/v1/chat/completions", json={**body, "logprobs": True, "ignore_eos": True})
    assert answer.status_code == 200, answer.text
    result = answer.json()
    chances = [token["logprob"] for token in result["choices"][0]["logprobs"]["content"]]
    return result["usage"]["prompt_tokens"], chances


@pytest.mark.parametrize("gpus", [None, ()])
async def test_a_model_with_a_projector_sees(
    spec: LaunchSpec, tmp_path: Path, gpus: tuple[str, ...] | None
) -> None:
    projector = write_projector(tmp_path / "see.gguf")
    spec = replace(spec, role=Role.VISION, projector=str(projector), device=Device(gpus=gpus, threads=1))
    async with ready(spec, tmp_path / "log") as client:
        blind, _ = await looked(client, None)
        seen, red = await looked(client, png(255, 0, 0))
        _, blue = await looked(client, png(0, 0, 255))
    assert seen > blind
    assert red != blue


async def test_adapters_change_what_is_answered_by_their_scale(spec: LaunchSpec, tmp_path: Path) -> None:
    path = str(write_adapter(tmp_path / "adapter.gguf"))
    answers, scales = [], []
    for adapters in ((), (LoraAdapter(path),), (LoraAdapter(path, 0.25),)):
        async with ready(replace(spec, adapters=adapters), tmp_path / "log") as client:
            answers.append((await completed(client))["content"])
            listed = (await client.get("/lora-adapters")).json()
            scales.append([adapter["scale"] for adapter in listed])
    assert scales == [[], [1.0], [0.25]]
    assert len(set(answers)) == 3


async def test_a_draft_model_guesses_ahead(spec: LaunchSpec, tmp_path: Path) -> None:
    async with ready(spec, tmp_path / "log") as client:
        alone = await completed(client)
    async with ready(replace(spec, draft=spec.weights), tmp_path / "log") as client:
        helped = await completed(client)
    assert "draft_n" not in alone["timings"]
    assert helped["timings"]["draft_n"] > 0
    assert helped["tokens_predicted"] == alone["tokens_predicted"] == 12


@pytest.mark.parametrize(("kind", "arch"), [(31, "llama"), (77, "llama"), (0, "brandnew9")])
async def test_what_is_refused_beforehand_would_have_failed(tmp_path: Path, kind: int, arch: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(whole({"general.architecture": string(arch)}, [RawTensor("t", (256,), kind)], data=4096))
    spec = LaunchSpec("m", "llama.cpp", weights=str(path), context_tokens=64, cwd="/")
    assert ENGINE.preflight(spec).reason == Reason.NOT_STARTABLE
    assert await ended(spec, tmp_path / "log")


@pytest.mark.parametrize(("embd", "layers", "words"), [(128, 2, "another shape"), (64, 5, "does not have")])
async def test_an_adapter_of_another_model_is_refused_as_the_server_would(
    spec: LaunchSpec, tmp_path: Path, embd: int, layers: int, words: str
) -> None:
    path = write_adapter(tmp_path / "adapter.gguf", embd=embd, layers=layers)
    spec = replace(spec, adapters=(LoraAdapter(str(path)),))
    found = ENGINE.preflight(spec)
    assert found.reason == Reason.NOT_STARTABLE
    assert words in found.message
    assert "an adapter is for another model" in await ended(spec, tmp_path / "log")


async def test_a_projector_of_another_model_is_named(spec: LaunchSpec, tmp_path: Path) -> None:
    path = write_projector(tmp_path / "see.gguf", embd=128)
    why = await ended(replace(spec, projector=str(path)), tmp_path / "log")
    assert why == "the projector is for another model: it makes vectors of 128 numbers, this one takes 64"


@pytest.mark.parametrize("merges", [True, False])
async def test_a_draft_model_of_another_vocabulary_is_noted_and_really_not_used(
    spec: LaunchSpec, tmp_path: Path, merges: bool
) -> None:
    other = RandomModel("other", layers=1, embd=64, ffn=64, vocab=2000, merges=merges)
    spec = replace(spec, draft=str(write_random(other, tmp_path)))
    (note,) = ENGINE.preflight(spec).notes
    assert "is loaded and not used" in note
    async with ready(spec, tmp_path / "log") as client:
        assert "draft_n" not in (await completed(client))["timings"]
