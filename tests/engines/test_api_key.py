"""A server's own key: found in its launch, sent by the probes, and nowhere to be seen."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from reconciler.core.launch import LaunchSpec, Role
from reconciler.engines import registry
from reconciler.engines.base import Readiness
from reconciler.leases import Endpoint

KEYS = [
    ("command", ("serve", "--api-key", "k1"), (), (), "k1"),
    ("command", ("serve",), ("--api-key=k1",), (), "k1"),
    ("command", ("serve",), ("--api-key=k1",), (("VLLM_API_KEY", "k2"),), "k1"),
    ("command", ("serve",), (), (("VLLM_API_KEY", "k2"),), "k2"),
    ("command", ("serve",), (), (("LLAMA_API_KEY", "k2"),), "k2"),
    ("command", ("serve",), (), (("OPENAI_API_KEY", "other"),), None),
    ("command", ("serve", "--api-key"), (), (), None),
    ("command", ("serve", "--api-key", "a\r\nb"), (), (), None),
    ("command", ("serve", "--api-key-file", "x"), (), (), None),
    ("llama.cpp", (), ("--api-key", "k1,k2"), (), "k1"),
    ("llama.cpp", ("llama-server", "--api-key", "k1"), (), (), "k1"),
    ("llama.cpp", ("env", "LLAMA_API_KEY=k1", "llama-server"), (), (), "k1"),
    ("llama.cpp", (), (), (("LLAMA_API_KEY", "${model}-k"),), "m-k"),
    ("llama.cpp", (), ("--api-key-file", "keys"), (), "in-a-file"),
    ("llama.cpp", (), ("--api-key-file", "none"), (), None),
    ("llama.cpp", (), (), (), None),
]


@pytest.mark.parametrize(("engine", "command", "args", "env", "key"), KEYS)
def test_the_key_is_what_the_launch_states(
    engine: str,
    command: tuple[str, ...],
    args: tuple[str, ...],
    env: tuple[tuple[str, str], ...],
    key: str | None,
    tmp_path: Path,
) -> None:
    (tmp_path / "keys").write_text("\nin-a-file\nanother\n")
    spec = LaunchSpec("m", engine, command=command, args=args, env=env, cwd=str(tmp_path), weights="/w.gguf")
    assert registry.get(engine).api_key(spec) == key


def wanting(key: str) -> Callable[[httpx.Request], httpx.Response]:
    def handle(request: httpx.Request) -> httpx.Response:
        return httpx.Response(
            200 if request.headers.get("authorization") == f"Bearer {key}" else 401, json={}
        )

    return handle


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("engine", "args", "expected"),
    [
        ("llama.cpp", ("--api-key", "schlüssel"), Readiness.READY),
        ("llama.cpp", ("--api-key", "other"), Readiness.FAILED),
        ("llama.cpp", (), Readiness.FAILED),
        ("command", ("--api-key", "schlüssel"), Readiness.READY),
        ("command", ("--api-key", "other"), Readiness.FAILED),
        # What the health address is for is the program's affair.
        ("command", (), Readiness.READY),
    ],
)
async def test_ready_means_that_requests_with_this_key_are_answered(
    engine: str, args: tuple[str, ...], expected: Readiness
) -> None:
    spec = LaunchSpec("m", engine, command=("llama-server",), args=args, role=Role.CHAT)
    transport = httpx.MockTransport(wanting("schlüssel"))
    async with httpx.AsyncClient(transport=transport, default_encoding="utf-8") as client:
        probe = await registry.get(engine).probe(spec, "http://127.0.0.1:1", client)
    assert probe.readiness is expected
    assert "schlüssel" not in probe.detail


@pytest.mark.anyio
async def test_the_tokenizer_is_asked_with_the_key() -> None:
    def handle(request: httpx.Request) -> httpx.Response:
        return (
            httpx.Response(200, json={"tokens": [1, 2]})
            if wanting("k")(request).is_success
            else wanting("k")(request)
        )

    spec = LaunchSpec("m", "llama.cpp", args=("--api-key", "k"))
    async with httpx.AsyncClient(transport=httpx.MockTransport(handle)) as client:
        asked = ("http://127.0.0.1:1", "/v1/completions", {"prompt": "a"}, client)
        assert await registry.get("llama.cpp").count_tokens(spec, *asked) == 2


def test_where_a_model_is_reached_does_not_show_its_key() -> None:
    assert "secret" not in repr(Endpoint("m", "http://127.0.0.1:1", authorization="Bearer secret"))


def test_a_program_inherits_a_key_it_does_not_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "inherited")
    spec = LaunchSpec("m", "command", command=("serve",))
    assert registry.get("command").api_key(spec) == "inherited"
    assert registry.get("command").api_key(replace(spec, env=(("VLLM_API_KEY", "own"),))) == "own"


def test_a_key_in_our_own_environment_does_not_become_the_servers() -> None:
    spec = LaunchSpec("m", "llama.cpp", command=("llama-server",), weights="/w.gguf")
    command = registry.get("llama.cpp").command(spec, 1)
    assert "LLAMA_API_KEY".startswith(command.without)
