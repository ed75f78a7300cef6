"""How a cell of a model's process goes: a state, what is done, how requests end, what becomes of the model."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from faults.cells import Cell
from faults.clients import Asked
from faults.rig import DEADLINES, Rig
from faults.sick import Act, SickRig
from faults.states import STATES, stopping
from manager import SOON
from support import wait_for

#: Seconds after which a request whose connection ends is not sent once more, with something to spare.
ON_ITS_WAY: Final = 0.15

#: The `same` process serves on; a `new` one serves whoever asks; it is `gone`, as it was to go.
After = Literal["same", "new", "gone"]


def starting(rig: Rig) -> str:
    """A model was started, somebody waits for it, and it does not listen yet."""
    rig.asks("shut")
    rig.doing("loading", "shut")
    wait_for(lambda: rig.processes("shut"), SOON, "the process of a load")
    return "shut"


def slowly_stopping(rig: Rig) -> str:
    """A model is deaf to SIGTERM, and given so much time that the act hits it before it is killed."""
    models = rig.standard()
    rig.edit(models | {"deaf": models["deaf"] | {"timeouts": DEADLINES}})
    return stopping(rig)


SCENES: Final[dict[str, Callable[[Rig], str]]] = {
    **STATES,
    "starting": starting,
    "stopping": slowly_stopping,
}


@dataclass(frozen=True)
class Course:
    """What happens in one state."""

    state: str
    #: What the user sees.
    sees: str
    #: How the request ends that is under way: `answered`, the code of an error, or its status. Empty = there is none.
    ends: str = ""
    after: After = "new"
    #: What the log says of the model, so that a person can find out.
    says: str = ""
    #: It is let go before the request is over: the fault is to heal by itself.
    heals: bool = False
    slow: bool = False
    #: The act, if it is another in this state.
    act: Act | None = None
    #: So many requests are sent afterwards, one after another, and end like that, too.
    asks: int = 0
    #: The manager asks these settings never again to sleep: the next cell needs others.
    tires: bool = False
    #: The next request waits for the next try, as one of a user does; else a person forgets the failure.
    waits: bool = False


def cells(fault: str, act: Act, *courses: Course) -> tuple[Cell, ...]:
    """Return the cells of one fault."""
    return tuple(Cell(fault, one.state, one.sees, _run(one.act or act, one), one.slow) for one in courses)


def _run(act: Act, course: Course) -> Callable[[Rig], None]:
    def run(rig: Rig) -> None:
        assert isinstance(rig, SickRig)
        model = SCENES[course.state](rig)
        under_way = [one for one in rig.asked if one.end is None]
        grown = time.monotonic() + (ON_ITS_WAY if under_way else 0.0)
        wait_for(lambda: time.monotonic() >= grown, 1, "requests that are on their way")
        pid = rig.the(model)
        act(rig, model)
        if course.heals:
            rig.let_go(model)
        for one in under_way:
            _as_said(one, course)
        for _ in range(course.asks):
            _as_said(rig.asks(model), course)
        if course.says:
            rig.said_of(model, course.says)
        rig.let_go(model)
        _afterwards(rig, model, pid, course)
        if course.tires:
            rig.renew(model)

    return run


def _as_said(one: Asked, course: Course) -> None:
    end = one.ended()
    assert (end.what or end.kind) == course.ends, end


def _afterwards(rig: SickRig, model: str, pid: int, course: Course) -> None:
    if course.after == "gone":
        wait_for(lambda: not rig.processes(model), SOON, f"the end of {model}")
        return
    if course.after == "new" and not course.waits:
        rig.client.post(f"/api/v1/models/{model}/forget").raise_for_status()
    end = rig.asks(model).answered()
    if course.after == "same":
        assert end.by == pid, f"{model} was {pid}, and {end.by} answers"
    else:
        assert end.by != pid, f"{pid} still answers for {model}"
        wait_for(lambda: pid not in rig.processes(model), SOON, f"the end of {pid}")
