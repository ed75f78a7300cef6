"""A lease from the command line: begun, waited for, kept while a command runs, and given back whatever happens."""

import os
import pwd
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

from reconciler.cli.ask import progress, readable_status
from reconciler.cli.client import LoopClient, NotRunningError, RefusedError
from reconciler.cli.names import find_model
from reconciler.cli.output import CliError, UsageError, note

POLL: Final = 0.1
#: Share of a lease's time after which it is renewed, and the longest pause, in seconds: the loop may be restarted.
RENEW_SHARE: Final = 1 / 3
RENEW_CAP: Final = 60.0
NOT_FOUND: Final = 404
#: What a shell adds to the number of the signal that ended a program.
BY_SIGNAL: Final = 128

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


def until_held(loop: LoopClient, lease: Lease, duration: str, timeout: float) -> Lease:
    """Return the lease once its model is in memory, its time counted from then; it is given back if that fails.

    Raises CliError when it is refused or takes more than `timeout` seconds.
    """
    try:
        if lease["state"] == "held":
            return lease
        return _wait(loop, lease, duration, timeout)
    except BaseException:
        give_back(loop, lease)
        raise


def _wait(loop: LoopClient, lease: Lease, duration: str, timeout: float) -> Lease:
    """Renew the lease until it is in force: that tells how it stands, takes no scope but `admin`, and counts anew."""
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
    """Run a command, keep the lease as long as it runs, give it back, and return the command's exit code."""
    try:
        with _passing_signals_on() as children:
            try:
                child = subprocess.Popen(command)
            except OSError as error:
                raise CliError(f"cannot run {command[0]}: {error.strerror or error}") from error
            children.append(child)
            _keep(loop, lease, duration, child)
    finally:
        give_back(loop, lease)
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
def _passing_signals_on() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Outlive the signals that are meant for the command. Ctrl-C reaches it anyway, what is sent to us is passed on."""
    children: list[subprocess.Popen[bytes]] = []

    def pass_on(number: int, _frame: FrameType | None) -> None:
        for child in children:
            if number != signal.SIGINT and child.poll() is None:
                child.send_signal(number)

    # What is ignored stays ignored, for the command too: that is what nohup is for.
    heard = [
        number
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is not signal.SIG_IGN
    ]
    before = {number: signal.signal(number, pass_on) for number in heard}
    try:
        yield children
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
