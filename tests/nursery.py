"""The near side of zygote.py: starts managers in it, and knows of each whether it still runs."""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

from support import wait_for

#: Seconds for what normally takes a fraction of one.
SOON = 15.0
TESTS = Path(__file__).resolve().parent


class Forked:
    """A manager in a fork; what `subprocess.Popen` offers of it."""

    def __init__(self, pid: int, ended: Mapping[int, int]) -> None:
        self.pid = pid
        self._ended = ended
        #: None = it has ended before we looked, and its parent knows.
        self._pidfd: int | None = None
        with suppress(ProcessLookupError):
            self._pidfd = os.pidfd_open(pid)

    def poll(self) -> int | None:
        """Return its exit code, negative for a signal; None while it runs."""
        return self._ended.get(self.pid)

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code as soon as it has ended. Raises AssertionError after `timeout` seconds."""
        if self._pidfd is not None:
            select.select([self._pidfd], [], [], timeout)
        wait_for(lambda: self.poll() is not None, SOON if timeout is None else timeout, "the manager's end")
        return self._ended[self.pid]

    def send_signal(self, sig: int) -> None:
        """Signal it, if it still runs."""
        if self.poll() is None and self._pidfd is not None:
            signal.pidfd_send_signal(self._pidfd, sig)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


class Nursery:
    """One zygote: `module` is run, and forks."""

    def __init__(self, module: str = "zygote") -> None:
        self._ended: dict[int, int] = {}
        self._born: list[int] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            env={**os.environ, "PYTHONPATH": f"{TESTS}{os.pathsep}{TESTS.parent}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self._next(4 * SOON)  # the zygote itself
        except AssertionError:
            self._process.kill()
            self.__exit__()
            raise

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            if "ended" in said:
                self._ended[said["ended"]] = said["code"]
            else:
                self._ended.pop(said["pid"], None)  # of one that had the same number
                self._born.append(said["pid"])

    def _next(self, timeout: float) -> int:
        wait_for(lambda: self._born or self._process.poll() is not None, timeout, "a manager to be forked")
        assert self._born, f"what forks managers ended with {self._process.returncode}"
        return self._born.pop(0)

    def start(self, command: list[str], env: Mapping[str, str], output: Path, **more: str) -> Forked:
        """Start a command line of `reconcile`, or of Python and a script that runs it; `more` is for the zygote."""
        script = command[1] if command[0] == sys.executable else None
        argv = command[1:] if script is None else command[2:]
        order = {"script": script, "argv": argv, "env": dict(env), "output": str(output), **more}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        return Forked(self._next(SOON), self._ended)

    def run(
        self, command: list[str], env: Mapping[str, str], timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """Run a command line as `start` does until it ends; return what it said."""
        with tempfile.TemporaryDirectory() as folder:
            output, errors = Path(folder, "output"), Path(folder, "errors")
            process = self.start(command, env, output, errors=str(errors))
            try:
                code = process.wait(timeout)
            finally:
                process.kill()
            return subprocess.CompletedProcess(command, code, output.read_text(), errors.read_text())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(SOON)
        self._reader.join(SOON)
        assert self._process.stdout is not None
        self._process.stdout.close()
