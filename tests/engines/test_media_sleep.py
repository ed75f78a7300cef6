"""Memory given back without ending, and work that goes on after the answer: against servers that take their time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from reconciler.core.launch import LaunchSpec, Role, Sleep
from reconciler.engines import registry
from reconciler.engines.base import EngineError, Server, Sleeper
from reconciler.engines.comfyui import FreeMemory
from reconciler.engines.kokoro import Unload
from reconciler.engines.ollama import EndRunner
from scripted_server import CUT, Answer, Scripted, scripted

pytestmark = pytest.mark.anyio

Routes = dict[str, list[Answer]]

GIB = 1 << 30
MANIFEST = "/m/manifests/registry.ollama.ai/library/tiny/1b"
SPEC = LaunchSpec("m", "comfyui", role=Role.IMAGE, sleep=Sleep.DEEP)
OLLAMA = LaunchSpec("m", "ollama", weights=MANIFEST, sleep=Sleep.DEEP)


@asynccontextmanager
async def serving(spec: LaunchSpec, routes: Routes) -> AsyncIterator[tuple[Scripted, Server]]:
    async with httpx.AsyncClient(trust_env=False, verify=False) as client:
        with scripted(routes) as script:
            yield script, Server(spec, script.url, client)


def queue(running: int, pending: int) -> Answer:
    """What ComfyUI's `get_queue_info` says: the number of both."""
    return 200, {"exec_info": {"queue_remaining": running + pending}}


def stats(ram: int, vram: int = 0, kind: str = "mps") -> Answer:
    device = {"type": kind, "vram_free": vram or ram, "torch_vram_free": 0}
    return 200, {"system": {"ram_free": ram, "comfyui_version": "0.19.0"}, "devices": [device]}


async def test_prompts_that_run_and_wait_are_jobs_until_the_queue_is_empty() -> None:
    engine = registry.get("comfyui")
    answers = [queue(1, 3), queue(1, 2), queue(1, 0), queue(0, 0)]
    async with serving(SPEC, {"GET /prompt": answers}) as (_, server):
        assert engine.has_jobs(SPEC)
        assert [await engine.jobs(server) for _ in answers] == [4, 3, 1, 0]


@pytest.mark.parametrize(
    "answer",
    [
        500,
        404,
        CUT,
        (200, []),
        (200, b"<html>"),
        (200, {"exec_info": {"queue_remaining": "3"}}),
        (200, {"exec_info": []}),
    ],
)
async def test_an_answer_that_says_no_number_is_no_number_of_jobs(answer: Answer) -> None:
    async with serving(SPEC, {"GET /prompt": [answer]}) as (_, server):
        assert await registry.get("comfyui").jobs(server) is None


@pytest.mark.parametrize("name", ["faster-whisper", "kokoro", "ollama", "sd.cpp", "whisper.cpp"])
async def test_others_are_done_when_they_have_answered(name: str) -> None:
    async with serving(SPEC, {}) as (script, server):
        assert not registry.get(name).has_jobs(SPEC)
        assert await registry.get(name).jobs(server) is None
        assert script.requests == []


async def test_comfyui_sleeps_when_its_memory_has_come_back_and_no_sooner() -> None:
    looks: list[Answer] = [
        stats(4 * GIB),
        stats(4 * GIB),
        stats(4 * GIB),
        stats(9 * GIB),
        stats(12 * GIB),
        stats(12 * GIB),
    ]
    routes: Routes = {"GET /prompt": [queue(0, 0)], "POST /free": [(200, b"")], "GET /system_stats": looks}
    async with serving(SPEC, routes) as (script, server):
        await FreeMemory(patience=30, pause=0.001).sleep(server)
        assert script.bodies("POST /free") == [{"unload_models": True, "free_memory": True}]
        assert len(script.asked("GET /system_stats")) == len(looks)
        order = [request.route for request in script.requests]
    assert order[:3] == ["GET /prompt", "GET /system_stats", "POST /free"]


async def test_memory_of_a_gpu_of_its_own_counts() -> None:
    looks: list[Answer] = [
        stats(4 * GIB, 2 * GIB, "cuda"),
        stats(4 * GIB, 14 * GIB, "cuda"),
        stats(4 * GIB, 14 * GIB, "cuda"),
    ]
    routes: Routes = {"GET /prompt": [queue(0, 0)], "POST /free": [200], "GET /system_stats": looks}
    async with serving(SPEC, routes) as (script, server):
        await FreeMemory(patience=30, pause=0.001).sleep(server)
        assert len(script.asked("GET /system_stats")) == len(looks)


async def test_memory_that_never_comes_back_is_said() -> None:
    looks: list[Answer] = [stats(4 * GIB), stats(4 * GIB + (1 << 20))]
    routes: Routes = {"GET /prompt": [queue(0, 0)], "POST /free": [200], "GET /system_stats": looks}
    async with serving(SPEC, routes) as (script, server):
        with pytest.raises(EngineError, match=r"in 0\.2 s none came back"):
            await FreeMemory(patience=0.2, pause=0.01).sleep(server)
        assert len(script.bodies("POST /free")) == 1


async def test_memory_that_is_still_coming_back_at_the_end_of_patience_is_enough() -> None:
    growing: list[Answer] = [stats(4 * GIB), *(stats((5 + i) * GIB) for i in range(4000))]
    routes: Routes = {"GET /prompt": [queue(0, 0)], "POST /free": [200], "GET /system_stats": growing}
    async with serving(SPEC, routes) as (_, server):
        await FreeMemory(patience=0.2, pause=0.001).sleep(server)


async def test_comfyui_is_not_asked_between_prompts() -> None:
    async with serving(SPEC, {"GET /prompt": [queue(0, 1)], "POST /free": [200]}) as (script, server):
        with pytest.raises(EngineError, match="only between them"):
            await FreeMemory().sleep(server)
        assert script.asked("POST /free") == []


async def test_waking_comfyui_asks_nothing() -> None:
    sleeper = registry.get("comfyui").sleeper(SPEC)
    async with serving(SPEC, {}) as (script, server):
        assert sleeper is not None
        await sleeper.wake(server)
        assert script.requests == []


async def test_kokoro_drops_its_model_and_says_why_it_did_not() -> None:
    spec = LaunchSpec("m", "kokoro", role=Role.TTS, sleep=Sleep.LIGHT)
    refused: Answer = (403, {"detail": {"error": "The /dev/unload endpoint is disabled"}})
    async with serving(spec, {"POST /dev/unload": [(200, {"status": "unloaded"}), refused, CUT]}) as (
        _,
        server,
    ):
        sleeper = Unload()
        await sleeper.sleep(server)
        await sleeper.wake(server)
        with pytest.raises(EngineError, match="403: The /dev/unload endpoint is disabled"):
            await sleeper.sleep(server)
        with pytest.raises(EngineError, match="got no answer"):
            await sleeper.sleep(server)


def ollama_routes(*ps: Answer, generate: Answer = 200) -> Routes:
    return {"GET /api/ps": list(ps), "POST /api/generate": [generate]}


LOADED: Answer = (200, {"models": [{"name": "tiny:1b", "size": 7}]})


async def test_ollama_sleeps_when_its_runner_is_gone_and_wakes_by_a_first_word() -> None:
    sleeper = EndRunner(patience=30, pause=0.001)
    async with serving(OLLAMA, ollama_routes(LOADED, LOADED, (200, {"models": []}))) as (script, server):
        await sleeper.sleep(server)
        assert len(script.asked("GET /api/ps")) == 3
        await sleeper.wake(server)
        asleep, awake = script.bodies("POST /api/generate")
    assert asleep == {"model": "tiny:1b", "keep_alive": 0}
    assert (awake["model"], awake["prompt"], awake["options"]) == ("tiny:1b", "a", {"num_predict": 1})


async def test_a_runner_that_stays_is_said() -> None:
    async with serving(OLLAMA, ollama_routes(LOADED)) as (_, server):
        with pytest.raises(EngineError, match=r"asked to unload tiny:1b, and after 0\.1 s it had not"):
            await EndRunner(patience=0.1, pause=0.01).sleep(server)


async def test_ollama_that_does_not_load_again_is_said() -> None:
    routes = ollama_routes(LOADED, generate=(500, {"error": "model requires more system memory"}))
    async with serving(OLLAMA, routes) as (_, server):
        with pytest.raises(EngineError, match=r"does not load tiny:1b again: .*more system memory"):
            await EndRunner().wake(server)


SLEEPERS = {"comfyui": FreeMemory, "kokoro": Unload, "ollama": EndRunner}


@pytest.mark.parametrize("name", ["comfyui", "faster-whisper", "kokoro", "ollama", "sd.cpp", "whisper.cpp"])
def test_who_can_sleep(name: str) -> None:
    found: Sleeper | None = registry.get(name).sleeper(SPEC)
    expected = SLEEPERS.get(name)
    assert found is None if expected is None else isinstance(found, expected)
