"""What all engines made of data have in common: settings, programs, versions, keys, probes, failures."""

import dataclasses
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from reconciler.core.launch import Device, LaunchSpec, Role, Sleep
from reconciler.engines import failures, refusals
from reconciler.engines.adapter import Adapter
from reconciler.engines.base import Finding, Readiness
from reconciler.engines.proof import judge, message_of
from scripted_server import Answer, scripted
from text_engines import environment, program


class Example(Adapter):
    """An engine with one of everything."""

    name = "example"
    uses = refusals.PACKAGE | refusals.CONTEXT
    roles = frozenset({Role.CHAT, Role.CLASSIFY})
    script = "example-server"
    distribution = "Example_Server"
    checked = ("1.2", "2.0.1")
    install = "pip install example-server"
    owned: Mapping[str, str] = {"--model": "weights", "--max-tokens": "context.max_tokens", "--host": ""}
    key_variables = ("EXAMPLE_KEY",)
    not_inherited = ("EXAMPLE_",)
    known_failures = failures.known((r"no spoon: (\w+)", "there is no {0}"))

    def arguments(self, spec: LaunchSpec, port: int) -> list[str]:
        return ["--model", spec.weights or "", "--port", str(port)]

    def settings(self, spec: LaunchSpec) -> Iterator[Finding]:
        if spec.slots > 9:
            yield Finding(("context", "slots"), "too many")


class Weightless(Example):
    """An engine without weights."""

    weights = None


@pytest.fixture
def env(tmp_path: Path) -> Path:
    return environment(tmp_path / "env", ("example_server", "1.2.3"), programs=("example-server",))


@pytest.fixture
def spec(tmp_path: Path, env: Path) -> LaunchSpec:
    weights = tmp_path / "weights"
    weights.mkdir()
    (weights / "anything").write_text("x")
    return LaunchSpec(
        "m",
        "example",
        weights=str(weights),
        cwd=str(tmp_path),
        python=str(env),
        device=Device(threads=1),
    )


@pytest.mark.parametrize(
    ("changes", "path", "message", "hint"),
    [
        ({"role": Role.TTS}, ("role",), "example is no tts server", "one of chat, classify"),
        ({"weights": None}, ("weights",), "this engine needs weights", "weights: path/to/model"),
        ({"slots": 10}, ("context", "slots"), "too many", ""),
        ({"args": ("--model", "x")}, ("args",), "--model cannot be given here", "it is stated as `weights`"),
        (
            {"args": ("--max_tokens=5",)},
            ("args",),
            "--max_tokens cannot be given here",
            "it is stated as `context.max_tokens`",
        ),
        ({"args": ("--host=::",)}, ("args",), "--host cannot be given here", "it is chosen by reconcile"),
        (
            {"command": ("x", "--model=y")},
            ("command",),
            "--model cannot be given here",
            "it is stated as `weights`",
        ),
        ({"args": ("${PORT}",)}, ("args",), "${PORT} is not filled in", "did you mean ${port}?"),
        ({"env": (("A", "${prot}"),)}, ("env", "A"), "${prot} is not filled in", "did you mean ${port}?"),
        (
            {"sleep": Sleep.DEEP},
            ("sleep",),
            "example gives memory back only by ending",
            "write `sleep: off`, or leave it out: it is stopped when it has to go",
        ),
        (
            {"saves_state": True},
            ("state", "save"),
            "example cannot save its state",
            "leave `state.save` out, or name an address of the model's server",
        ),
    ],
)
def test_settings_that_cannot_work(
    changes: dict[str, Any], path: tuple[str, ...], message: str, hint: str, spec: LaunchSpec
) -> None:
    assert Example().check(spec) == ()
    [found] = Example().check(dataclasses.replace(spec, **changes))
    assert (found.path, found.message, found.hint) == (path, message, hint)


def test_a_flag_that_only_begins_like_an_owned_one_is_the_users(spec: LaunchSpec) -> None:
    assert Example().check(dataclasses.replace(spec, args=("--model-type", "x", "--", "model"))) == ()
    assert Example().check(dataclasses.replace(spec, env=(("PORT", "1"),), args=("${PORT}",))) == ()


def test_weights_for_an_engine_without_are_refused(spec: LaunchSpec) -> None:
    assert Weightless().check(spec) == (
        Finding(("weights",), "example takes no weights", "leave `weights` out", needless=True),
    )
    assert Weightless().check(dataclasses.replace(spec, weights=None)) == ()


def test_placeholders_are_filled_in_everywhere(spec: LaunchSpec, env: Path) -> None:
    spec = dataclasses.replace(
        spec,
        command=(str(env / "bin/example-server"), "--name", "${model}"),
        args=("--again", "${weights}:${port}", "${HOME}"),
        env=(("URL", "http://x:${port}/${model}"),),
    )
    command = Example().command(spec, 7)
    assert command.argv == (
        *(str(env / "bin/example-server"), "--name", "m", "--model", str(spec.weights), "--port", "7"),
        *("--again", f"{spec.weights}:7", "${HOME}"),
    )
    assert command.env["URL"] == "http://x:7/m"


def test_the_users_variables_rule_and_others_are_left_out(spec: LaunchSpec) -> None:
    spec = dataclasses.replace(
        spec, env=(("HF_HUB_OFFLINE", "0"),), device=Device(("1",), (0, 2), nice=4, threads=3)
    )
    command = Example().command(spec, 7)
    assert command.env["HF_HUB_OFFLINE"] == "0"
    assert command.env["TRANSFORMERS_OFFLINE"] == "1"
    assert (command.env["CUDA_VISIBLE_DEVICES"], command.env["OMP_NUM_THREADS"]) == ("1", "3")
    assert (command.cpus, command.nice, command.without) == ((0, 2), 4, ("EXAMPLE_",))


def test_an_environment_is_used_as_if_it_were_activated(
    spec: LaunchSpec, env: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin")
    command = Example().command(spec, 7)
    assert command.env["PATH"] == f"{env}/bin{os.pathsep}/usr/bin"
    assert command.env["VIRTUAL_ENV"] == str(env)
    own = Example().command(dataclasses.replace(spec, env=(("PATH", "/mine"),)), 7)
    assert own.env["PATH"] == "/mine"
    assert "VIRTUAL_ENV" not in Example().command(dataclasses.replace(spec, python=None), 7).env


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cwd": "/nowhere"}, "the working directory /nowhere does not exist"),
        ({"python": "/nowhere"}, "the interpreter or environment /nowhere does not exist"),
        ({"python": None, "env": (("PATH", "/nowhere"),)}, "its server"),
        ({"command": ("/nowhere/server",)}, "the program /nowhere/server does not exist"),
        ({"command": ("no-such-server",)}, "the program 'no-such-server' is not on PATH"),
        ({"weights": "/nowhere/weights"}, "the weights /nowhere/weights do not exist"),
    ],
)
def test_what_is_missing_is_said(changes: dict[str, Any], message: str, spec: LaunchSpec) -> None:
    found = Example().preflight(dataclasses.replace(spec, **changes))
    assert found.reason == "NotStartable"
    assert found.message.startswith(message)


@pytest.mark.parametrize(
    ("version", "note"),
    [
        ("1.2", False),
        ("1.2.99", False),
        ("1.2+cpu", False),
        ("2.0.1+cu128", False),
        ("1.20", True),
        ("2.0.10", True),
        ("3", True),
        (None, True),
    ],
)
def test_a_version_is_checked_or_a_note(
    version: str | None, note: bool, spec: LaunchSpec, tmp_path: Path
) -> None:
    packages = [("example_server", version)] if version else []
    other = environment(tmp_path / "other", *packages, programs=("example-server",))
    found = Example().preflight(dataclasses.replace(spec, python=str(other)))
    assert found.reason is None
    assert found.build == (f"example {version}" if version else "example")
    assert len(found.notes) == note
    assert all("1.2, 2.0.1" in text for text in found.notes)


def test_a_program_that_is_a_link_has_the_version_of_where_it_leads(
    spec: LaunchSpec, env: Path, tmp_path: Path
) -> None:
    (tmp_path / "local/bin").mkdir(parents=True)
    (tmp_path / "local/bin/example-server").symlink_to(env / "bin/example-server")
    linked = dataclasses.replace(spec, python=None, env=(("PATH", str(tmp_path / "local/bin")),))
    assert Example().version(linked) == "1.2.3"
    program(tmp_path / "plain/bin", "example-server")
    plain = dataclasses.replace(linked, env=(("PATH", str(tmp_path / "plain/bin")),))
    assert Example().version(plain) is None


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({}, None),
        ({"env": (("EXAMPLE_KEY", "e"),)}, "e"),
        ({"env": (("EXAMPLE_KEY", "e"),), "args": ("--api-key", "a")}, "a"),
        ({"args": ("--api-key=of-${model}",)}, "of-m"),
        ({"env": (("LLAMA_API_KEY", "another's"),)}, None),
    ],
)
def test_the_key_is_the_one_its_server_will_see(
    changes: dict[str, Any], key: str | None, spec: LaunchSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXAMPLE_KEY", "which the server does not inherit")
    assert Example().api_key(dataclasses.replace(spec, **changes)) == key


def test_a_failure_is_told_by_the_log_then_by_the_status() -> None:
    engine = Example()
    assert engine.explain("no spoon: fork", 1) == "there is no fork"
    assert engine.explain("ModuleNotFoundError: No module named 'torch.cuda'", 1) == (
        "the Python package torch.cuda is not installed in its environment (`python:` names the environment)"
    )
    assert engine.explain("RuntimeError: [Errno 98] Address already in use", 1) == (
        "its port is taken by another process"
    )
    assert engine.explain("", -9) == "it was killed (KILL), possibly because the machine ran out of memory"
    assert engine.explain("all is well", None) is None


def test_a_role_without_usual_paths_is_not_said_to_have_none(spec: LaunchSpec) -> None:
    assert Example().serves(dataclasses.replace(spec, role=Role.CLASSIFY)) is None
    assert Example().serves(spec) == frozenset({"/v1/chat/completions", "/v1/completions"})


CHAT = "POST /v1/chat/completions"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("health", "call", "readiness", "detail"),
    [
        (200, (200, {"choices": []}), Readiness.READY, ""),
        (200, (200, b"\xff not text \x00"), Readiness.READY, ""),
        (503, 500, Readiness.LOADING, "/health with 503"),
        (404, 500, Readiness.FAILED, "/health with 404"),
        (200, (503, {"detail": "warming up"}), Readiness.LOADING, "answers 503: warming up"),
        (200, (429, {}), Readiness.LOADING, "answers 429"),
        (200, (500, {"error": {"message": "no GPU"}}), Readiness.FAILED, "answers 500: no GPU"),
        (200, (400, b"[" * 5000), Readiness.FAILED, "answers 400: [["),
        (200, (200, {"error": {"message": "out of memory"}}), Readiness.FAILED, "answers: out of memory"),
        (200, (200, {"error": None, "choices": []}), Readiness.READY, ""),
        (200, (307, {}), Readiness.FAILED, "answers 307"),
        (200, (401, {}), Readiness.FAILED, "it wants a key: it does not take the one it was given"),
    ],
)
async def test_a_probe_asks_for_health_then_for_work(
    health: int, call: Answer, readiness: Readiness, detail: str, spec: LaunchSpec
) -> None:
    spec = dataclasses.replace(spec, args=("--api-key", "k"))
    with scripted({"GET /health": [health], CHAT: [call]}) as server:
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            found = await Example().probe(spec, server.url, client)
    assert found.readiness is readiness
    assert detail in found.detail
    assert all(request.headers["authorization"] == "Bearer k" for request in server.requests)
    assert len(server.asked(CHAT)) == (health == 200)


@pytest.mark.anyio
async def test_health_is_enough_where_no_work_is_known(spec: LaunchSpec) -> None:
    with scripted({"GET /health": [200]}) as server:
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            found = await Example().probe(dataclasses.replace(spec, role=Role.CLASSIFY), server.url, client)
    assert found.readiness is Readiness.READY
    assert len(server.requests) == 1


def test_an_endless_message_is_cut() -> None:
    for content in ({"error": "x" * 10_000}, {"detail": ["x" * 10_000]}, ["x" * 10_000]):
        response = httpx.Response(500, json=content)
        assert len(message_of(response)) <= 200
        assert judge(response, "/p", None).readiness is Readiness.FAILED
