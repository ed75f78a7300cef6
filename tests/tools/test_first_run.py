"""`make run`: the program starts, a first request is answered and shown, and Ctrl-C ends all of it."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from manager import SOON, Manager
from support import wait_for

TOOL = Path(__file__).resolve().parents[2] / "tools/first_run.py"


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    with Manager(tmp_path) as made:
        yield made


def first_run(manager: Manager) -> subprocess.Popen[bytes]:
    address = f"127.0.0.1:{manager.gateway_port}"
    command = [sys.executable, str(TOOL), str(manager.manifests)]
    with manager.output.open("ab") as out:
        process = subprocess.Popen(
            [*command, "--listen", address, "--state-dir", str(manager.state_dir)],
            env={**os.environ},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
    manager.others.append(process)
    return process


def wait_output(manager: Manager, text: str) -> str:
    wait_for(lambda: text in manager.output.read_text(), SOON, f"the output {text!r}")
    return manager.output.read_text()


def test_the_first_answer_is_shown_and_ctrl_c_ends_everything(manager: Manager) -> None:
    manager.write({"a": manager.fake("a"), "b": manager.fake("b", residency="warm")})
    process = first_run(manager)
    output = wait_output(manager, "Ctrl-C here ends the gateway and its models.")
    assert "A first request, to the model b." in output
    assert f"curl -s http://127.0.0.1:{manager.gateway_port}/v1/chat/completions" in output
    assert "b answered after" in output
    assert " load model=b reason=" in output, "the log is for people also where no terminal is"
    assert manager.processes("b")
    process.send_signal(signal.SIGINT)
    assert process.wait(SOON) == 0
    assert manager.ours() == []


def test_a_request_that_fails_is_said_and_serving_goes_on(manager: Manager) -> None:
    entry = manager.fake("a", residency="warm") | {"command": ["/nowhere/server", "${port}"]}
    manager.write({"a": entry})
    process = first_run(manager)
    output = wait_output(manager, "The gateway goes on; Ctrl-C ends it.")
    assert "The first request was answered 503:" in output
    assert "/nowhere/server" in output
    assert process.poll() is None
    assert manager.status()["pid"] == process.pid


def test_a_busy_port_is_named_with_its_holder_and_a_way_out(manager: Manager) -> None:
    manager.write({"a": manager.fake("a")})
    with socket.create_server(("127.0.0.1", manager.gateway_port)):
        process = first_run(manager)
        assert process.wait(SOON) == 1
    output = manager.output.read_text()
    assert f"127.0.0.1:{manager.gateway_port} is in use by pid {os.getpid()}" in output
    assert "make run LISTEN=127.0.0.1:" in output
    assert "Traceback" not in output


def test_a_second_run_says_who_runs(manager: Manager) -> None:
    manager.write({"a": manager.fake("a")})
    manager.start()
    process = first_run(manager)
    assert process.wait(SOON) == 1
    assert f"reconcile already runs (pid {manager.pid})" in manager.output.read_text()


def test_a_broken_manifest_is_told_by_the_program_alone(manager: Manager) -> None:
    manager.write({"a": manager.fake("a") | {"prority": "high"}})
    process = first_run(manager)
    assert process.wait(SOON) == 1
    output = manager.output.read_text()
    assert 'unknown key "prority"' in output
    assert "first request" not in output
