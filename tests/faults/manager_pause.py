"""The manager is stopped for a while, in every state, alone or with all its models, and goes on: nobody notices.

A terminal (`Ctrl-Z`), a debugger or `docker pause` does that. Clocks go on meanwhile.
"""

from collections.abc import Callable, Iterator
from typing import Final

from faults.acts import frozen
from faults.cells import Cell
from faults.rig import Rig
from faults.states import STATES

#: State -> what the user sees, and the state of its model afterwards.
_SEEN: Final = {
    "idle": ("Who asks meanwhile is answered late.", "ready"),
    "answering": ("The answer comes late.", "ready"),
    "streaming": ("The stream stands still, and goes on.", "ready"),
    "loading": ("The load goes on, and the request is answered.", "ready"),
    "queueing": ("The load goes on, and all three are answered.", "ready"),
    "draining": ("The stream goes on to its end; then the model goes.", "cold"),
    "stopping": ("The model goes.", "cold"),
    "saving": ("The state is saved; the model goes.", "cold"),
    "restoring": ("The restore goes on, and the request is answered.", "ready"),
    "going-to-sleep": ("The model falls asleep.", "asleep"),
    "asleep": ("The model sleeps on.", "asleep"),
    "waking": ("The model wakes, and the request is answered.", "ready asleep"),
    "settling": ("The model has gone.", "cold"),
    "leased": ("The lease goes on.", "ready"),
    "replacing": ("The stream goes on to its end; then the process with the old settings goes.", "cold"),
}
#: States that are tried each time.
_OFTEN: Final = frozenset({"idle", "streaming", "loading", "draining", "saving", "waking"})
#: Seconds it is stopped: for a moment, and for longer than a turn of the loop may come late.
MOMENT: Final = 0.3
LONG: Final = 6.5


def _paused(state: str, seconds: float, *, models: bool) -> Callable[[Rig], None]:
    after = _SEEN[state][1].split()

    def run(rig: Rig) -> None:
        model = STATES[state](rig)
        with frozen(rig, seconds, models=models):
            rig.asks("pin")
        rig.let_go(model)
        for one in rig.asked:
            one.answered()
        rig.wait_calm()
        rig.wait_model(model, state=after[-1])
        if state == "leased":
            assert rig.model(model)["leases"] == 1
            assert rig.client.delete(f"/api/v1/leases/{rig.lease}").is_success

    return run


#: Shorter than the time for which all stands still.
SHORT: Final = {"load": "2s", "drain": "2s", "stop": "5s"}


def _past_deadline(state: str) -> Callable[[Rig], None]:
    """Freeze all for longer than the deadline of what is being done."""
    after = _SEEN[state][1]

    def run(rig: Rig) -> None:
        rig.edit({name: entry | {"timeouts": SHORT} for name, entry in rig.standard().items()})
        model = STATES[state](rig)
        with frozen(rig, 3.0, models=True):
            rig.asks("pin")
        rig.let_go(model)
        for one in rig.asked:
            one.answered()
        rig.wait_model(model, state=after)

    return run


def _cells() -> Iterator[Cell]:
    for fault, models in (("manager-stopped", False), ("all-frozen", True)):
        for state, (sees, _) in _SEEN.items():
            yield Cell(fault, state, sees, _paused(state, MOMENT, models=models), slow=state not in _OFTEN)
    for state in ("loading", "draining"):
        yield Cell("all-frozen-past-a-deadline", state, _SEEN[state][0], _past_deadline(state))
    for fault, models in (("manager-stopped-for-long", False), ("all-frozen-for-long", True)):
        for state, (sees, _) in _SEEN.items():
            yield Cell(fault, state, sees, _paused(state, LONG, models=models), slow=True)


CELLS: Final = tuple(_cells())
