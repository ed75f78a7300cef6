"""Habits that know the future: when each model is really asked for next, by the trace."""

from array import array
from collections.abc import Iterable, Mapping
from math import exp

from reconciler.core.gaps import HORIZON
from reconciler.core.habits import Habits
from reconciler.core.types import Chance
from reconciler.simulate.trace import Trace


class Foresight(Habits):
    """Instead of an estimate the very figure that is estimated: exp(-t / 900 s), t until the next use.

    The times are those of a trace in which nobody ever waits. A session that had to wait comes later than that; its
    next request then counts as due at once.
    """

    def __init__(self, trace: Trace, routes: Mapping[str, str]) -> None:
        """Note all uses of each model; `routes` leads from the names that clients use to models, as in a layout."""
        super().__init__()
        self._uses: dict[str, array[float]] = {}
        for at, number in zip(trace.at, trace.model, strict=True):
            name = trace.models[number]
            self._uses.setdefault(routes.get(name, name), array("d")).append(at)
        self._come: dict[str, int] = {}
        self._active: dict[str, int] = {}

    def arrived(self, model: str, at: float) -> None:
        """Note that a request came."""
        self._come[model] = self._come.get(model, 0) + 1
        self._active[model] = self._active.get(model, 0) + 1

    def ended(self, model: str, at: float) -> None:
        """Note that a request ended, whatever became of it."""
        self._active[model] = self._active.get(model, 0) - 1

    def chances(self, models: Iterable[str], now: float) -> tuple[Chance, ...]:
        """Return how soon each model is used again: 1 = it is in use, 0 = never again."""
        return tuple(Chance(model, self._share(model, now)) for model in sorted(models))

    def _share(self, model: str, now: float) -> float:
        if self._active.get(model):
            return 1.0
        uses, come = self._uses.get(model, array("d")), self._come.get(model, 0)
        return exp(-max(0.0, uses[come] - now) / HORIZON) if come < len(uses) else 0.0
