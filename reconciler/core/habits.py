"""How the models of this machine are used, and how soon each is expected to be used again.

The estimate is that of an experiment (docs/scheduling.md): a session that goes on, by the pauses seen so far; the next
one, by the time of the day; what recurs; and who is called after whom.
"""

from collections.abc import Iterable
from math import sqrt
from typing import Final

from reconciler.core.daytime import Daytime
from reconciler.core.gaps import SESSION, Pauses
from reconciler.core.pipelines import Pipelines
from reconciler.core.types import Chance
from reconciler.core.waiters import Waiters

#: Chances that were worked out, on made-up desks of many kinds, against what came true: of those between 0.1 and 0.4
#: three quarters, of the great ones nearly all. What is hardly likely decides nothing.
_LEFT: Final = 0.65
_BEND: Final = 0.7


def sobered(chance: float) -> float:
    """Return the chance that experience leaves of one that was worked out. Keeps their order, and what is certain."""
    return chance * (_LEFT + (1.0 - _LEFT) * float(chance**_BEND))


class Habit:
    """What is known of the use of one model. Times are local seconds."""

    __slots__ = ("active", "calls", "daytime", "last", "pauses")

    def __init__(self, now: float) -> None:
        self.pauses = Pauses()
        self.daytime = Daytime(now)
        #: Requests that go on, and when the last of them ended (or came).
        self.active = 0
        self.last = -1e12
        self.calls = 0

    def arrived(self, at: float) -> None:
        """Note that a request came."""
        pause = at - self.last
        if self.active == 0:
            if self.calls:
                self.pauses.add(max(0.0, pause))
            if pause > SESSION:
                self.daytime.begins(at)
        self.active += 1
        self.calls += 1
        self.last = max(self.last, at)

    def ended(self, at: float) -> None:
        """Note that a request ended, answered or not."""
        self.active = max(0, self.active - 1)
        self.last = max(self.last, at)

    def returns(self, now: float) -> float:
        """Return the mean of exp(-t / 900 s) over the time t until the next use, as far as one model tells it."""
        if self.active:
            return 1.0
        soon, ended, known = self.pauses.goes_on(max(0.0, now - self.last))
        # Two opinions, neither of which knows what the other one does: by the hour of the day, and by how long it has
        # been idle. Their geometric mean erred less than each of them, and than their mean.
        chance = sqrt((soon + ended * self.daytime.next_session(now)) * known)
        return 1.0 - (1.0 - chance) * (1.0 - self.daytime.recurs(now))


class Habits:
    """The habits of all models. Owned by one task; what it is told must come in order of time.

    Times are local seconds: since some local midnight, running on over the days.
    """

    def __init__(self) -> None:
        self._models: dict[str, Habit] = {}
        self._pipelines = Pipelines()
        self._waiters = Waiters()

    def arrived(self, model: str, at: float) -> None:
        """Note that a request for a model came."""
        habit = self._models.get(model)
        if habit is None:
            habit = self._models[model] = Habit(at)
        habit.arrived(at)
        self._pipelines.called(model, at)

    def ended(self, model: str, at: float) -> None:
        """Note that a request ended, whatever became of it."""
        habit = self._models.get(model)
        if habit is not None:
            habit.ended(at)

    def waited(self, model: str, seconds: float, served: float) -> None:
        """Note that a request waited so many seconds for a model that was not in memory, and was served at `served`.

        To be told once it is over, in any order.
        """
        if seconds > 0.0:
            self._waiters.waited(model, seconds, served)

    def chances(self, models: Iterable[str], now: float) -> tuple[Chance, ...]:
        """Return how soon each of `models` is expected to be used again; nothing of one that was never called."""
        known, waiters = self._models, self._waiters.of
        return tuple(
            Chance(m, self._returns(m, known[m], now), waiters(m)) for m in sorted(models) if m in known
        )

    def _returns(self, model: str, habit: Habit, now: float) -> float:
        return sobered(max(habit.returns(now), self._pipelines.expected(model, now)))
