"""Starts managers without paying for their imports each time: a program that has imported all of it, and forks.

One line of JSON in is one start: `script` (None = `reconcile`), `argv`, `env` (all of it), `output` and, if they are to
be apart, `errors` (files that are appended to), and what else `prepare` knows of. One line out names its pid, and one
more tells when it has ended. What runs in the fork is the whole program, from `main`.
"""

import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

import reconciler
from reconciler.cli import main

#: Is told the order in the fork, before the program begins.
Prepare = Callable[[dict[str, Any]], None]


def bring_in() -> None:
    """Import what a running manager imports."""
    for found in pkgutil.walk_packages(reconciler.__path__, "reconciler."):
        if not found.name.endswith("__main__") and not found.name.startswith("reconciler.worker"):
            importlib.import_module(found.name)
    import uvloop  # noqa: F401 - the loop it runs on

    gc.freeze()


def run(order: dict[str, Any], prepare: Prepare) -> int:
    """Be the program, in a fork."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    output = os.open(order["output"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    if "errors" in order:
        os.dup2(os.open(order["errors"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), 2)
    os.closerange(3, 64)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w", buffering=1), open(2, "w", buffering=1)  # noqa: SIM115
    os.chdir("/")
    os.environ.clear()
    os.environ.update(order["env"])
    prepare(order)
    if order["script"] is None:
        sys.argv = ["reconcile", *order["argv"]]
        return main(order["argv"])
    sys.argv = [order["script"], *order["argv"]]
    runpy.run_path(order["script"], run_name="__main__")
    return 0


def begin(order: dict[str, Any], prepare: Prepare) -> None:
    """Fork one manager and tell its pid."""
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            code = run(order, prepare)
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            atexit._run_exitfuncs()
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


def serve(prepare: Prepare) -> None:
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
                begin(json.loads(line), prepare)


if __name__ == "__main__":
    bring_in()
    serve(lambda _: None)
