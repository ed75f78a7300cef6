"""The engine `command`: findings, what must be there, the exact command line, and what health answers mean."""

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from reconciler.core.launch import LaunchSpec
from reconciler.core.types import Preflight, Reason
from reconciler.engines import registry
from reconciler.engines.base import Command, Readiness

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
