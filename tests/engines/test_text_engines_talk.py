"""Engines for text against servers that answer as theirs do: becoming ready, failing, counting, sleeping, waking."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from reconciler.core.launch import LoraAdapter, Role, Sleep
from reconciler.engines import registry
from reconciler.engines.base import EngineError, Readiness, Server
from scripted_server import CUT, Answer, Scripted, scripted
from text_engines import bare

pytestmark = pytest.mark.anyio

CHOICES: Answer = (200, {"choices": [{"text": "a"}]})
VECTOR: Answer = (200, {"data": [{"embedding": [0.1]}]})
COMPLETIONS = "POST /v1/completions"
CHAT = "POST /v1/chat/completions"


async def probe(name: str, server: Scripted, root: Path, **changes: Any) -> Readiness:
    async with httpx.AsyncClient(trust_env=False, verify=False) as client:
        found = await registry.get(name).probe(bare(name, root, **changes), server.url, client)
    return found.readiness


@pytest.mark.parametrize(
    ("name", "role", "route", "answer", "asked"),
    [
        ("mlx", Role.CHAT, COMPLETIONS, CHOICES, "default_model"),
        ("mlx-vlm", Role.VISION, CHAT, CHOICES, "WEIGHTS"),
        ("mlx-vlm", Role.EMBEDDING, "POST /v1/embeddings", VECTOR, "WEIGHTS"),
        ("vllm", Role.CHAT, CHAT, CHOICES, "m"),
        ("vllm", Role.RERANK, "POST /v1/rerank", (200, {"results": []}), "m"),
        ("sglang", Role.COMPLETION, COMPLETIONS, CHOICES, "m"),
        ("transformers", Role.CHAT, COMPLETIONS, CHOICES, "WEIGHTS"),
        ("tei", Role.EMBEDDING, "POST /v1/embeddings", VECTOR, "m"),
        ("tei", Role.RERANK, "POST /rerank", (200, [{"index": 0, "score": 0.1}]), None),
        ("infinity", Role.EMBEDDING, "POST /v1/embeddings", VECTOR, "m"),
        ("infinity", Role.CLASSIFY, "POST /v1/classify", (200, {"data": []}), "m"),
    ],
)
async def test_ready_means_that_a_real_call_worked(
    name: str, role: Role, route: str, answer: Answer, asked: str | None, tmp_path: Path
) -> None:
    with scripted({"GET /health": [200], route: [(503, {"detail": "soon"}), answer]}) as server:
        assert await probe(name, server, tmp_path, role=role) is Readiness.LOADING
        assert await probe(name, server, tmp_path, role=role) is Readiness.READY
        model = server.bodies(route)[-1].get("model")
    assert model == (str(tmp_path / "weights") if asked == "WEIGHTS" else asked)


@pytest.mark.parametrize("name", ["infinity", "mlx", "mlx-vlm", "sglang", "tei", "transformers", "vllm"])
async def test_a_closed_port_is_a_load_that_goes_on(name: str, tmp_path: Path) -> None:
    with scripted({}) as server:
        pass
    assert await probe(name, server, tmp_path) is Readiness.LOADING


@pytest.mark.parametrize(
    ("name", "readiness"),
    [
        ("mlx", Readiness.FAILED),
        ("vllm", Readiness.FAILED),
        ("sglang", Readiness.LOADING),
        ("tei", Readiness.LOADING),
    ],
)
async def test_what_503_means_depends_on_the_server(name: str, readiness: Readiness, tmp_path: Path) -> None:
    with scripted({"GET /health": [(503, {"status": "unavailable"})]}) as server:
        assert await probe(name, server, tmp_path) is readiness
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [400, 404, 500])
async def test_a_refused_call_is_a_failure(status: int, tmp_path: Path) -> None:
    routes: dict[str, list[Answer]] = {"GET /health": [200], COMPLETIONS: [(status, {"detail": "no"})]}
    with scripted(routes) as server:
        assert await probe("transformers", server, tmp_path) is Readiness.FAILED


async def test_a_call_that_is_broken_off_twice_is_a_failure(tmp_path: Path) -> None:
    with scripted({"GET /health": [200], COMPLETIONS: [CUT]}) as server:
        assert await probe("mlx", server, tmp_path) is Readiness.FAILED
        server.set(COMPLETIONS, CUT, CHOICES)
        assert await probe("mlx", server, tmp_path) is Readiness.READY


@pytest.mark.parametrize(
    ("name", "changes", "name_asked"),
    [
        ("vllm", {"adapters": (LoraAdapter("/lora"),)}, "m"),
        ("sglang", {"adapters": (LoraAdapter("/lora"),)}, "m:adapter"),
    ],
)
def test_with_an_adapter_the_model_is_both_together(
    name: str, changes: dict[str, Any], name_asked: str, tmp_path: Path
) -> None:
    engine, spec = registry.get(name), bare(name, tmp_path, **changes)
    assert engine.upstream_model(spec) == name_asked
    argv = " ".join(engine.command(spec, 1).argv)
    assert "--served-model-name m-base --" in argv or "--lora-paths adapter=/lora" in argv
    assert name != "vllm" or "--lora-modules m=/lora" in argv


@pytest.mark.parametrize(
    ("path", "body", "asked"),
    [
        (
            "/v1/chat/completions",
            {"model": "x", "messages": [{"role": "user", "content": "hi"}], "tools": [{}], "stream": True},
            {"model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": [{}]},
        ),
        ("/v1/completions", {"prompt": "hi", "n": 2}, {"model": "m", "prompt": "hi"}),
        ("/v1/completions", {"prompt": ["hi", "ho"]}, None),
        ("/v1/responses", {"input": "hi"}, None),
    ],
)
async def test_vllm_counts_tokens(
    path: str, body: dict[str, object], asked: dict[str, object] | None, tmp_path: Path
) -> None:
    with scripted({"POST /tokenize": [(200, {"count": 7, "max_model_len": 9, "tokens": []})]}) as server:
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            spec = bare("vllm", tmp_path, args=("--api-key", "k"))
            count = await registry.get("vllm").count_tokens(spec, server.url, path, body, client)
    assert count == (7 if asked else None)
    assert server.bodies("POST /tokenize") == ([asked] if asked else [])
    assert all(request.headers["authorization"] == "Bearer k" for request in server.requests)


@pytest.mark.parametrize("answer", [CUT, (500, {}), (200, {"count": "7"}), (200, b"seven"), (200, [7])])
async def test_a_count_that_goes_wrong_is_none(answer: Answer, tmp_path: Path) -> None:
    with scripted({"POST /tokenize": [answer]}) as server:
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            spec, body = bare("vllm", tmp_path), {"prompt": "a"}
            found = await registry.get("vllm").count_tokens(spec, server.url, "/v1/completions", body, client)
    assert found is None


SLEEPS = {
    ("vllm", Sleep.LIGHT): (["POST /sleep?level=1"], ["POST /wake_up"]),
    ("vllm", Sleep.DEEP): (
        ["POST /sleep?level=2"],
        [
            "POST /wake_up?tags=weights",
            'POST /collective_rpc {"method":"reload_weights"}',
            "POST /wake_up?tags=kv_cache",
        ],
    ),
    ("sglang", Sleep.LIGHT): (["POST /release_memory_occupation"], ["POST /resume_memory_occupation"]),
    ("sglang", Sleep.DEEP): (
        ["POST /release_memory_occupation"],
        ["POST /resume_memory_occupation", 'POST /update_weights_from_disk {"model_path":"WEIGHTS"}'],
    ),
}


@pytest.mark.parametrize(("name", "depth"), sorted(SLEEPS))
async def test_falling_asleep_and_waking(name: str, depth: Sleep, tmp_path: Path) -> None:
    spec = bare(name, tmp_path, sleep=depth)
    sleeper = registry.get(name).sleeper(spec)
    assert sleeper is not None
    paths = ["sleep", "wake_up", "collective_rpc", "update_weights_from_disk"]
    paths += ["release_memory_occupation", "resume_memory_occupation"]
    with scripted({f"POST /{path}": [200] for path in paths}) as server:
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            running = Server(spec, server.url, client, key="k")
            await sleeper.sleep(running)
            asleep = len(server.requests)
            await sleeper.wake(running)
    shown = [_shown(request, spec.weights or "") for request in server.requests]
    assert (shown[:asleep], shown[asleep:]) == SLEEPS[name, depth]
    assert all(request.headers["authorization"] == "Bearer k" for request in server.requests)


def _shown(request: Any, weights: str) -> str:
    query = f"?{request.query}" if request.query else ""
    body = request.body.decode().replace(weights, "WEIGHTS")
    return f"{request.route}{query}{f' {body}' if body != '{}' else ''}"


@pytest.mark.parametrize("name", ["sglang", "vllm"])
async def test_a_sleep_that_is_refused_is_an_error_with_its_words(name: str, tmp_path: Path) -> None:
    spec = bare(name, tmp_path, sleep=Sleep.LIGHT)
    sleeper = registry.get(name).sleeper(spec)
    assert sleeper is not None
    routes: dict[str, list[Answer]] = {"POST /sleep": [(500, {"error": {"message": "it is dead"}})]}
    with scripted({**routes, "POST /release_memory_occupation": routes["POST /sleep"]}) as server:
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            with pytest.raises(EngineError, match="answers 500: it is dead"):
                await sleeper.sleep(Server(spec, server.url, client))
    async with httpx.AsyncClient(trust_env=False, verify=False) as client:
        with pytest.raises(EngineError, match="got no answer"):
            await sleeper.wake(Server(spec, server.url, client))


@pytest.mark.parametrize(
    ("name", "env", "args", "key"),
    [
        ("vllm", (("VLLM_API_KEY", "e"),), (), "e"),
        ("vllm", (("VLLM_API_KEY", "e"),), ("--api-key", "a"), "a"),
        ("infinity", (("INFINITY_API_KEY", "e"),), (), "e"),
        ("mlx-vlm", (("MLX_VLM_SERVER_API_KEY", "e"),), (), "e"),
        ("sglang", (), ("--api-key=${model}-key",), "m-key"),
        ("mlx", (("VLLM_API_KEY", "e"),), (), None),
    ],
)
def test_the_key_a_server_asks_for(
    name: str,
    env: Any,
    args: tuple[str, ...],
    key: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Of these nobody's server inherits one.
    for variable in ("VLLM_API_KEY", "INFINITY_API_KEY", "MLX_VLM_SERVER_API_KEY"):
        monkeypatch.setenv(variable, "inherited")
    assert registry.get(name).api_key(bare(name, tmp_path, env=env, args=args)) == key


@pytest.mark.parametrize(
    ("name", "role", "path"),
    [
        ("mlx", Role.CHAT, "/v1/chat/completions"),
        ("mlx-vlm", Role.TTS, "/v1/audio/speech"),
        ("mlx-vlm", Role.VISION, "/v1/messages"),
        ("vllm", Role.CHAT, "/v1/messages"),
        ("vllm", Role.ASR, "/v1/audio/transcriptions"),
        ("sglang", Role.RERANK, "/v1/rerank"),
        ("transformers", Role.CHAT, "/v1/responses"),
        ("tei", Role.RERANK, "/rerank"),
        ("infinity", Role.CLASSIFY, "/v1/classify"),
    ],
)
def test_the_paths_it_answers(name: str, role: Role, path: str, tmp_path: Path) -> None:
    served = registry.get(name).serves(bare(name, tmp_path, role=role))
    assert served is not None
    assert path in served
    assert "/v1/images/edits" not in served
