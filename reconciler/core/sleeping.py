"""Models that give their memory back without ending: which of them are asked to, and what becomes of their processes.

A process that sleeps serves nobody and is charged what it is measured to hold. It is the first to go for whoever may
displace its model, and is then really stopped; its own model, once it is loaded again, wakes it.
"""

from collections.abc import Iterator
from typing import Final

from reconciler.core.diff import Fitness, Row, Table
from reconciler.core.leaving import unstartable
from reconciler.core.restarts import restart_due
from reconciler.core.selection import Going
from reconciler.core.types import Reason
from reconciler.core.victims import Displaceable
from reconciler.core.words import size

#: Reasons for which it is enough that a model gives its memory back.
_ENOUGH: Final = frozenset(
    {
        Reason.MAKE_ROOM,
        Reason.LESS_LIKELY,
        Reason.OVER_BUDGET,
        Reason.MEMORY_PRESSURE,
        Reason.IDLE_EXPIRED,
        Reason.TRANSIENT_DONE,
    }
)


def may_sleep(going: Going, now: float) -> bool:
    """Return whether a process that leaves is asked to sleep instead: its model could be woken as it is."""
    row = going.row
    if row is None or not row.spec.sleeps or row.pinned or going.reason not in _ENOUGH:
        return False
    tired = going.instance.asleep or going.instance.sleepless or row.fitness is not Fitness.FRESH
    return not tired and not restart_due(row, now)


def asleep_text(row: Row) -> str:
    """Return what a model that does not run still holds: `asleep, holds 2.1 GiB`; "" = it does not sleep."""
    return f"asleep, holds {size(row.sleeper.charge)}" if row.sleeper is not None else ""


class Sleepers:
    """The processes that sleep, at one step of a plan."""

    def __init__(self, table: Table, now: float) -> None:
        self.rows = [row.sleeper for row in table.rows if row.sleeper is not None]
        self._leave = {
            row.name: _leaves(row, row.sleeper, now) for row in table.rows if row.sleeper is not None
        }
        self._here = {row.name: row for row in self.rows}
        #: May have to give way, the cheapest loss first; of a pinned model none does.
        self.victims = sorted((r for r in self.rows if not self._leave[r.name] and not r.pinned), key=_rank)
        self.displaceable = Displaceable(self.victims)

    def leaving(self) -> Iterator[tuple[Row, Reason]]:
        """Yield those that cannot be woken as they are, or are not wanted any more, and take them out."""
        for row in self.rows:
            if reason := self._leave[row.name]:
                self.gone(row)
                yield row, reason

    def of(self, row: Row) -> Row | None:
        """Return the process that a model would wake, if it is still there at this step."""
        return self._here.get(row.name) if row.sleeper is not None else None

    def here(self) -> Iterator[Row]:
        """Yield those that are still there, sorted by name."""
        yield from self._here.values()

    def gone(self, row: Row) -> None:
        """Note that one is woken or stopped."""
        self._here.pop(row.name, None)
        self.displaceable.discard(row)

    def keep(self, row: Row) -> Row | None:
        """Let nobody displace the process of a model any more; return its row if that was possible before."""
        mine = self.of(row)
        if mine is not None:
            self.displaceable.discard(mine)
        return mine


def _leaves(row: Row, sleeper: Row, now: float) -> Reason | None:
    """Return why the process of a model that sleeps has to go; not for settings that could not be started anyway."""
    if (sleeper.fitness is Fitness.DRIFTED or not row.spec.sleeps) and unstartable(row, now) is None:
        return Reason.DRIFTED
    demand = row.demand
    if demand.dismissed and demand.waiting == 0 and not demand.wanted and not row.pinned:
        return Reason.DISMISSED
    return None


def _rank(row: Row) -> tuple[int, bool, float, str]:
    """Sort them: low priority first, then those that nobody asks for, then the least recently used."""
    last_used = row.instance.last_used if row.instance is not None else 0.0
    return (row.spec.priority, row.demanded, last_used, row.name)
