"""The wall clock is set, and the machine sleeps: durations are none of the wall clock's."""

from collections.abc import Callable
from typing import Final

from faults import around
from faults.cells import Cell
from faults.cells_around import goes_on, mostly_on_demand, nudge
from faults.rig import Rig
from faults.states import STATES
from manager import SOON
from support import wait_for

#: Name -> seconds.
_STEPS: Final = {
    "clock-an-hour-ahead": 3600.0,
    "clock-an-hour-back": -3600.0,
    "clock-a-day-ahead": 86400.0,
    "clock-a-day-back": -86400.0,
}
_SEES: Final = {
    "idle": "Nobody goes, and no lease ends.",
    "answering": "The answer comes.",
    "streaming": "The stream goes on to its end.",
    "loading": "The load goes on, within its time.",
    "draining": "The drain gets the time it was given; the stream ends, then the model goes.",
}


def _hold(rig: Rig) -> str:
    answer = rig.client.post("/api/v1/leases", json={"model": "pin", "for": "10m", "owner": "batch"})
    assert answer.status_code in (200, 201), answer.text
    return str(answer.json()["id"])


def _stepped(seconds: float, state: str) -> Callable[[Rig], None]:
    def run(rig: Rig) -> None:
        lease = _hold(rig)
        model = STATES[state](rig)
        with around.clock_off(rig, seconds):
            generation = rig.status()["manifest"]["generation"]
            nudge(rig)  # a turn, which looks at everything
            wait_for(lambda: rig.status()["manifest"]["generation"] > generation, SOON, "a turn of the loop")
            goes_on(rig, state, model)
            assert rig.client.put(f"/api/v1/leases/{lease}", json={"for": "10m"}).status_code == 200
        nudge(rig)
        assert rig.client.delete(f"/api/v1/leases/{lease}").status_code in (200, 204)
        assert [
            x for x in rig.cell_log() if x.get("event") in ("lease over", "model died", "load failed")
        ] == []

    return run


def _starting(seconds: float) -> Callable[[Rig], None]:
    def run(rig: Rig) -> None:
        rig.loaded("chat")
        rig.kill()
        with around.clock_off(rig, seconds):
            rig.start()
            adopted = {line["model"] for line in rig.cell_log() if line.get("event") == "adopted"}
            assert adopted == {"pin", "chat"}
            rig.asks("chat").answered()
            rig.wait_calm()

    return run


def _suspended(state: str) -> Callable[[Rig], None]:
    """The whole machine sleeps; when it wakes up, eight hours have gone by on the wall."""

    def run(rig: Rig) -> None:
        model = STATES[state](rig)
        around.suspend(rig, away=8 * 3600.0)
        goes_on(rig, state, model)
        around.set_clock(rig, 0)

    return run


_ALL: Final = (
    *(
        Cell(name, state, sees, _stepped(seconds, state))
        for name, seconds in _STEPS.items()
        for state, sees in _SEES.items()
    ),
    *(
        Cell(
            name,
            "starting",
            "Models of the run before are taken over: they are known by ticks since boot, not by the time of day.",
            _starting(seconds),
        )
        for name, seconds in _STEPS.items()
    ),
    *(
        Cell("suspend", state, f"The first turn after it only looks. {sees}", _suspended(state))
        for state, sees in _SEES.items()
        if state != "idle"
    ),
    Cell(
        "suspend", "idle", "The first turn after it only looks; nobody goes.", _suspended("idle"), slow=True
    ),
)

CELLS: Final = mostly_on_demand(
    _ALL,
    *(
        "clock-an-hour-ahead/idle",
        "clock-an-hour-back/starting",
        "clock-a-day-ahead/draining",
        "suspend/streaming",
    ),
)
