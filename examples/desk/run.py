"""What `make desk` runs: `reconcile` on the desk, the work of work.py through it, and the end of both.

    .venv/bin/python -m examples.desk.run [--log FILE]      # from the repository's folder

Its state lives in a temporary folder, so each run begins with nothing measured and nothing loaded.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tools import first_run, make_venv

HERE: Final = Path(__file__).resolve().parent
#: Seconds that the manager may take to come up, the work to be done, and the manager to end with its models.
UP_SECONDS: Final = 60.0
WORK_SECONDS: Final = 600.0
END_SECONDS: Final = 60.0
_POLL: Final = 0.05
_OPENER: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class RunError(Exception):
    """The desk could not be run; the message says why."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the desk. Returns the exit status of the work, or 1 after a message."""
    parser = argparse.ArgumentParser(description="Serve the desk, give it some work, end it.")
    parser.add_argument("--log", type=Path, help="where to keep what reconcile logs")
    options = parser.parse_args(argv)
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        return run(options.log)
    except RunError as error:
        sys.stderr.write(f"desk: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        signal.signal(signal.SIGTERM, before)


def run(kept: Path | None) -> int:
    """Serve the desk, have the work done, end it; `kept` is where the log stays. Raises RunError."""
    with tempfile.TemporaryDirectory(prefix="desk-") as folder:
        log = kept or Path(folder) / "reconcile.log"
        with served(Path(folder) / "state", log) as url:
            return work(url, log)


def interrupt(number: int, frame: object) -> None:
    """End as Ctrl-C does: the manager must not be left behind."""
    raise KeyboardInterrupt


@contextmanager
def served(state: Path, log: Path) -> Iterator[str]:
    """Serve the desk at an address of its own until the block ends. Raises RunError."""
    address = f"127.0.0.1:{first_run.free_port()}"
    command = [str(Path(sys.executable).with_name("reconcile")), str(HERE / "models.yaml")]
    command += ["--state-dir", str(state), "--listen", address]
    with log.open("wb") as file:
        # A process group of its own: Ctrl-C reaches it through `end`, once.
        manager = subprocess.Popen(
            command, env={**os.environ, "RECONCILE_LOG": "json"}, stderr=file, start_new_session=True
        )
    try:
        wait_until_up(manager, f"http://{address}", log)
        yield f"http://{address}"
    finally:
        end(manager)


def wait_until_up(manager: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    """Return when the gateway serves and every pinned model is ready. Raises RunError."""
    deadline = time.monotonic() + UP_SECONDS
    while time.monotonic() < deadline:
        if manager.poll() is not None:
            raise RunError(f"reconcile ended with status {manager.returncode}:\n{log.read_text()[-3000:]}")
        with suppress(OSError), _OPENER.open(f"{url}/readyz", timeout=5):
            return
        time.sleep(_POLL)
    raise RunError(f"the desk was not ready within {UP_SECONDS:.0f} s:\n{log.read_text()[-3000:]}")


def work(url: str, log: Path) -> int:
    """Let work.py do its steps with the desk's own Python; return its exit status. Raises RunError."""
    python = make_venv.python_in(HERE / ".venv")
    command = [str(python), str(HERE / "work.py"), url, "--log", str(log)]
    try:
        return subprocess.run(command, check=False, timeout=WORK_SECONDS).returncode
    except subprocess.TimeoutExpired as error:
        raise RunError(f"the work was not done within {WORK_SECONDS:.0f} s") from error


def end(manager: "subprocess.Popen[bytes]") -> None:
    """End the manager; it ends its models first."""
    if manager.poll() is None:
        manager.send_signal(signal.SIGTERM)
    try:
        manager.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        sys.stderr.write(f"desk: reconcile (pid {manager.pid}) did not end within {END_SECONDS:.0f} s\n")
        manager.kill()
        manager.wait()


if __name__ == "__main__":
    sys.exit(main())
