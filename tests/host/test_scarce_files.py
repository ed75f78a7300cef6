"""No file can be opened: of no process is it believed then that it has ended, and none is left to nobody."""

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from reconciler.engines.base import Command
from reconciler.host import Process, StartError, alive, identify, spawn
from reconciler.host.identity import LINUX, ending, process_table
from support import wait_for

pytestmark = pytest.mark.skipif(not LINUX, reason="elsewhere psutil is asked")

_open = os.open


@contextmanager
def no_file(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let nothing below /proc be opened."""

    def opens(path: str, flags: int, *more: int) -> int:
        if str(path).startswith("/proc"):
            raise OSError(errno.EMFILE, "Too many open files")
        return _open(path, flags, *more)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", opens)
        yield


def test_nothing_is_believed_to_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    me = identify(os.getpid())
    assert me is not None
    with no_file(monkeypatch):
        for look in (lambda: alive(me), process_table, lambda: identify(os.getpid())):
            with pytest.raises(OSError, match="Too many open files"):
                look()
        assert not ending(os.getpid())
    assert alive(me)
    assert not alive(Process(me.pid, me.started + 1))


def test_what_was_started_and_cannot_be_told_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    popen = subprocess.Popen.__init__

    def noting(self: subprocess.Popen[bytes], *args: object, **more: object) -> None:
        popen(self, *args, **more)  # type: ignore[call-overload]
        started.append(self.pid)

    monkeypatch.setattr(subprocess.Popen, "__init__", noting)
    with no_file(monkeypatch), pytest.raises(StartError, match="it was ended: Too many open files") as told:
        spawn.spawn(Command(("/bin/sleep", "60"), "/"), {"PATH": "/bin:/usr/bin"}, 1)
    assert told.value.passing
    [pid] = started
    wait_for(lambda: not os.path.exists(f"/proc/{pid}"), 5, "the end of what nobody knows")
