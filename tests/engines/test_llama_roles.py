"""Which roles a llama.cpp server can have, and what is asked of a model of each to prove and to measure it."""

import httpx
import pytest

from reconciler.core.launch import LaunchSpec, Role
from reconciler.engines import registry
from reconciler.engines.base import Readiness
from reconciler.engines.llama.probe import call_once
from reconciler.measure.calls import ask_model

SERVED = {Role.CHAT, Role.COMPLETION, Role.VISION, Role.EMBEDDING, Role.RERANK}


@pytest.mark.parametrize("role", Role)
def test_roles_it_cannot_have_are_refused_with_what_can(role: Role) -> None:
    found = [
        finding
        for finding in registry.get("llama.cpp").check(LaunchSpec("m", "llama.cpp", weights="/m", role=role))
        if finding.path == ("role",)
    ]
    assert bool(found) is (role not in SERVED)
    for finding in found:
        assert role.value in finding.message
        assert "engine: command" in finding.hint


@pytest.mark.parametrize("role", Role)
def test_a_program_of_ones_own_may_have_any_role(role: Role) -> None:
    launch = LaunchSpec("m", "command", command=("serve", "${port}"), role=role)
    assert registry.get("command").check(launch) == ()


@pytest.mark.anyio
@pytest.mark.parametrize("role", sorted(SERVED))
async def test_each_role_is_proved_by_a_real_call(role: Role) -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        return httpx.Response(200, json={})

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        assert (await call_once(role, "http://engine", client)).readiness is Readiness.READY
    paths = {Role.EMBEDDING: "/v1/embeddings", Role.RERANK: "/v1/rerank"}
    assert asked == [paths.get(role, "/v1/completions")]


@pytest.mark.parametrize("role", sorted(set(Role) - SERVED))
def test_what_is_not_answered_is_said_not_to_be_measured(role: Role) -> None:
    (said,) = ask_model("http://127.0.0.1:9", "m", role)
    assert "not measured" in said
