"""The manager may start nothing, or open nothing; its address is taken; others are at work beside it."""

import os
import signal
import socket
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any, Final

from faults import around
from faults.cells import Cell
from faults.cells_around import Fault, mostly_on_demand
from faults.rig import Rig, stranger
from faults.states import STATES
from manager import MIB, SOON, running
from reconciler.store.paths import DATABASE
from small_machine import small_machine
from support import wait_for


def _while_short(fault: Fault, state: str) -> Callable[[Rig], None]:
    """What is under way goes on; who comes anew is served, at once or when there is room again, or told."""

    def run(rig: Rig) -> None:
        model = STATES[state](rig)
        before = list(rig.asked)
        with fault(rig):
            come = [rig.asks("pin"), rig.asks("deaf")]
            rig.let_go(model)
            for one in before if state in ("streaming", "draining") else ():
                one.answered()
            if fault is around.no_descriptors:
                wait_for(lambda: _said(rig, "no client can be let in"), SOON, "word of what it lacks")
        rig.let_go(model)
        come[0].answered()
        for one in rig.asked:
            one.ended()
        assert running(rig.pid), "the manager died of it"
        rig.client.post("/api/v1/models/deaf/forget")
        if state == "draining":
            wait_for(lambda: not rig.processes(model), SOON, "the end of the model that had to go")
        rig.asks(model).answered()

    return run


def _said(rig: Rig, words: str) -> bool:
    return any(words in str(line.get("event")) for line in rig.cell_log())


def _address_taken(rig: Rig) -> None:
    rig.loaded("chat")
    rig.kill()
    with closing(socket.socket()) as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", rig.gateway_port))
        other.listen()
        said = rig.refuses_to_start()
    assert str(rig.gateway_port) in said
    assert rig.processes("chat") == [rig.witnesses["chat"]]
    rig.start()


def _second_manager(rig: Rig) -> None:
    """Case C5 (c): it names who rules, and touches nothing."""
    one = rig.asks("pin", stream=True)
    assert f"is in use by pid {rig.pid}" in rig.refuses_to_start(port=0)
    one.answered()


def _other_manager(rig: Rig) -> None:
    """Case C5 (b), (d): another manager starts, serves and dies beside ours; neither touches the other's models."""
    with Rig(rig.root / "neighbour", nursery=rig.nursery) as other:
        other.use({"theirs": other.scripted("theirs", residency="pinned")})
        other.start()
        [theirs] = other.wait_ready("theirs")
        rig.kill()
        other.kill()
        rig.start()
        assert running(theirs), "a manager ended another's model"
        other.start()
        assert other.wait_ready("theirs") == [theirs]
        assert other.stop() == 0


def _pid_of_another(rig: Rig) -> None:
    """Case C4: the record of a process that is gone names a stranger's pid now; ticks since boot tell them apart."""
    rig.loaded("chat")
    rig.kill()
    [pid] = rig.processes("chat")
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not running(pid), SOON, "the end of a model")
    rig.witnesses.pop("chat")
    with stranger() as somebody:
        with closing(sqlite3.connect(rig.state_dir / DATABASE)) as ledger:
            changed = ledger.execute(
                "UPDATE launches SET pid = ? WHERE pid = ?", (somebody.pid, pid)
            ).rowcount
            ledger.commit()
        assert changed == 1
        rig.start()
        rig.wait_calm()
        assert running(somebody.pid), "a stranger was ended for the number it has"
        rig.asks("chat").answered()


def _edited_meanwhile(rig: Rig) -> None:
    """Case C4: what was changed while nobody ruled is replaced: the old process goes first."""
    rig.loaded("chat")
    rig.kill()
    [old] = rig.processes("chat")
    rig.witnesses.pop("chat")
    rig.use(rig.edited("chat", "--edited"))
    rig.start()
    assert rig.asks("chat").answered().by != old
    assert not running(old)
    rig.use()


def _less_memory(rig: Rig) -> None:
    """A control group's limit is lowered under three models that hold memory; another manager rules them."""
    marks = {"soft": "75%", "hard": "85%", "critical": "95%", "target": "75%", "window": "1s"}
    machine = {"memory": "auto", "reserve": "40MiB", "watermarks": marks}
    with small_machine(800) as group, Rig(rig.root / "small", inside=group) as other:

        def holds(model: str, **keys: Any) -> dict[str, object]:
            return other.fake(model, "--rss-mib", "92", size=100, **keys)

        kept = holds("kept", residency="pinned")
        low, high = holds("low", priority="low"), holds("high", priority="high")
        other.write({"kept": kept, "low": low, "high": high}, machine=machine, prewarm="off")
        other.start()
        for model in ("kept", "low", "high"):
            other.asks(model).answered()
        pids = other.wait_ready("kept", "high")
        group.limit(int(group.anonymous / MIB / 0.9))
        wait_for(lambda: not other.processes("low"), SOON, "the least of them to give way")
        for model in ("kept", "high"):
            other.asks(model).answered()
        assert other.wait_ready("kept", "high") == pids
        assert not group.kills, "the system had to kill a process"
        group.limit(800)
        wait_for(lambda: other.asks("low").ended().kind == "answered", SOON, "room for all of them again")
        assert other.stop() == 0


_SHORT: Final = (
    ("no-descriptors", around.no_descriptors),
    ("no-processes", around.no_processes),
)
_STATES: Final = {
    "idle": "Who comes is served, at the latest once it is over; the manager lives on, and says what it lacks.",
    "streaming": "The stream goes on to its end; who comes is served, at the latest once it is over.",
    "loading": "The load goes on, or is told to have failed; who comes is served, at the latest once it is over.",
    "draining": "The stream goes on to its end, then the model goes.",
}

_ALL: Final = (
    *(
        Cell(name, state, sees, _while_short(fault, state))
        for name, fault in _SHORT
        for state, sees in _STATES.items()
    ),
    Cell(
        "address-taken",
        "starting",
        "The start is refused, the port named; the models live on.",
        _address_taken,
    ),
    Cell(
        "less-memory",
        "idle",
        "The least important model gives way, the pinned one stays, the system kills nobody; all fit again later.",
        _less_memory,
    ),
    Cell(
        "second-manager",
        "streaming",
        "It is refused, and told the pid of the one that rules.",
        _second_manager,
    ),
    Cell(
        "other-manager",
        "starting",
        "Each finds its own models, and leaves the other's alone.",
        _other_manager,
    ),
    Cell(
        "pid-of-another",
        "starting",
        "A stranger with the pid of a model that died is left alone.",
        _pid_of_another,
    ),
    Cell(
        "edited-meanwhile",
        "starting",
        "The process with the old settings goes before the new one.",
        _edited_meanwhile,
    ),
)

CELLS: Final = mostly_on_demand(
    _ALL,
    *(
        "no-descriptors/streaming",
        "no-processes/streaming",
        "address-taken/starting",
        "second-manager/streaming",
    ),
    *("other-manager/starting", "pid-of-another/starting"),
)
