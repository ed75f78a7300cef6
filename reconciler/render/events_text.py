"""Events as people read them: one line each, in local time."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from reconciler.render.paint import Paint, one_line

Json = Mapping[str, Any]

_COLOURS: Final = {
    "load": "yellow",
    "loaded": "green",
    "evict": "yellow",
    "given-up": "yellow",
    "cold-start": "yellow",
    "lease-over": "yellow",
    "state-restored": "green",
    "load-failed": "red",
    "wake-failed": "red",
    "restore-failed": "red",
    "crashed": "red",
    "suspected": "yellow",
    "cleared": "green",
    "hung": "red",
    "safe-mode": "red",
    "evicted-then-wanted": "red",
    "state-lost": "red",
}
#: Bad news whatever the kind.
_BAD: Final = frozenset({"Refused"})
_KIND_WIDTH: Final = 14
_MODEL_WIDTH: Final = 8


def clock_text(at: float) -> str:
    """Return wall-clock seconds as local date and time, `2026-11-30 09:00:00`."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


class EventLines:
    """Writes events below each other. Columns grow with what comes, and never shrink: lines may be out already."""

    def __init__(self, paint: Paint, clock: Callable[[float], str] = clock_text) -> None:
        self._paint = paint
        self._clock = clock
        self._kind, self._model = _KIND_WIDTH, _MODEL_WIDTH

    def lines(self, events: Iterable[Json]) -> list[str]:
        """Return a line for each event."""
        found = list(events)
        self._kind = max(self._kind, *(len(one_line(e["kind"])) for e in found), 0)
        self._model = max(self._model, *(len(_model(e)) for e in found), 0)
        return [self._line(event) for event in found]

    def _line(self, event: Json) -> str:
        kind, reason = one_line(event["kind"]), one_line(event["reason"])
        colour = "red" if reason in _BAD else _COLOURS.get(kind)
        shown = self._paint(kind, colour) if colour else kind
        message = f": {one_line(event['message'])}" if event["message"] else ""
        model = _model(event).ljust(self._model)
        pad = " " * (self._kind - len(kind))
        return f"{self._paint(self._clock(event['at']), 'dim')}  {shown}{pad}  {model}  {reason}{message}"


def _model(event: Json) -> str:
    return one_line(event["model"]) if event["model"] is not None else "-"
