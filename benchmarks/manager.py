"""A real `reconcile` in a process of its own, with a state directory, an address and ports that nobody else uses."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final

from benchmarks import REPOSITORY
from support import FAKE, free_port, get_json, wait_for

START_SECONDS: Final = 30.0
STEP_SECONDS: Final = 60.0
#: `reconcile`, as `python -c` runs it.
ENTRY: Final = "import sys; from reconciler.cli import main; sys.exit(main())"
_PORTS: Final = 40


@dataclass(frozen=True, slots=True)
class Manager:
    """A running manager."""

    pid: int
    port: int
    folder: Path

    @property
    def url(self) -> str:
        """Where its gateway answers."""
        return f"http://127.0.0.1:{self.port}"

    def state(self, model: str) -> str:
        """Return `ready`, `cold`, `loading` ... of one model, or `busy` while any action is in flight."""
        status = get_json(f"{self.url}/api/v1/status", timeout=STEP_SECONDS)
        if status is None or "models" not in status:
            return "unknown"
        state: str = next((m["state"] for m in status["models"] if m["name"] == model), "unknown")
        return "busy" if status["action"] is not None else state

    def wait(self, model: str, state: str) -> None:
        """Return once the model is in `state` and nothing is being done."""
        wait_for(lambda: self.state(model) == state, STEP_SECONDS, f"{model} is {state}")

    def evict(self, model: str) -> None:
        """Have a model unloaded and wait until it is."""
        post(self.port, f"/api/v1/models/{model}/evict", {})
        self.wait(model, "cold")


def post(port: int, path: str, body: object, *, timeout: float = STEP_SECONDS) -> bytes:
    """POST JSON to a local server over a connection of its own; return the body of the answer. Blocks."""
    connection = HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        data = answer.read()
    finally:
        connection.close()
    if answer.status >= 300:
        raise RuntimeError(f"{path} answered {answer.status}: {data[:500]!r}")
    return data


def port_range() -> str:
    """Return a range of ports of which none is in use."""
    for _ in range(50):
        first = random.randrange(20_000, 30_000 - _PORTS)
        if all(_is_free(port) for port in range(first, first + _PORTS)):
            return f"{first}-{first + _PORTS - 1}"
    raise RuntimeError("found no range of free ports")


def _is_free(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) != 0


def manifest(
    models: Mapping[str, Mapping[str, Any]], *, memory: str = "2GiB", ports: str | None = None
) -> str:
    """Return a manifest of these models, on `ports` or on some that are free. YAML is a superset of JSON."""
    document = {
        "apiVersion": "reconciler/v1",
        "machine": {"memory": memory, "reserve": "64MiB", "ports": ports or port_range()},
        "models": models,
    }
    return json.dumps(document, indent=1) + "\n"


def fake(*options: str) -> dict[str, Any]:
    """Return a model served by the scripted engine of the tests."""
    return {
        "engine": "command",
        "command": [*FAKE, "--port", "${port}", *options],
        "memory": {"steady": "32MiB"},
        "residency": "on_demand",
    }


@contextmanager
def running(path: Path, *, env: Mapping[str, str] | None = None) -> Iterator[Manager]:
    """Run a manager on the manifest at `path` until the block ends; then stop it and its models."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="reconcile-bench-state-") as name:
        folder = Path(name)
        command = [sys.executable, "-c", ENTRY, str(path), "--state-dir", str(folder / "state")]
        command += ["--listen", f"127.0.0.1:{port}"]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                command, cwd=REPOSITORY, env={**os.environ, **(env or {})}, stdout=log, stderr=log
            )
        try:
            url = f"http://127.0.0.1:{port}/healthz"
            wait_for(lambda: _serves(url) or process.poll() is not None, START_SECONDS, "it serves")
            if process.poll() is not None:
                raise RuntimeError((folder / "log").read_text(encoding="utf-8"))
            yield Manager(process.pid, port, folder)
        finally:
            end(process)


def end(process: "subprocess.Popen[Any]", number: signal.Signals = signal.SIGTERM) -> None:
    """End a process of ours; what does not leave is killed."""
    if process.poll() is None:
        process.send_signal(number)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(10)


def _serves(url: str) -> bool:
    health = get_json(url)
    return health is not None and health.get("status") == "ok"


def until(predicate: Callable[[], object], what: str) -> None:
    """Wait for something that takes no longer than one step of the manager."""
    wait_for(predicate, STEP_SECONDS, what)
