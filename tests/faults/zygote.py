"""Starts managers without paying for their imports each time: a program that has imported all of it, and forks.

One line of JSON in is one start: `argv`, `env`, `output` (a file that is appended to), `wound` (see wounds.py). One
line out names its pid, and one more tells when it has ended. What runs in the fork is the whole program, from `main`.
"""

import importlib
import json
import os
import pkgutil
import select
import signal
import sys
import traceback
from pathlib import Path

import faults.clock
import reconciler
import reconciler.engines
from faults import wounds
from reconciler.cli import main

SCRIPTED = Path(__file__).resolve().parents[1] / "scripted_engines"


def bring_in() -> None:
    """Import what a running manager imports."""
    for found in pkgutil.walk_packages(reconciler.__path__, "reconciler."):
        if not found.name.endswith("__main__") and not found.name.startswith("reconciler.worker"):
            importlib.import_module(found.name)
    import uvloop  # noqa: F401 - the loop it runs on


def run(order: dict[str, object]) -> int:
    """Be the program, in a fork."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    output = os.open(str(order["output"]), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.closerange(3, 64)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w", buffering=1), open(2, "w", buffering=1)  # noqa: SIM115
    os.chdir("/")
    argv, env = order["argv"], order["env"]
    assert isinstance(argv, list)
    assert isinstance(env, dict)
    os.environ.update(env)
    if "SILENCE" in env:
        from nervous_manager import lose_patience

        lose_patience(float(env["SILENCE"]))
    sys.argv = ["reconcile", *argv]
    wounds.armed_by(Path(str(order["wound"])))
    faults.clock.set_by(Path(str(order["wound"])).with_name("clock"))
    return main(argv)


def begin(order: dict[str, object]) -> None:
    """Fork one manager and tell its pid."""
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            code = run(order)
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    say({"pid": pid})


def say(what: dict[str, int]) -> None:
    """Write one line."""
    os.write(1, json.dumps(what).encode() + b"\n")


def reap() -> None:
    """Tell of each that has ended."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        say({"ended": pid, "code": os.waitstatus_to_exitcode(status)})


def serve() -> None:
    """Start what is ordered until nobody is there to order."""
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    say({"pid": os.getpid()})
    waiting = b""
    while True:
        ready = select.select([0, woken], [], [])[0]
        if woken in ready:
            os.read(woken, 512)
            reap()
        if 0 in ready:
            data = os.read(0, 65536)
            if not data:
                return
            *lines, waiting = (waiting + data).split(b"\n")
            for line in lines:
                begin(json.loads(line))


if __name__ == "__main__":
    os.environ.pop("PYTHONPATH", None)  # ours, and no model's
    bring_in()
    reconciler.engines.__path__.append(str(SCRIPTED))
    wounds.patch()
    serve()
