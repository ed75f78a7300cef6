"""A lease from the command line: begun, waited for, kept while a command runs, and given back whatever happens."""

import os
import pwd
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

from reconciler.cli.ask import progress, readable_status
from reconciler.cli.client import LoopClient, NotRunningError, RefusedError
from reconciler.cli.names import find_model
from reconciler.cli.output import CliError, UsageError, note
from reconciler.cli.signals import BY_SIGNAL, Endings, heard

POLL: Final = 0.1
#: Share of a lease's time after which it is renewed, and the longest pause, in seconds: the loop may be restarted.
RENEW_SHARE: Final = 1 / 3
RENEW_CAP: Final = 60.0
NOT_FOUND: Final = 404

Lease = dict[str, Any]


def default_owner() -> str:
    """Return who holds a lease where nothing else is said."""
    return f"{os.environ.get('USER') or _login()}, pid {os.getpid()}"


def _login() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # in a container, maybe
        return f"uid {os.getuid()}"


def begin(loop: LoopClient, name: str, duration: str, owner: str) -> Lease:
    """Ask for a lease on a model, by name or alias. Raises CliError."""
    try:
        return loop.call("POST", "/api/v1/leases", {"model": name, "owner": owner, "for": duration})
    except RefusedError as error:
        if error.kind != "invalid_lease":
            raise
        raise UsageError(str(error).replace("`for`", "--for")) from error


@contextmanager
def leased(loop: LoopClient, name: str, duration: str, owner: str, *, keep: bool) -> Iterator[Lease]:
    """Begin a lease, and give it back at the end of the block unless it is to be kept.

    It is given back whenever the block is broken off: by an error, Ctrl-C, or a signal that ends the program.
    """
    with Endings() as endings:
        endings.put_off()  # a lease whose id is not known yet cannot be given back
        lease, kept = begin(loop, name, duration, owner), False
        try:
            endings.allow()
            yield lease
            endings.put_off()
            kept = keep
        finally:
            endings.put_off()
            if not kept:
                give_back(loop, lease)


def until_held(loop: LoopClient, lease: Lease, duration: str, timeout: float) -> Lease:
    """Return the lease once its model is in memory, its time counted from then.

    The lease is renewed until it is in force: that tells how it stands, takes no scope but `admin`, and counts anew.
    Raises CliError when it is refused or takes more than `timeout` seconds.
    """
    if lease["state"] == "held":
        return lease
    deadline, shown, told = time.monotonic() + timeout, "", True
    while True:
        try:
            now = loop.renew(lease["id"], duration)
        except RefusedError as error:
            if error.status == NOT_FOUND:
                raise CliError(f"{lease['model']} cannot be held: {error}") from error
            raise
        if now["state"] == "held":
            return now
        status = readable_status(loop) if told else None
        told = status is not None  # a key that may not read is not asked to again
        line = (
            progress(status, find_model(status, lease["model"]))
            if status
            else f"waiting for {lease['model']}"
        )
        if line != shown:
            shown = line
            note(line)
        if time.monotonic() > deadline:
            raise CliError(f"{lease['model']} was not ready within {timeout:g} s; the lease is given back")
        time.sleep(POLL)


def while_running(loop: LoopClient, lease: Lease, duration: str, command: Sequence[str]) -> int:
    """Run a command, keep the lease as long as it runs, and return the command's exit code."""
    with _passing_signals_on() as started:
        try:
            child = subprocess.Popen(command)
        except OSError as error:
            raise CliError(f"cannot run {command[0]}: {error.strerror or error}") from error
        started(child)
        _keep(loop, lease, duration, child)
    return child.returncode if child.returncode >= 0 else BY_SIGNAL - child.returncode


def _keep(loop: LoopClient, lease: Lease, duration: str, child: subprocess.Popen[bytes]) -> None:
    """Renew the lease until the command has ended. What goes wrong with it is said, and does not end the command."""
    pause, told = min(RENEW_CAP, lease["ends_in"] * RENEW_SHARE), ""
    while True:
        try:
            child.wait(pause)
        except subprocess.TimeoutExpired:
            said = _renewed(loop, lease, duration)
            if said and said != told:
                note(f"warning: {said}; the command goes on")
            told = said
        else:
            return


def _renewed(loop: LoopClient, lease: Lease, duration: str) -> str:
    """Renew the lease; return what is wrong with that, or an empty text."""
    try:
        loop.renew(lease["id"], duration)
    except CliError as error:
        return str(error)
    return ""


def give_back(loop: LoopClient, lease: Lease) -> None:
    """End the lease; that it has ended by itself, or with the loop, is as good."""
    try:
        loop.release(lease["id"])
    except NotRunningError:
        pass
    except RefusedError as error:
        if error.status != NOT_FOUND:
            note(f"warning: the lease {lease['id']} was not given back: {error}")


@contextmanager
def _passing_signals_on() -> Iterator[Callable[[subprocess.Popen[bytes]], None]]:
    """Outlive the signals that are meant for the command, and yield what is to be told when that runs.

    Ctrl-C reaches it anyway; what is sent to us is passed on, also what came before there was a command.
    """
    children: list[subprocess.Popen[bytes]] = []
    came: list[int] = []

    def pass_on(number: int, _frame: FrameType | None) -> None:
        if number != signal.SIGINT or not children:
            came.append(number)
            deliver()

    def deliver() -> None:
        for child in children:
            while came and child.poll() is None:
                child.send_signal(came.pop(0))

    def started(child: subprocess.Popen[bytes]) -> None:
        children.append(child)
        deliver()

    # What is ignored stays ignored, for the command too.
    before = {number: signal.signal(number, pass_on) for number in heard()}
    try:
        yield started
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
