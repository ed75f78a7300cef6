"""How many wait together when a model has to be loaded: one person at a chat, or ten requests of a program at once."""

from typing import Final

#: Whoever is served within so many seconds of the first one has waited for the same load.
TOGETHER: Final = 45.0
#: Each load counts this much less with every further one of the same model.
_FADING: Final = 0.97
#: A model counts as the mean of all in so many loads, beside its own.
_BELIEF: Final = 3.0


class _Load:
    """Those who waited for one load."""

    __slots__ = ("first", "longest", "seconds")

    def __init__(self, first: float) -> None:
        self.first = first
        self.seconds = self.longest = 0.0


class Waiters:
    """How many wait together, by model; one who comes late in a load counts for as much as he waits."""

    def __init__(self) -> None:
        #: The load of each model whose waiters are being counted.
        self._open: dict[str, _Load] = {}
        #: Faded number of loads of each model that were counted, and of those who waited for them; and both of all.
        self._loads: dict[str, float] = {}
        self._waiters: dict[str, float] = {}
        self._all = 0.0
        self._of_all = 0.0

    def waited(self, model: str, seconds: float, served: float) -> None:
        """Note that somebody waited so many seconds for a model that was not there, and was served at `served`.

        They may come in any order; one who waited for a load that is counted already is left out.
        """
        load = self._open.get(model)
        if load is not None and served < load.first - TOGETHER:
            return
        if load is None or served > load.first + TOGETHER:
            if load is not None:
                self._count(model, load)
            load = self._open[model] = _Load(served)
        load.seconds += seconds
        load.longest = max(load.longest, seconds)

    def _count(self, model: str, load: _Load) -> None:
        waiters = load.seconds / load.longest
        before, of_before = self._loads.get(model, 0.0), self._waiters.get(model, 0.0)
        self._loads[model] = before * _FADING + 1.0
        self._waiters[model] = of_before * _FADING + waiters
        self._all += self._loads[model] - before
        self._of_all += self._waiters[model] - of_before

    def of(self, model: str) -> float:
        """Return how many are expected to wait together for a model; 1 as long as nothing is known of any."""
        if not self._loads:
            return 1.0
        mean = self._of_all / self._all
        return (self._waiters.get(model, 0.0) + _BELIEF * mean) / (self._loads.get(model, 0.0) + _BELIEF)
