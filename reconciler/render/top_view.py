"""What a live screen shows: the newest documents, how they arrive, and what the person at the keyboard chose."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from reconciler.core.words import span

Json = Mapping[str, Any]

#: Trouble stands before what is well.
_STATES: Final[Mapping[str, int]] = {
    state: place
    for place, state in enumerate(("loading", "evicting", "failing", "blocked", "ready", "asleep", "cold"))
}


@dataclass(frozen=True, slots=True)
class View:
    """All that one picture is made of."""

    status: Json
    plan: Json
    #: The newest events, oldest first.
    events: tuple[Json, ...]
    #: Seconds since `status` arrived: its ages are so much older now.
    age: float = 0.0
    #: How it arrives: `live`, `every 2 s`, or why it does not.
    link: str = "live"
    #: Nothing arrives: what is shown is how it was.
    stale: bool = False
    sort: str = "name"
    filter: str = ""
    #: Characters of a filter that is being typed; None = none is.
    typing: str | None = None
    #: Models that are scrolled out at the top.
    offset: int = 0


def _memory(model: Json) -> tuple[int, int]:
    return -(model["held"] or 0), -(model["size"] or 0)


def _last_used(model: Json) -> tuple[bool, float]:
    return model["idle"] is None, model["idle"] or 0.0


#: The orders a person may choose from, the first one to begin with; each ends with the name.
ORDERS: Final[Mapping[str, Callable[[Json], Any]]] = {
    "name": lambda model: 0,
    "memory": _memory,
    "last used": _last_used,
    "waiting": lambda model: -(model["waiting"] + model["gated"] + model["active"]),
    "priority": lambda model: -(model["priority"] or 0),
    "state": lambda model: _STATES.get(model["state"], len(_STATES)),
}


def chosen(view: View) -> list[Json]:
    """Return the models that are meant, in the order that was chosen."""
    wanted = (view.typing if view.typing is not None else view.filter).casefold()
    found = [model for model in view.status["models"] if wanted in _searched(model)]
    order = ORDERS[view.sort]
    return sorted(found, key=lambda model: (order(model), model["name"]))


def _searched(model: Json) -> str:
    """Return what a filter is looked for in."""
    words = (model["name"], *model["aliases"], model["state"], model["residency"] or "")
    return " ".join(words).casefold()


def older(view: View) -> View:
    """Return a view of this moment, its ages grown: between two documents the clock goes on."""
    status, seconds = view.status, view.age
    action = status["action"]
    models = [_older(model, seconds) for model in status["models"]]
    if action is not None:
        action = {**action, "elapsed": action["elapsed"] + seconds}
    return replace(view, status={**status, "action": action, "models": models}, age=0.0)


def _older(model: Json, seconds: float) -> Json:
    idle, retry = model["idle"], model["retry_in"]
    # In use it is not idle: that is 0 however long it lasts.
    grown = idle if not idle else idle + seconds
    left = None if retry is None else max(0.0, retry - seconds)
    return {**model, "idle": grown, "retry_in": left, "verdict": _verdict(model["verdict"], grown, left)}


def _verdict(verdict: Json | None, idle: float | None, left: float | None) -> Json | None:
    """Return a verdict with the times in its sentence as they are now: the columns beside it count on."""
    if verdict is None:
        return None
    detail = verdict["detail"]
    if idle:
        detail = re.sub(r"^idle [\d.]+[smhd]$", f"idle {span(idle)}", detail)
    if left is not None:
        detail = re.sub(r"tries again in [\d.]+[smhd]", f"tries again in {span(left)}", detail)
    return {**verdict, "detail": detail}
