"""Who may be displaced by whom, in which order, and which of them are enough."""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from math import inf

from reconciler.core.diff import Fitness, Row
from reconciler.core.shares import Shares
from reconciler.core.types import MayPreempt


def bound(row: Row) -> float:
    """Return the priority from which on `row` may displace nobody. A pinned model outranks all that are not."""
    if row.pinned:
        return inf
    if row.spec.may_preempt is MayPreempt.NONE:
        return -inf
    return row.spec.priority + (1 if row.spec.may_preempt is MayPreempt.EQUAL else 0)


def may_displace(row: Row, priority: int) -> bool:
    """Return whether `row` may displace a model of this priority."""
    return priority < bound(row)


def rank(row: Row) -> tuple[bool, int, bool, float, float, str]:
    """Sort victims: idle before busy, low priority first, stale settings first, then the least loss."""
    last_used = row.instance.last_used if row.instance else 0.0
    return (row.busy, row.spec.priority, row.fitness is not Fitness.DRIFTED, row.loss, last_used, row.name)


class PriorityBytes:
    """Bytes by priority; adding, and summing up to a priority, take O(log n) for n different priorities.

    A Fenwick tree: node i holds the sum of as many levels up to i as its lowest set bit says.
    """

    def __init__(self, rows: Iterable[Row], *, own: bool = False) -> None:
        """Sum up what rows are charged, or only the `own` part of it, that is in no file."""
        rows = list(rows)
        self._levels = sorted({r.spec.priority for r in rows})
        self._tree = [0] * (len(self._levels) + 1)
        for row in rows:
            self.add(row.spec.priority, row.own_charge if own else row.charge or 0)

    def add(self, priority: int, count: int) -> None:
        """Add bytes to a priority that was there at the start."""
        node = bisect_left(self._levels, priority) + 1
        while node < len(self._tree):
            self._tree[node] += count
            node += node & -node

    def below(self, limit: float) -> int:
        """Return the bytes of all whose priority is less than `limit`."""
        node, count = bisect_left(self._levels, limit), 0
        while node:
            count += self._tree[node]
            node -= node & -node
        return count


class Displaceable:
    """Victims sorted by rank, and their bytes: most searches end at a sum, without looking at a single victim."""

    def __init__(self, rows: Iterable[Row]) -> None:
        rows = list(rows)
        # Ordered: of a plain dict, each search would step over all that were taken out at its front.
        self._levels: OrderedDict[tuple[int, bool], OrderedDict[str, Row]] = OrderedDict()
        for row in rows:
            self._levels.setdefault(level(row), OrderedDict())[row.name] = row
        self.bytes = PriorityBytes(rows)

    def levels(self, limit: float) -> Iterator[Mapping[str, Row]]:
        """Yield those whose priority is less than `limit` by name, level by level, the cheapest loss first."""
        for (priority, _), rows in self._levels.items():
            if priority >= limit:
                return
            yield rows

    def discard(self, row: Row) -> None:
        """Take one out, if it is there."""
        rows = self._levels.get(level(row))
        if rows is None or rows.pop(row.name, None) is None:
            return
        self.bytes.add(row.spec.priority, -(row.charge or 0))
        if not rows:
            del self._levels[level(row)]


def level(row: Row) -> tuple[int, bool]:
    """Return what comes before all losses among those that are alike in use: nobody goes before a lower level has gone.

    Of those that sleep, one that is asked for is spared.
    """
    return (row.spec.priority, row.asleep and row.demanded)


def leading(ordered: Iterable[Row], short: int, shares: Shares) -> tuple[list[Row], int]:
    """Return the first of `ordered` that together free `short` bytes, or all of them, and the bytes they free.

    A file that several map is freed by the last of them; `shares` is left as it was.
    """
    taken: list[Row] = []
    freed = 0
    for row in ordered:
        if freed >= short:
            break
        taken.append(row)
        freed += row.own_charge + shares.drop(row.held_files)
    for row in taken:
        shares.hold(row.held_files)
    return taken, freed


def cover(ordered: Iterable[Row], short: int, shares: Shares) -> list[Row] | None:
    """Return the first of `ordered` that together free `short` bytes, less those that proved unnecessary, or None.

    The most valuable are dropped first, so that what is kept is what is worth keeping; `shares` is left as it was.
    """
    taken, freed = leading(ordered, short, shares)
    if freed < short or len(taken) == 1:
        return None if freed < short else taken
    for row in taken:
        shares.drop(row.held_files)
    needed: list[Row] = []
    for row in reversed(taken):
        back = row.own_charge + shares.hold(row.held_files)
        if freed - back >= short:
            freed -= back
        else:
            needed.append(row)
            shares.drop(row.held_files)
    for row in needed:
        shares.hold(row.held_files)
    return needed[::-1]
