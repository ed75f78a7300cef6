"""The set of victims that together free enough and cost least: exact, within the order of priorities."""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Final

from reconciler.core.diff import Row
from reconciler.core.shares import Shares
from reconciler.core.victims import cover

#: Of so many candidates the best set is found exactly; of more, one that is nearly so.
EXACT: Final = 24
#: Sets looked at in one search at most; what was the best until then is taken.
LOOKS: Final = 4000


def cheapest(levels: Iterable[Mapping[str, Row]], but: str, short: int, shares: Shares) -> list[Row] | None:
    """Return victims that together free `short` bytes, none of them spare, or None; the model `but` is none of them.

    Of the higher `levels` (by name, sorted by rank) nobody goes while the lower ones are enough, and of each those go
    whose losses add up to the least.
    """
    levels = iter(levels)
    needed: list[list[Row]] = []
    freed = count = 0
    for level in levels:
        count += len(level) - (but in level)
        if count > EXACT:  # known before anybody is looked at
            further = chain(level.values(), *(rest.values() for rest in levels))
            return cover(chain(*needed, (r for r in further if r.name != but)), short, shares)
        needed.append([row for row in level.values() if row.name != but])
        freed += sum(r.charge or 0 for r in needed[-1])
        if freed >= short:
            break
    if freed < short:
        return None
    taken: list[Row] = []
    for rows in reversed(needed):
        freed -= sum(r.charge or 0 for r in rows)
        if short > freed:  # those below are not enough
            chosen = _least(rows, short - freed)
            short -= sum(r.charge or 0 for r in chosen)
            taken = chosen + taken
    return taken


def _least(rows: list[Row], short: int) -> list[Row]:
    """Return the rows of one level that together free `short` bytes, which all of them do, at the least loss."""
    if len(rows) == 1:
        return rows
    search = _Search(sorted((r for r in rows if r.charge), key=_dear), short)
    search.go(0, 0, 0.0, ())
    chosen = set(search.best)
    return [row for row in rows if row.name in chosen]


def _dear(row: Row) -> tuple[float, str]:
    return (row.loss / (row.charge or 1), row.name)


class _Search:
    """Branch and bound over rows sorted by their loss for each byte."""

    def __init__(self, rows: list[Row], short: int) -> None:
        self._rows = rows
        self._short = short
        self._looks = 0
        self._least = float("inf")
        #: Names of the best set so far.
        self.best: tuple[str, ...] = ()
        #: Bytes that the rows from each place on free together.
        self._rest = [0] * (len(rows) + 1)
        for place in range(len(rows) - 1, -1, -1):
            self._rest[place] = self._rest[place + 1] + (rows[place].charge or 0)

    def go(self, place: int, freed: int, loss: float, taken: tuple[str, ...]) -> None:
        """Look at all sets that begin with `taken` and go on from `place`."""
        if freed >= self._short:
            if loss < self._least:
                self._least, self.best = loss, taken
            return
        if freed + self._rest[place] < self._short or (self.best and self._looks >= LOOKS):
            return
        self._looks += 1
        row = self._rows[place]
        size = row.charge or 1
        # Nothing from here on is cheaper for each byte than this one.
        if loss + (self._short - freed) * row.loss / size >= self._least:
            return
        self.go(place + 1, freed + size, loss + row.loss, (*taken, row.name))
        self.go(place + 1, freed, loss, taken)
