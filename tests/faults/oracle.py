"""Judges from outside whether all is as it should be: processes, ports, files, the ledger, and every client.

Nothing here asks the manager whether it did well, except for what it says of its models, which is held against the
process table. What is wrong is a list of sentences.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from faults.clients import BOUND, Asked
from faults.rig import Rig, unharmed
from manager import command_line, process_fields, process_state, running
from reconciler.store.paths import DATABASE
from reconciler.store.readonly import peek
from support import wait_for

#: Seconds within which the manager has to have all in order again.
ORDER: Final = 15.0
#: Log lines that begin an action, and those that end one.
BEGINS: Final = ("load", "evict")
ENDS: Final = (
    *("loaded", "load failed", "evicted", "given up", "sleeps", "could not stop"),
    "it did not wake: it is loaded anew",
    "its state could not be restored: it is loaded anew, without the state",
)
#: State of a socket that listens, in /proc/net/tcp.
_LISTEN: Final = "0A"


def judge(rig: Rig) -> None:
    """Wait until the manager has nothing left to do, then raise AssertionError with all that is wrong."""
    status = rig.wait_calm(ORDER)
    wrong = [
        *clients(rig),
        *leases(rig.status()),
        *processes(rig, status),
        *ports(rig, status),
        *ledger(rig),
        *private(rig.state_dir),
        *witnesses(rig),
        *one_at_a_time(rig.cell_log()),
    ]
    if rig.stranger is not None and not unharmed(rig.stranger):
        wrong.append(f"the stranger {rig.stranger.pid} was touched: {process_state(rig.stranger.pid)}")
    assert not wrong, "\n".join(wrong)


def clients(rig: Rig) -> Iterator[str]:
    """Every request was answered, or told why not; the connection breaks only while the manager is away."""
    for one in rig.asked:
        one.join(BOUND)
        if one.end is None:
            yield f"a request for {one.model} hangs: {one.error}"
        elif one.end.kind == "odd":
            yield f"a request for {one.model} ended oddly: {one.end.what}"
        elif one.end.kind in ("cut", "refused") and not _away(rig, one):
            yield f"a request for {one.model} was {one.end.kind} while the manager was there: {one.end.what}"


def _away(rig: Rig, one: Asked) -> bool:
    spans = [(span[0], span[1] if len(span) == 2 else time.monotonic()) for span in rig.away]
    return any(one.began <= until and one.over >= since - 0.05 for since, until in spans)


def leases(status: dict[str, Any]) -> Iterator[str]:
    """Nobody is counted as served or waiting once all requests are over."""
    for model in status["models"]:
        for count in ("active", "waiting", "gated", "jobs"):
            if model[count]:
                yield f"{model['name']}: {count} is {model[count]} though no request is under way"


def processes(rig: Rig, status: dict[str, Any]) -> Iterator[str]:
    """What runs is what the status names, once each, and no child is a zombie."""
    known = {model["pid"]: model["name"] for model in status["models"] if model["pid"] is not None}
    for pid in sorted(known):
        if not running(pid):
            yield f"{known[pid]} is said to run as {pid}, which does not"
    for pid in rig.ours():
        if pid not in known and _parent(pid) not in known:
            yield f"process {pid} is ours, and the status does not name it: {command_line(pid)}"
    for model in status["models"]:
        found = rig.processes(model["name"])
        if len(found) > 1:
            yield f"{model['name']} runs more than once: {found}"
        if found and model["pid"] is None:
            yield f"{model['name']} runs as {found} and is said to be {model['state']}"
    with suppress(AssertionError):
        wait_for(lambda: "Z" not in rig.children().values(), 2, "no zombie")
    if zombies := [pid for pid, state in rig.children().items() if state == "Z"]:
        yield f"nobody has reaped {zombies}"


def _parent(pid: int) -> int | None:
    fields = process_fields(pid)
    return int(fields[1]) if fields else None


def ports(rig: Rig, status: dict[str, Any]) -> Iterator[str]:
    """Who listens on a port of ours is a model that is said to be there."""
    known = {model["port"] for model in status["models"] if model["pid"] is not None}
    for port in listening() & set(rig.ports):
        if port not in known:
            yield f"somebody listens on {port}, and the status names no model there"


def listening() -> set[int]:
    """Return the TCP ports somebody listens on."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN:
                    found.add(int(fields[1].rpartition(":")[2], 16))
    return found


def ledger(rig: Rig) -> Iterator[str]:
    """The launches on record are the processes that run; the last edit may just be taking one away."""
    with suppress(AssertionError):
        wait_for(lambda: not list(_on_record(rig)), 2, "a ledger that says what runs")
    yield from _on_record(rig)


def _on_record(rig: Rig) -> Iterator[str]:
    with peek(rig.state_dir / DATABASE) as store:
        records = {(record.model, record.pid) for record in store.launches()}
    known = {(m["name"], m["pid"]) for m in rig.status()["models"] if m["pid"] is not None}
    for model, pid in sorted(records - known, key=str):
        yield f"the ledger has {model} as {pid}, which does not run"
    for model, pid in sorted(known - records, key=str):
        yield f"{model} runs as {pid}, and the ledger does not know it"


def private(folder: Path) -> Iterator[str]:
    """Nobody else may read the state directory."""
    for path in [folder, *folder.rglob("*")]:
        with suppress(FileNotFoundError):  # a draft that was put in its place meanwhile
            mode = path.stat().st_mode & 0o777
            if mode & 0o077:
                yield f"{path.name} may be read by others: {mode:o}"


def lock_is_free(rig: Rig) -> bool:
    """Return whether the next manager could begin: the lock of the last one went with it."""
    handle = os.open(rig.state_dir / "lock", os.O_RDWR)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
    return True


def witnesses(rig: Rig) -> Iterator[str]:
    """Models that had nothing to do with the fault are the processes they were."""
    for model, pid in sorted(rig.witnesses.items()):
        found = rig.processes(model)
        if found != [pid]:
            yield f"{model} was {pid}, and is {found}"


def one_at_a_time(lines: list[dict[str, Any]]) -> Iterator[str]:
    """From the beginning of an action to its end no other begins; a manager that starts has none."""
    flying = ""
    for line in lines:
        event = line.get("event")
        if event == "serving":
            flying = ""
        elif event in BEGINS:
            if flying:
                yield f"{event} {line['model']} was begun during {flying}"
            flying = f"{event} {line['model']}"
        elif event in ENDS:
            flying = ""
