"""Disks, the ledger and ports fail around a manager that is idle, loads, serves, drains or starts."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Final

from faults import around
from faults.acts import kill_manager
from faults.cells import Cell
from faults.rig import Rig
from faults.states import STATES
from manager import SOON
from support import wait_for

Fault = Callable[[Rig], AbstractContextManager[None]]
#: Log lines.
RENEWED: Final = "the ledger was begun anew: the models serve on"
DAMAGED: Final = "the ledger was damaged, a new one is made"
#: What is said of a model that was adopted without its record.
REBUILT: Final = "the ledger was lost; its record was rebuilt from the process"


@dataclass(frozen=True)
class Trouble:
    """Something that lasts for a while."""

    name: str
    fault: Fault
    #: Waits until the manager has said so; None = it has no occasion to.
    noticed: Callable[[Rig], object] | None
    #: State -> what the user sees.
    sees: tuple[tuple[str, str], ...] = ()


def nudge(rig: Rig) -> None:
    """Have the manager write something: the manifest changes, and with it no process."""
    rig.use(memory=2001 if "2000MiB" in rig.file.read_text() else 2000)


def ledger_unwritable(rig: Rig) -> None:
    """Wait until the status says that nothing can be written down."""

    def said() -> bool:
        nudge(rig)  # the journal may have room for some writes yet
        found = rig.condition("Degraded")
        return found is not None and found["reason"] == "LedgerUnwritable"

    wait_for(said, SOON, "a ledger that cannot be written")


def refused(rig: Rig) -> None:
    """Wait until the status says that the manifest is not the newest any more."""
    wait_for(lambda: not rig.condition("ManifestValid"), SOON, "a manifest that is refused")


def over(rig: Rig) -> None:
    """Wait until the status has no complaint left."""

    def clear() -> bool:
        return rig.condition("Degraded") is None and rig.condition("ManifestValid") is not None

    nudge(rig)
    wait_for(clear, SOON, "the end of the trouble")


def goes_on(rig: Rig, state: str, model: str) -> None:
    """Let what was under way come to its end, which must be a good one."""
    rig.let_go(model)
    for one in () if rig.away else rig.asked:
        one.answered()
    if state == "draining":
        wait_for(lambda: not rig.processes(model), SOON, "the end of the model that had to go")
    else:
        rig.asks(model).answered()


def _lasting(trouble: Trouble, state: str) -> Callable[[Rig], None]:
    def run(rig: Rig) -> None:
        model = STATES[state](rig)
        with trouble.fault(rig):
            if trouble.noticed is not None:
                trouble.noticed(rig)
            goes_on(rig, state, model)
            if state == "idle":
                rig.asks("deaf").answered()
        over(rig)
        rig.asks("pin").answered()

    return run


def _gives_its_port(rig: Rig) -> None:
    """All ports are taken: a model that is idle leaves for the one it has, as it would for its memory."""
    rig.asks("chat").answered()
    with around.ports_taken(rig):
        rig.asks("deaf").answered()
        assert not rig.processes("chat")
        rig.asks("chat").answered()
        assert not rig.processes("deaf")
    rig.asks("deaf").answered()


def _no_port_left(rig: Rig) -> None:
    """All ports are taken, by strangers and a pinned model."""
    with around.ports_taken(rig):
        one = rig.asks("deaf")
        assert one.ended().what == "not_startable", one.end
        verdict = rig.model("deaf")["verdict"]
        assert "pin has " in verdict["detail"]
        assert verdict["detail"].endswith("widen machine.ports, for pinned models keep theirs")
        rig.asks("pin").answered()
    rig.asks("deaf").answered()


def _starting(trouble: Trouble) -> Callable[[Rig], None]:
    def run(rig: Rig) -> None:
        rig.loaded("chat")
        rig.kill()
        with trouble.fault(rig):
            rig.start()
            rig.asks("chat").answered()
        over(rig)

    return run


_SERVES: Final = (
    ("answering", "The answer comes."),
    ("streaming", "The stream goes on to its end."),
    ("draining", "The stream goes on to its end, then the model goes."),
)
_FULL: Final = (
    (
        "idle",
        "The status says that the ledger cannot be written; models serve, and others are loaded all the same.",
    ),
    ("loading", "What had been started becomes ready and serves."),
    *_SERVES,
)
LASTING: Final = (
    Trouble("ledger-locked", around.locked, ledger_unwritable, _FULL),
    Trouble("no-file-may-grow", around.unwritable, ledger_unwritable, _FULL),
    Trouble(
        "ports-taken",
        around.ports_taken,
        None,
        (
            ("loading", "What has its port becomes ready."),
            *_SERVES,
            ("starting", "The models are taken over on the ports they have."),
        ),
    ),
)
ON_DISK: Final = Trouble("disk-full", around.full, ledger_unwritable, _FULL)


def mostly_on_demand(cells: Iterable[Cell], *often: str) -> tuple[Cell, ...]:
    """Return cells of which only those with these names run always."""
    made = tuple(replace(cell, slow=cell.id not in often) for cell in cells)
    assert {cell.id for cell in made} >= set(often), "a cell that runs always is none of these"
    return made


def lasting(trouble: Trouble) -> tuple[Cell, ...]:
    """Return the cells of one trouble."""
    return tuple(
        Cell(
            trouble.name,
            state,
            sees,
            _starting(trouble) if state == "starting" else _lasting(trouble, state),
        )
        for state, sees in trouble.sees
    )


# -- the ledger is lost --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Loss:
    """A way to lose the ledger."""

    name: str
    lose: Callable[[Rig], None]
    #: What is said of it.
    why: str


_LOSSES: Final = (
    Loss("ledger-deleted", around.deleted, "was removed while it was in use"),
    Loss("ledger-garbage", around.garbage, "file is not a database"),
    Loss("ledger-truncated", around.truncated, "was damaged"),
)
_RENEWED: Final = (
    (
        "idle",
        "It is said, and a new ledger begun that has what runs: after a crash the models are taken over.",
    ),
    ("loading", "The load goes on; a new ledger is begun that has it."),
    ("streaming", "The stream goes on; a new ledger is begun."),
    ("draining", "The stream goes on to its end, then the model goes; a new ledger is begun."),
)


def _lost(loss: Loss, state: str) -> Callable[[Rig], None]:
    def renewed(rig: Rig) -> list[str]:
        nudge(rig)
        return [line["what"] for line in rig.cell_log() if line.get("event") == RENEWED]

    def run(rig: Rig) -> None:
        model = STATES[state](rig)
        loss.lose(rig)
        told = wait_for(lambda: renewed(rig), 2 * SOON, "a ledger begun anew")
        assert loss.why in told[0]
        goes_on(rig, state, model)
        rig.wait_calm()
        assert ("Renewed", told[0]) in rig.events("ledger")
        if state == "idle":
            rig.kill()
            rig.start()
            rig.asks(model).answered()
        assert len(told) == 1, told

    return run


def _lost_before(loss: Loss) -> Callable[[Rig], None]:
    def run(rig: Rig) -> None:
        rig.loaded("chat")  # and stays the process that it is
        kill_manager(rig)
        loss.lose(rig)
        rig.start()
        rig.wait_ready("pin")
        rig.asks("chat").answered()
        told = {
            line["model"]: line.get("record") for line in rig.cell_log() if line.get("event") == "adopted"
        }
        assert told == dict.fromkeys(("chat", "pin"), REBUILT)
        said = [line["kept_as"] for line in rig.cell_log() if line.get("event") == DAMAGED]
        if loss.name != "ledger-deleted":
            [where] = said
            kept = next(word for word in where.split() if word.startswith("ledger.db.corrupt-"))
            assert (rig.state_dir / kept.rstrip(",;")).stat().st_size, "what was damaged is gone"

    return run


_ALL: Final = (
    Cell(
        "ports-taken",
        "cold",
        "The request is told at once who has the ports, and which range to widen; loaded models serve.",
        _no_port_left,
    ),
    Cell(
        "ports-taken",
        "idle",
        "A model that is idle gives its port to one that is asked for, as it would give its memory.",
        _gives_its_port,
    ),
    *(cell for trouble in LASTING for cell in lasting(trouble)),
    *(Cell(loss.name, state, sees, _lost(loss, state)) for loss in _LOSSES for state, sees in _RENEWED),
    *(
        Cell(
            loss.name,
            "starting",
            "The models are taken over: their records are made again from the processes, and it is said.",
            _lost_before(loss),
        )
        for loss in _LOSSES
    ),
)

#: A ledger that is ruined in place is noticed by a look every 10 s: those cells take long.
CELLS: Final = mostly_on_demand(
    _ALL,
    *("ledger-locked/idle", "no-file-may-grow/streaming", "ports-taken/cold", "ports-taken/idle"),
    "ports-taken/loading",
    *("ledger-deleted/idle", "ledger-garbage/starting"),
)
