"""A Python worker as a process of its own, without anything that is installed: what a user's class runs in."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from reconciler.engines.python import WORKER
from support import free_port, get_json, wait_for

SOON = 15.0
#: Another interpreter than ours may be tried: WORKER_PYTHON=python3.9 pytest tests/worker
PYTHON = os.environ.get("WORKER_PYTHON", sys.executable)


class Worker:
    """One worker process, of the class `Model` in `model.py` in `folder`."""

    def __init__(
        self, folder: Path, role: str, options: tuple[str, ...], env: Mapping[str, str], python: str
    ) -> None:
        self.port = free_port()
        self.log = folder / "worker.log"
        self.client = httpx.Client(
            trust_env=False, verify=False, timeout=30, base_url=f"http://127.0.0.1:{self.port}"
        )
        words = ["--entry", "model:Model", "--port", str(self.port), "--role", role, "--name", "m", *options]
        with self.log.open("wb") as log:
            # -S: not even the packages of this environment can be imported.
            self.process = subprocess.Popen(
                [python, "-S", str(WORKER), *words],
                cwd=folder,
                env={"PATH": os.defpath, "PYTHONDONTWRITEBYTECODE": "1", **env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def health(self) -> str | None:
        """Return what /health says; None if nobody answers."""
        answer = get_json(f"http://127.0.0.1:{self.port}/health")
        return str(answer["status"]) if isinstance(answer, dict) else None

    def wait_ready(self) -> "Worker":
        """Wait until it serves."""

        def look() -> bool:
            assert self.process.poll() is None, self.text()
            return self.health() == "ok"

        wait_for(look, SOON, "a worker that serves")
        return self

    def wait_end(self) -> int:
        """Wait for its end; return its status."""
        return self.process.wait(SOON)

    def post(self, path: str, body: object = None, **more: Any) -> httpx.Response:
        """Send JSON."""
        return self.client.post(path, json=body, **more)

    def stats(self) -> dict[str, Any]:
        """Return its counts."""
        found: dict[str, Any] = self.client.get("/stats").json()
        return found

    def text(self) -> str:
        """Return its log."""
        return self.log.read_text()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)


@contextmanager
def worker(
    folder: Path,
    text: str,
    role: str,
    *options: str,
    ready: bool = True,
    env: Mapping[str, str] | None = None,
    python: str = PYTHON,
) -> Iterator[Worker]:
    """Run a worker on `text`, the source of a module with a class `Model`, until the block ends."""
    (folder / "model.py").write_text(textwrap.dedent(text))
    running = Worker(folder, role, options, env or {}, python)
    try:
        yield running.wait_ready() if ready else running
    finally:
        running.client.close()
        if running.process.poll() is None:
            running.process.kill()
        running.process.wait(SOON)


def events(response: httpx.Response) -> list[Any]:
    """Return the events of a stream: JSON, or the text of what is none."""
    lines = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]
    return [json.loads(line) if line.startswith("{") else line for line in lines]
