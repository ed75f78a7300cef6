"""What the machine around the manager does to it: disks, files, clocks, limits, ports. Each is undone at its end."""

import errno
import os
import resource
import socket
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from faults.acts import frozen
from faults.oracle import listening
from faults.rig import Rig
from manager import SOON
from reconciler.store.paths import DATABASE
from support import wait_for

#: Bytes of the small disk that a state directory may be.
DISK: Final = 6 << 20
#: Seconds of a suspend: longer than what makes a turn a late one.
SUSPEND: Final = 6.0
_PIDS: Final = Path("/sys/fs/cgroup/pids")


# -- the disk of the state directory -------------------------------------------------------------------------------


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """Make `folder` a disk of its own. Skips the test where nobody lets us."""
    folder.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=700", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no disk can be mounted here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def full(rig: Rig) -> Iterator[None]:
    """Fill the disk of the state directory to its last byte."""
    ballast = rig.state_dir / "ballast"
    handle = os.open(ballast, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        with suppress(OSError):
            while os.write(handle, b"x" * 4096):
                pass
        yield
    finally:
        os.close(handle)
        ballast.unlink()


@contextmanager
def read_only(rig: Rig) -> Iterator[None]:
    """Have the disk of the state directory take nothing any more. Nobody may have a file of it open for writing."""
    subprocess.run(["mount", "-o", "remount,ro", str(rig.state_dir)], check=True)
    try:
        yield
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(rig.state_dir)], check=True)


@contextmanager
def unwritable(rig: Rig) -> Iterator[None]:
    """Let no write of the manager into any file succeed, its own log included."""
    with _limited(rig, resource.RLIMIT_FSIZE, 0):
        yield


# -- the ledger ----------------------------------------------------------------------------------------------------


@contextmanager
def locked(rig: Rig) -> Iterator[None]:
    """Hold the lock of the ledger, as a person with a database shell would."""
    db = sqlite3.connect(rig.state_dir / DATABASE, isolation_level=None, timeout=SOON)
    try:
        db.execute("BEGIN IMMEDIATE")
        yield
        db.execute("ROLLBACK")
    finally:
        db.close()


def _folded(rig: Rig) -> None:
    """Have all of the ledger in its file, and nothing in its journal: pages in there would hide what is ruined."""
    with closing(sqlite3.connect(rig.state_dir / DATABASE, timeout=SOON)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def garbage(rig: Rig) -> None:
    """Write something else into the ledger."""
    _folded(rig)
    with (rig.state_dir / DATABASE).open("r+b") as file:
        file.write(b"this is no database " * 2000)


def truncated(rig: Rig) -> None:
    """Cut the ledger short, in the middle of a page."""
    _folded(rig)
    os.truncate(rig.state_dir / DATABASE, 5000)


def deleted(rig: Rig) -> None:
    """Remove the ledger, and only that: its journal stays."""
    (rig.state_dir / DATABASE).unlink(missing_ok=True)  # it may be, and not be noticed yet


# -- ports, limits -------------------------------------------------------------------------------------------------


def _promised(rig: Rig) -> set[int]:
    """Return the ports of models that run: one that was given a port may have died, or been stopped, since."""
    return {model["port"] for model in rig.status()["models"] if model["pid"] is not None}


@contextmanager
def ports_taken(rig: Rig) -> Iterator[None]:
    """Have strangers listen on every port of the range that nobody has yet."""
    if rig.process is not None and rig.process.poll() is None:
        wait_for(lambda: _promised(rig) <= listening(), SOON, "models that listen")
    with ExitStack() as taken:
        for port in sorted(set(rig.ports) - listening()):
            one = taken.enter_context(socket.socket())
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):  # a model that has just been started was quicker
                one.bind(("127.0.0.1", port))
                one.listen()
        yield


@contextmanager
def no_descriptors(rig: Rig) -> Iterator[None]:
    """Let the manager open nothing more: no connection, no file, no pipe."""
    with _limited(rig, resource.RLIMIT_NOFILE, len(os.listdir(f"/proc/{rig.pid}/fd"))):
        yield


@contextmanager
def no_processes(rig: Rig) -> Iterator[None]:
    """Let the manager start neither a process nor a thread."""
    group = _PIDS / f"reconciler-test-{rig.pid}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    try:
        (group / "cgroup.procs").write_text(str(rig.pid))
        (group / "pids.max").write_text((group / "pids.current").read_text())
        yield
    finally:
        (group / "pids.max").write_text("max")
        wait_for(lambda: _left(group), SOON, "a control group that nothing is in")


def _left(group: Path) -> bool:
    """Move what is in a control group out of it, and remove it; False = something was being started there meanwhile."""
    for pid in (group / "cgroup.procs").read_text().split():
        with suppress(ProcessLookupError):
            (_PIDS / "cgroup.procs").write_text(pid)
    try:
        group.rmdir()
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        return False
    return True


@contextmanager
def _limited(rig: Rig, which: int, soft: int) -> Iterator[None]:
    was = resource.prlimit(rig.pid, which)
    resource.prlimit(rig.pid, which, (soft, was[1]))
    try:
        yield
    finally:
        resource.prlimit(rig.pid, which, was)


# -- time ----------------------------------------------------------------------------------------------------------


def set_clock(rig: Rig, seconds: float) -> None:
    """Set the wall clock that the manager sees so far off; 0 = right again."""
    draft = rig.clock.with_suffix(".new")
    draft.write_text(str(seconds))
    draft.replace(rig.clock)


@contextmanager
def clock_off(rig: Rig, seconds: float) -> Iterator[None]:
    """Have the wall clock stepped, and stepped back."""
    set_clock(rig, seconds)
    try:
        yield
    finally:
        set_clock(rig, 0)


def suspend(rig: Rig, away: float) -> None:
    """Stop the manager and all models, as a suspend does; meanwhile the wall clock goes on by `away` seconds."""
    with frozen(rig, SUSPEND, models=True):
        set_clock(rig, away)


# -- the manifest --------------------------------------------------------------------------------------------------


@contextmanager
def folder_removed(rig: Rig) -> Iterator[None]:
    """Move the folder of the manifest away."""
    away = rig.root / "manifests-elsewhere"
    rig.manifests.rename(away)
    try:
        yield
    finally:
        away.rename(rig.manifests)


@contextmanager
def folder_emptied(rig: Rig) -> Iterator[None]:
    """Remove all files of the manifest."""
    away = rig.root / "models-elsewhere.yaml"
    rig.file.rename(away)
    try:
        yield
    finally:
        away.rename(rig.file)


@contextmanager
def folder_is_a_file(rig: Rig) -> Iterator[None]:
    """Put a file where the folder of the manifest was."""
    with folder_removed(rig):
        rig.manifests.write_text("here was a folder\n")
        try:
            yield
        finally:
            rig.manifests.unlink()


@contextmanager
def file_is_a_pipe(rig: Rig) -> Iterator[None]:
    """Put a pipe that nobody writes into where the manifest was: who opens it waits for ever."""
    with folder_emptied(rig):
        os.mkfifo(rig.file)
        try:
            yield
        finally:
            rig.file.unlink()


@contextmanager
def file_is_noise(rig: Rig) -> Iterator[None]:
    """Write bytes that are no text into the manifest."""
    with folder_emptied(rig):
        rig.file.write_bytes(bytes(range(256)) * 64)
        try:
            yield
        finally:
            rig.file.unlink()


@contextmanager
def file_is_a_link_to_itself(rig: Rig) -> Iterator[None]:
    """Put a link where the manifest was that leads to itself."""
    with folder_emptied(rig):
        rig.file.symlink_to(rig.file)
        try:
            yield
        finally:
            rig.file.unlink()
