"""Who makes room for whom at one step of a plan, and what a model waits for that finds nobody."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from heapq import merge
from math import inf

from reconciler.core.cheapest import cheapest
from reconciler.core.diff import Row
from reconciler.core.leaving import portless
from reconciler.core.patience import drained_from, is_patient, outlasts_wish
from reconciler.core.room import Room
from reconciler.core.selection import Stay
from reconciler.core.types import Policy
from reconciler.core.victims import bound, cover, leading, may_displace


class Displacing(Room):
    """A room in which models may be displaced."""

    def _displace(self, row: Row, short: int) -> list[Row] | None:
        """Return the victims that make room for `row`, none of them spare; None = not enough.

        Those in use come first, then the cheapest loss: a drain may be called off, and until it is over the others
        serve on instead of having gone in vain.
        """
        found = self._find(row, short)
        return None if found is None else sorted(found, key=lambda v: not v.busy)

    def _with_port(self, row: Row, displaced: list[Row], short: int) -> list[Row] | None:
        """Return who leaves for `row` if a port is to come free as well; None = nobody may go for one now."""
        if row.preflight is None or not portless(row, displaced):
            return displaced
        holders = row.preflight.ports_of
        if any(going.instance.model in holders for going in (*self.removals, *self.out.relief)):
            return None  # one comes free without it
        found = (level[name] for level in self._levels(row) for name in level if name in holders)
        holder = next((v for v in found if v.name != row.name), None)
        if holder is None:
            return None
        enough = self._freed([holder], row, max(short, 0))[1] >= short
        return [holder] if enough else sorted([*displaced, holder], key=lambda v: not v.busy)

    def _find(self, row: Row, short: int) -> list[Row] | None:
        limit = bound(row)
        groups = (
            (*self.asleep, self.idle, self.busy) if is_patient(row, self.now) else (*self.asleep, self.idle)
        )
        # Most searches on a full machine find nobody: known without looking at a single victim.
        if sum(group.bytes.below(limit) for group in groups) < short:
            return None
        if self.sharing and self.own_bytes.below(limit) + self.staying.total < short:
            return None
        levels = self._levels(row)
        if not self.sharing and self.policy is Policy.COST:
            return cheapest(levels, row.name, short, self.staying)
        victims = (v for level in levels for v in level.values() if v.name != row.name)
        if not self.sharing:
            return cover(victims, short, self.staying)
        self._step_in(row)
        found = cover(victims, short, self.staying)
        self._step_back(row)
        return found

    def _levels(self, row: Row) -> Iterator[Mapping[str, Row]]:
        """Yield the victims that may go for `row` now, by name, level by level, those whose loss is cheapest first."""
        limit = bound(row)
        for group in (*self.asleep, self.idle):
            for level in group.levels(limit):
                # Few are asked for by a person, and all others ask for no look at each victim.
                wished = row.demand.wished is not None
                yield {n: v for n, v in level.items() if not outlasts_wish(v, row)} if wished else level
        if is_patient(row, self.now):
            for level in self.busy.levels(limit):
                yield {n: v for n, v in level.items() if self.now >= drained_from(v, row)}

    def _could_free(self, row: Row, limit: float, short: int) -> bool:
        """Return whether all victims below a priority together would give back so much, in use or not."""
        mine = self.victims.get(row.name) if row.spec.priority < limit else None
        if self.bytes.below(limit) - ((mine.charge or 0) if mine else 0) < short:
            return False
        if not self.sharing:
            return True
        least = self.own_bytes.below(limit) - (mine.own_charge if mine else 0)
        if least >= short or least + self.staying.total < short:
            return least >= short
        others = (v for v in self.victims.values() if v.name != row.name and v.spec.priority < limit)
        return self._freed(others, row, sys.maxsize)[1] >= short

    def _in_the_way(self, row: Row, short: int) -> tuple[str, ...]:
        """Return the models that are held, where all others that `row` may displace would not be enough."""
        candidates = (v for v in self.held if v is not row and v.name in self.victims)
        held = tuple(v.name for v in candidates if may_displace(row, v.spec.priority))
        if not held:
            return ()
        below = (
            v for v in self.victims.values() if v.name != row.name and may_displace(row, v.spec.priority)
        )
        free_to_go = (v for v in below if not v.demand.held)
        return held if self._freed(free_to_go, row, sys.maxsize)[1] < short else ()

    def _stay(self, row: Row, short: int) -> Stay | None:
        """Return who is the last to go of those that `row` waits for, and when; None = time alone is not enough.

        That is meant of a world in which nothing happens but that time passes.
        """
        times: list[float] = []

        def victims() -> Iterator[Row]:
            for at, victim in self._in_time(row):
                times.append(at)
                yield victim

        taken, freed = self._freed(victims(), row, short)
        if freed >= short:
            return Stay(taken[-1], times[len(taken) - 1])
        since = sorted(v.name for v in self.victims.values() if not v.busy and outlasts_wish(v, row))
        return Stay(self.victims[since[0]], None) if since else None

    def _in_time(self, row: Row) -> Iterator[tuple[float, Row]]:
        """Yield who may go for `row` now, then who may later, the first first, with the time from which on."""
        limit = bound(row)
        yield from (
            (self.now, v) for level in self._levels(row) for v in level.values() if v.name != row.name
        )
        idle = ((safe, v) for safe, v in self.kept if not v.busy and not outlasts_wish(v, row))
        used = ((max(safe, drained_from(v, row)), v) for safe, v in self.used)
        for at, victim in merge(idle, sorted(used, key=_time), key=_time):
            stays = (
                victim.name == row.name or victim.name not in self.victims or victim.spec.priority >= limit
            )
            if not stays and self.now < at < inf:
                yield at, victim

    def _freed(self, victims: Iterable[Row], row: Row, most: int) -> tuple[list[Row], int]:
        """Return the first of `victims` that free `most` bytes together, `row` holding its files, and the bytes."""
        self._step_in(row)
        found = leading(victims, most, self.staying)
        self._step_back(row)
        return found

    def _step_in(self, row: Row) -> None:
        """Let `row` hold its files already: a victim with the same file would not give it back."""
        self.staying.hold(row.files)
        if (old := self._old(row)) is not None:
            self.staying.drop(old.held_files)

    def _step_back(self, row: Row) -> None:
        self.staying.drop(row.files)
        if (old := self._old(row)) is not None:
            self.staying.hold(old.held_files)


def _time(moment: tuple[float, Row]) -> float:
    return moment[0]
