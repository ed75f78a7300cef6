"""Speech, images, Ollama: from a closed port to ready, what is asked for it, and what is a failure for good."""

from pathlib import Path

import httpx
import pytest

from reconciler.core.launch import LaunchSpec, Role
from reconciler.engines import registry
from reconciler.engines.base import Probe, Readiness
from scripted_server import Answer, Scripted, scripted
from support import free_port

pytestmark = pytest.mark.anyio

MANIFEST = "/m/manifests/registry.ollama.ai/library/tiny/1b"
LOADING, READY, FAILED = Readiness.LOADING, Readiness.READY, Readiness.FAILED


async def probe(name: str, role: Role, url: str) -> Probe:
    spec = LaunchSpec("m", name, role=role, weights=MANIFEST)
    async with httpx.AsyncClient(trust_env=False, verify=False) as client:
        return await registry.get(name).probe(spec, url, client)


#: Engine and role, health address, the call, an answer that is good, one that is bad for good, and what is said.
CASES: list[tuple[str, Role, str, str, object, Answer, str]] = [
    (
        "whisper.cpp", Role.ASR, "/health", "/v1/audio/transcriptions", {"text": ""},
        (400, {"error": "failed to read audio data"}), "failed to read audio data",
    ),
    (
        "faster-whisper", Role.ASR, "/health", "/v1/audio/transcriptions", {"text": ""},
        (400, {"detail": {"error": {"message": "Repo id must be in the form"}}}), "Repo id must be",
    ),
    (
        "sd.cpp", Role.IMAGE, "/v1/models", "/v1/images/generations", {"data": [{"b64_json": ""}]},
        (500, {"error": "generate_image returned no results"}), "no results",
    ),
    (
        "kokoro", Role.TTS, "/health", "/v1/audio/speech", b"RIFF",
        (400, {"detail": {"error": "validation_error", "message": "Voice 'af_heart' not found"}}), "validation_error",
    ),
    (
        "ollama", Role.CHAT, "/api/version", "/api/generate", {"done": True},
        (404, {"error": "model 'tiny:1b' not found"}), "model 'tiny:1b' not found",
    ),
    (
        "ollama", Role.EMBEDDING, "/api/version", "/api/embed", {"embeddings": [[0.5]]},
        (500, {"error": "llama runner process has terminated"}), "has terminated",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "role", "health", "path", "good", "bad", "words"), CASES, ids=[f"{c[0]}-{c[1]}" for c in CASES]
)
async def test_ready_is_a_call_that_worked(
    name: str, role: Role, health: str, path: str, good: object, bad: Answer, words: str
) -> None:
    call = f"POST {path}"
    routes: dict[str, list[Answer]] = {f"GET {health}": [503, 200], call: [503, (200, good), bad]}
    with scripted(routes) as server:
        assert (await probe(name, role, server.url)).readiness is LOADING
        assert server.asked(call) == []
        assert [(await probe(name, role, server.url)).readiness for _ in range(2)] == [LOADING, READY]
        failed = await probe(name, role, server.url)
    assert failed.readiness is FAILED
    assert words in failed.detail


@pytest.mark.parametrize(("name", "role"), [(case[0], case[1]) for case in CASES] + [("comfyui", Role.IMAGE)])
async def test_a_closed_port_is_a_server_that_is_not_there_yet(name: str, role: Role) -> None:
    assert (await probe(name, role, f"http://127.0.0.1:{free_port()}")).readiness is LOADING


async def test_comfyui_is_ready_with_its_statistics() -> None:
    with scripted({"GET /system_stats": [500, (200, {"devices": []}), 404]}) as server:
        found = [(await probe("comfyui", Role.IMAGE, server.url)).readiness for _ in range(3)]
        assert found == [LOADING, READY, FAILED]
        assert {request.route for request in server.requests} == {"GET /system_stats"}


def form(server: Scripted, route: str) -> bytes:
    return server.asked(route)[-1].body


async def test_whisper_cpp_is_given_more_than_the_second_below_which_it_computes_nothing() -> None:
    with scripted({"GET /health": [200], "POST /v1/audio/transcriptions": [200]}) as server:
        await probe("whisper.cpp", Role.ASR, server.url)
        body = form(server, "POST /v1/audio/transcriptions")
    assert b"RIFF" in body
    assert len(body) > 2 * 16_000


async def test_what_is_asked_names_the_model_as_the_server_knows_it() -> None:
    routes: dict[str, list[Answer]] = {
        route: [200]
        for route in (
            "GET /api/version", "GET /health", "GET /v1/models", "POST /api/generate", "POST /v1/audio/speech",
            "POST /v1/audio/transcriptions", "POST /v1/images/generations",
        )
    }  # fmt: skip
    with scripted(routes) as server:
        await probe("ollama", Role.CHAT, server.url)
        await probe("kokoro", Role.TTS, server.url)
        await probe("sd.cpp", Role.IMAGE, server.url)
        await probe("faster-whisper", Role.ASR, server.url)
        (word,) = server.bodies("POST /api/generate")
        (speech,) = server.bodies("POST /v1/audio/speech")
        (picture,) = server.bodies("POST /v1/images/generations")
        heard = form(server, "POST /v1/audio/transcriptions")
    assert (word["model"], word["stream"], word["options"]) == ("tiny:1b", False, {"num_predict": 1})
    assert (speech["model"], speech["response_format"]) == ("kokoro", "wav")
    assert (picture["size"], picture["n"]) == ("64x64", 1)
    assert '"sample_steps": 1' in picture["prompt"]
    assert b"whisper-1" in heard


SERVED = {
    ("whisper.cpp", Role.ASR): {"/v1/audio/transcriptions"},
    ("faster-whisper", Role.ASR): {"/v1/audio/transcriptions", "/v1/audio/translations"},
    ("sd.cpp", Role.IMAGE): {"/v1/images/generations", "/v1/images/edits"},
    ("kokoro", Role.TTS): {"/v1/audio/speech"},
    ("comfyui", Role.IMAGE): set(),
    ("ollama", Role.EMBEDDING): {"/v1/embeddings"},
    ("ollama", Role.CHAT): {"/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses"},
}


@pytest.mark.parametrize(("name", "role"), SERVED)
def test_the_paths_that_answer(name: str, role: Role) -> None:
    assert registry.get(name).serves(LaunchSpec("m", name, role=role)) == frozenset(SERVED[name, role])


PARALLEL = {"whisper.cpp": 2, "faster-whisper": 2, "sd.cpp": 2, "kokoro": 2, "comfyui": None, "ollama": 4}


@pytest.mark.parametrize("name", PARALLEL)
def test_requests_at_once(name: str) -> None:
    assert registry.get(name).parallel(LaunchSpec("m", name, slots=3)) == PARALLEL[name]


def test_names_of_ollamas_models() -> None:
    names = {
        "library/gemma3/4b": "gemma3:4b",
        "someone/model/latest": "someone/model:latest",
        "../hf.co/someone/Model-GGUF/Q4_K_M": "hf.co/someone/Model-GGUF:Q4_K_M",
    }
    found = {}
    for path in names:
        weights = Path("/m/manifests/registry.ollama.ai", path)
        real = str(weights).replace("registry.ollama.ai/../", "")
        found[path] = registry.get("ollama").upstream_model(LaunchSpec("m", "ollama", weights=real))
    assert found == names
