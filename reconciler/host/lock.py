"""One manager per state directory."""

import errno
import json
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Final

import filelock

from reconciler.host.errors import StateLocked, StateUnwritable
from reconciler.host.identity import Process, alive, identify
from reconciler.host.owner import write_private

_LOCK: Final = "lock"
_HOLDER: Final = "lock.holder"
#: A holder that has just won the lock needs a moment to write its name.
_NAME_SECONDS: Final = 0.3


class StateLock:
    """The lock of one state directory. The kernel frees it the moment its holder is gone, however it went.

    Keep the object: the lock goes with it.
    """

    def __init__(self, state_dir: Path, *, serves: bool = False) -> None:
        """`serves`: its holder is going to listen, so that whoever looks for it meanwhile does well to wait."""
        self._dir, self._serves = state_dir, serves
        self._holder = state_dir / _HOLDER
        # Ours to keep in whichever thread: acquired in a worker, released in another.
        self._lock = filelock.FileLock(state_dir / _LOCK, timeout=0, mode=0o600, thread_local=False)

    def acquire(self) -> None:
        """Take the lock, making the directory (0700) if needed. Blocking.

        Raises StateLocked at once, StateUnwritable where the system lets us write nothing there.
        """
        try:
            self._dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock.acquire()
            if (me := identify(os.getpid())) is not None:
                self._write(me)
        except filelock.Timeout:
            raise self._refusal() from None
        except OSError as error:
            self.release()
            raise StateUnwritable(_unwritable(self._dir, error)) from error

    def release(self) -> None:
        """Give it back; harmless if it is not held. Blocking."""
        if self._lock.is_locked:
            self._holder.unlink(missing_ok=True)
            self._lock.release()

    def __enter__(self) -> "StateLock":
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _write(self, me: Process) -> None:
        note = {"pid": me.pid, "started": me.started, "since": time.time(), "serves": self._serves}
        write_private(self._holder, json.dumps(note))

    def _refusal(self) -> StateLocked:
        deadline = time.monotonic() + _NAME_SECONDS
        while (holder := holder_of(self._dir)) is None and time.monotonic() < deadline:
            time.sleep(0.01)
        who = f"pid {holder.pid}{_since(self._dir)}" if holder else "another process"
        return StateLocked(
            f"{self._dir} is in use by {who}: end it (`reconcile stop`), or give this manager its own --state-dir",
            holder.pid if holder else None,
        )


def holder_of(state_dir: Path) -> Process | None:
    """Return the live process that last took the lock of `state_dir`, or None. Takes no lock. Blocking."""
    try:
        written = json.loads((state_dir / _HOLDER).read_text(encoding="ascii"))
        process = Process(int(written["pid"]), int(written["started"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return process if alive(process) else None


def _unwritable(state_dir: Path, error: OSError) -> str:
    """Return that nothing can be written there, why, and what to do."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        advice = "make room; models that run serve on without a manager until then"
    else:
        advice = "make it writable for this user, or name another with --state-dir or RECONCILE_STATE_DIR"
    return f"the state directory {state_dir} cannot be written to: {error.strerror or error}: {advice}"


def _since(state_dir: Path) -> str:
    """Return since when the lock is held, as people write it; "" where that is not known."""
    try:
        since = float(json.loads((state_dir / _HOLDER).read_text(encoding="ascii"))["since"])
        return time.strftime(" since %Y-%m-%d %H:%M:%S", time.localtime(since))
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return ""
