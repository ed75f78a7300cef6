"""The state directory: whether it can be used, who holds its lock, and what an earlier run left behind."""

import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from reconciler.core.words import size
from reconciler.doctor.finding import Finding, cannot_tell, error, note, ok, warning
from reconciler.host.adopt import Survivor
from reconciler.host.identity import Process

_LITTLE: Final = 1 << 30
_TOO_LITTLE: Final = 64 << 20
_UNRECORDED: Final = (
    "`reconcile` makes the record again from what the process tells if it answers, and takes it over; else it ends it."
    " `reconcile stop` ends all"
)


def check_directory(directory: Path) -> Iterator[Finding]:
    """Yield whether the state directory is there, private, writable, and has room. Blocks briefly."""
    try:
        found = directory.stat()
    except FileNotFoundError:
        yield from _not_there_yet(directory)
        return
    except OSError as problem:
        yield error(
            "state", f"{directory} cannot be looked at: {problem.strerror}", "choose another: --state-dir"
        )
        return
    if not stat.S_ISDIR(found.st_mode):
        yield error("state", f"{directory} is no directory", "choose another: --state-dir")
        return
    if not os.access(directory, os.W_OK | os.X_OK):
        yield error(
            "state", f"{directory} may not be written to", f"chown or chmod it: chmod 700 {directory}"
        )
        return
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o077:
        yield warning("state", f"{directory} is open to others ({mode:04o})", f"chmod 700 {directory}")
    else:
        yield ok("state", f"{directory} is there and private ({mode:04o})")
    yield from _room(directory)


def _not_there_yet(directory: Path) -> Iterator[Finding]:
    parent = next((p for p in directory.parents if p.exists()), directory)
    if not os.access(parent, os.W_OK | os.X_OK):
        yield error("state", f"{directory} cannot be made: {parent} may not be written to", "use --state-dir")
    else:
        yield note("state", f"{directory} is not there yet; the first run makes it")
        yield from _room(parent)


def _room(directory: Path) -> Iterator[Finding]:
    try:
        free = shutil.disk_usage(directory).free
    except OSError as problem:
        yield cannot_tell("disk", f"how much is free at {directory}: {problem.strerror}")
        return
    text = f"{size(free)} free at {directory}"
    if free < _TOO_LITTLE:
        yield error("disk", text, "make room: the ledger and the logs cannot be written")
    elif free < _LITTLE:
        yield warning("disk", text, "make room: logs and the ledger grow")
    else:
        yield ok("disk", text)


def check_holder(directory: Path, holder: Process | None, url: str | None) -> Iterator[Finding]:
    """Yield whether a loop runs here. `holder` holds the lock, `url` is where the loop serves."""
    if holder is None:
        yield ok("loop", "none runs; the lock is free")
    elif url is not None:
        yield ok("loop", f"pid {holder.pid} runs and serves at {url}")
    else:
        yield note(
            "loop", f"pid {holder.pid} holds the lock of {directory} and serves no address (--once, measure)"
        )


def check_safe_mode(why: str) -> Iterator[Finding]:
    """Yield that only pinned models are loaded, and why, where that is so."""
    if why:
        yield warning(
            "safe mode",
            why,
            "find out what took the machine down: see the kernel's log of the boot before (`journalctl -k -b -1`)",
        )


def check_survivors(
    survivors: Sequence[Survivor], unrecorded: Sequence[str], holder: Process | None
) -> Iterator[Finding]:
    """Yield models that run though no loop does, and processes of ours that no record knows."""
    names = [found.record.model for found in survivors]
    if names and holder is None:
        yield warning(
            "left over",
            f"running without a loop: {', '.join(names)}",
            "`reconcile` takes them over; `reconcile stop` ends them",
        )
    elif names:
        yield ok("processes", f"{len(names)} of ours: {', '.join(names)}")
    else:
        yield ok("processes", "none of ours runs")
    if not unrecorded:
        return
    one = len(unrecorded) == 1
    what = f"{len(unrecorded)} {'model that runs is' if one else 'models that run are'} in no record"
    if holder is None:
        yield warning("left over", what, _UNRECORDED)
    else:
        yield note("processes", f"{what}: pid {holder.pid} has just started that, or cannot write its ledger")
