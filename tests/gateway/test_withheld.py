"""No client can have an engine load what no account shows: neither by a field of its request, nor past the gateway."""

import json
from dataclasses import replace
from typing import Any

import anyio
import pytest

from gateway_rig import CHAT, receive_until, request, rig, scripted, snapshot
from reconciler.board import Snapshot
from reconciler.core.launch import LaunchSpec, Role
from reconciler.core.types import ModelSpec
from reconciler.engines import registry
from reconciler.manifest.applied import ApiKey, GatewaySettings, RequestLimits, Scope

pytestmark = pytest.mark.anyio
OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


def served_by(engine: str, **settings: Any) -> Snapshot:
    """Return a snapshot with a model `chat` of this engine."""
    made = snapshot(ModelSpec("chat", "d"), settings=GatewaySettings(**settings))
    launches = {"chat": LaunchSpec("chat", engine, weights="/w", role=Role.CHAT)}
    limits = {"chat": RequestLimits(role=Role.CHAT)}
    return replace(made, applied=replace(made.applied, launches=launches, limits=limits))


@pytest.mark.parametrize(
    ("engine", "body", "field"),
    [
        ("mlx", '{"model": "chat", "messages": [], "draft_model": "/etc"}', "draft_model"),
        ("mlx", '{"model": "chat", "messages": [], "adapters": "/home"}', "adapters"),
        ("mlx", '{"model": "chat", "messages": [], "\\u0061dapters": "/home"}', "adapters"),
        ("mlx", '{"model": "chat", "x": "\\ud800", "adapters": "/home"}', "adapters"),
        ("mlx-vlm", '{"model": "chat", "messages": [], "adapter_path": "/home"}', "adapter_path"),
    ],
)
async def test_a_field_that_names_what_to_load_is_refused(engine: str, body: str, field: str) -> None:
    async with rig() as r:
        r.publish(served_by(engine))
        answer = await r.client.post(CHAT, content=body.encode())
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (400, "invalid_request")
        assert f"the field {field!r} is not passed on: the engine {engine} would load" in error["message"]


@pytest.mark.parametrize(
    ("engine", "more"),
    [("mlx", {"adapters": None}), ("mlx", {"x": {"adapters": "a"}}), ("llama.cpp", {"adapters": 1})],
)
async def test_what_loads_nothing_passes(engine: str, more: dict[str, Any]) -> None:
    async with rig() as r, scripted() as server:
        r.publish(served_by(engine))
        r.open(server.port)
        body = json.dumps({"model": "chat", "messages": [], **more}).encode()
        async with await r.raw(request(body)) as stream:
            got = await server.next()
            assert json.loads(got.body) == json.loads(body)
            await got.write(OK)
            await receive_until(stream, b"{}")


KEYS = {
    "user": ApiKey("k-user", "user", frozenset({Scope.INFER})),
    "owner": ApiKey("k-owner", "owner", frozenset({Scope.INFER, Scope.ADMIN})),
}


async def test_past_the_gateway_only_an_admin_speaks_to_an_engine_that_swaps() -> None:
    async with rig() as r, scripted() as server:
        r.publish(served_by("mlx", api_keys=tuple(KEYS.values())))
        r.open(server.port)

        async def ask(name: str, method: str = "POST") -> int:
            headers = {"authorization": f"Bearer {KEYS[name].key}"}
            path = "/upstream/chat/v1/chat/completions"
            return (await r.client.request(method, path, headers=headers)).status_code

        async def answer() -> None:
            for _ in range(2):
                await (await server.next()).write(OK)

        assert await ask("user") == 403
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answer)
            assert await ask("owner") == 200
            assert await ask("user", "GET") == 200


def test_engines_that_load_by_name_are_known() -> None:
    engines = {name: registry.get(name) for name in registry.names()}
    assert {name for name, engine in engines.items() if engine.swaps} == {
        "mlx",
        "mlx-vlm",
        "ollama",
        "transformers",
    }
    assert {name for name, engine in engines.items() if engine.withheld} == {"mlx", "mlx-vlm"}
