"""What a live screen shows: the newest documents, how they arrive, and what the person at the keyboard chose."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

Json = Mapping[str, Any]


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
    "state": lambda model: model["state"],
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
    return {**model, "idle": grown, "retry_in": None if retry is None else max(0.0, retry - seconds)}
