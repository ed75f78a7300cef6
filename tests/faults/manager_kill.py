"""The manager dies of SIGKILL, in every state, and is started again."""

from collections.abc import Callable
from typing import Final

from faults.acts import die_and_start
from faults.cells import Cell
from faults.rig import Rig
from faults.states import STATES

#: State -> what the user sees, and the state of its model afterwards.
_SEEN: Final = {
    "idle": ("The models serve on under the next manager, as the same processes.", "ready"),
    "answering": ("The request's connection breaks; the model is kept.", "ready"),
    "streaming": ("The stream breaks; the model is kept.", "ready"),
    "loading": ("The request's connection breaks; the half-loaded process is ended.", "cold"),
    "queueing": ("All three connections break; the half-loaded process is ended.", "cold"),
    "draining": ("The stream breaks; the model goes, as it was asked to.", "cold"),
    "stopping": ("The model goes, as it was asked to.", "cold"),
    "saving": ("The model goes, as it was asked to; its next load is a cold start.", "cold"),
    "restoring": ("The request's connection breaks; the process is ended.", "cold"),
    "going-to-sleep": ("The process, which is half asleep, is ended.", "cold"),
    "asleep": ("The model sleeps on, and wakes for the next request.", "asleep"),
    "waking": ("The request's connection breaks; the half-awake process is ended.", "cold"),
    "settling": ("The model has gone; the next manager counts the memory anew.", "cold"),
    "leased": ("The model is kept; renewing the lease is 404 `lease_not_found`.", "ready"),
    "replacing": ("The stream breaks; the process with the old settings is ended.", "cold"),
}


def _killed(state: str) -> Callable[[Rig], None]:
    after = _SEEN[state][1]

    def run(rig: Rig) -> None:
        model = STATES[state](rig)
        die_and_start(rig)
        rig.let_go(model)
        rig.wait_model(model, state=after)
        if state == "leased":
            renewed = rig.client.put(f"/api/v1/leases/{rig.lease}", json={"for": "1h"})
            assert (renewed.status_code, renewed.json()["error"]["code"]) == (404, "lease_not_found")
        rig.asks(model).answered()

    return run


CELLS: Final = tuple(Cell("manager-kill9", state, sees, _killed(state)) for state, (sees, _) in _SEEN.items())
