"""What is loaded before anybody asks: the model whose next use is expected soon enough, if that costs nobody anything.

Of all that could be in memory, models in use apart, the set of most value is worked out; one step is made towards it.
"""

from collections.abc import Iterable
from itertools import groupby
from math import inf
from typing import Final

from reconciler.core.blocking import Blocking
from reconciler.core.cheapest import cheapest
from reconciler.core.diff import Row, Table
from reconciler.core.knapsack import most
from reconciler.core.leaving import portless, rests_until, unstartable
from reconciler.core.pressure import Level
from reconciler.core.prewarms import HOUR
from reconciler.core.shares import own
from reconciler.core.types import (
    Demand,
    Load,
    Manifest,
    Observation,
    Policy,
    Prewarm,
    Prewarms,
    Reason,
    Residency,
    World,
)
from reconciler.core.value import load_seconds, loss, value
from reconciler.core.victims import bound, cover, level, may_displace

#: Seconds between two of them at least, and seconds after its last use during which a model is taken as in use.
PACE: Final = 60.0
RECENT: Final = 60.0
#: What is gained must be more than so many seconds (whoever needs the room next has to make it first) and this share of
#: what the load takes, after what is given up was counted so many times: estimates err, and a load is never free.
ROOM: Final = 0.3
LEAST: Final = 0.01
CAUTION: Final = 1.15


class Advance(Blocking):
    """A room in which models may be loaded in advance."""

    def __init__(self, manifest: Manifest, world: World, table: Table, now: float) -> None:
        super().__init__(manifest, world, table, now)
        self.prewarm = manifest.prewarm
        self._due = due(manifest, world.observation, world.prewarms, now)
        self._until = dict(world.prewarms.until)

    def ahead(self) -> tuple[Row, list[Row], int] | None:
        """Return a model to load in advance, the models that go for it, and the bytes kept free; None = there is none.

        To be asked when all else is decided.
        """
        if not self._at_leisure():
            return None
        candidates = {row.name: self._worth(row) for row in self.table.rows if self._may_come(row)}
        candidates = {name: worth for name, worth in candidates.items() if worth > 0.0}
        if not candidates:
            return None
        rows = [row for row in self.table.rows if row.name in candidates]
        # A warm model that lacks room would take what is freed for another one.
        if self.prewarm is Prewarm.FULL and not any(
            block.reason is Reason.NO_ROOM for block in self.out.blocked.values()
        ):
            return self._in_place_of_others(rows, candidates)
        return self._into_free_memory(rows, candidates)

    def _at_leisure(self) -> bool:
        """Whether nothing else is to be done, nobody waits, and the last one was long enough ago."""
        if not self._due or self.free is None or self.held_up or self.loading:
            return False
        something = self.out.relief or self.out.coming or self.removals
        return not something and self.pressure.level < Level.SOFT

    def _may_come(self, row: Row) -> bool:
        if row.instance is not None or row.sleeper is not None or row.name not in self.chances:
            return False
        # Whatever is wanted in memory has claimed its room already, by rules of its own.
        if portless(row, ()):
            return False
        if row.wanted or row.demand.dismissed or row.spec.residency is Residency.TRANSIENT:
            return False
        # A person said that it is not to hold memory while nobody uses it.
        if row.spec.idle_ttl is not None:
            return False
        # It is tried again when somebody asks for it: whoever is not waiting gains nothing from one more failure.
        if row.entry is not None and row.entry.failures > 0:
            return False
        if self._until.get(row.name, 0.0) > self.now or rests_until(row, self.now) is not None:
            return False
        return unstartable(row, self.now) is None and self.pinned.short(row) <= 0

    def _worth(self, row: Row) -> float:
        """Return the seconds that loading a model in advance spares, above what it must spare at least."""
        spared = row.worth = value(row, self.chances[row.name], self.now)
        return spared - LEAST * load_seconds(row.entry, row.size) - ROOM

    def _into_free_memory(
        self, rows: list[Row], worth: dict[str, float]
    ) -> tuple[Row, list[Row], int] | None:
        room = (self.free or 0) - self.kept_for_demand
        fitting = [row for row in rows if self._lack(row, room, self.staying) <= 0]
        chosen = most([(worth[r.name], r.need or 0, r.name) for r in fitting], room)
        best = max((r for r in fitting if r.name in chosen), key=lambda r: worth[r.name], default=None)
        return None if best is None else (best, [], self.kept_for_demand)

    def _in_place_of_others(
        self, rows: list[Row], worth: dict[str, float]
    ) -> tuple[Row, list[Row], int] | None:
        room = (self.free or 0) - self.kept_for_demand
        movable = [row for row in self.victims.values() if self._may_go(row)]
        items = [(worth[r.name], r.need or 0, r.name) for r in rows]
        # What sleeps is not weighed: it serves nobody, and goes before any that serves.
        items += [(self._price(r), r.charge or 0, r.name) for r in movable if not r.asleep]
        chosen = most(items, room + sum(r.charge or 0 for r in movable))
        others = [r for r in movable if r.name not in chosen]
        too_dear = False
        # An order that is the same once somebody has gone: he goes for the one that is loaded then.
        for row in sorted((r for r in rows if r.name in chosen), key=lambda r: (-bound(r), -worth[r.name])):
            dropped = self._dropped(row, room, others)
            if dropped is None or (dropped and too_dear):
                continue  # what goes for this one would let in the other one first, which was too dear before
            if worth[row.name] > CAUTION * sum(map(self._price, dropped)):
                return row, dropped, self.kept_for_demand
            too_dear = True
        return None

    def _dropped(self, row: Row, room: int, others: Iterable[Row]) -> list[Row] | None:
        """Return the models that would go for `row`; None = those that may are not enough."""
        short = self._lack(row, room, self.staying)
        if short <= 0:
            return []
        allowed = [r for r in others if may_displace(row, r.spec.priority)]
        if self.policy is Policy.COST:
            levels = ({r.name: r for r in alike} for _, alike in groupby(allowed, key=_level))
            return cheapest(levels, row.name, short, self.staying)
        allowed.sort(key=lambda r: (not r.asleep, self._price(r)))
        return cover(allowed, short, self.staying)

    def _price(self, row: Row) -> float:
        """Return the seconds that evicting a running model costs, whatever its rank is made of."""
        return loss(row, self.chances.get(row.name), self.now)

    def _may_go(self, row: Row) -> bool:
        """Whether a model may make way for one that nobody waits for yet."""
        if row.busy or row.pinned or row.wanted or row.instance is None or self.sharing:
            return False
        # As `next_look` tells it: the difference of two times may be a hair less than what was added.
        return self.now >= row.instance.last_used + RECENT and self._has_stayed(row)


def _level(row: Row) -> tuple[bool, tuple[int, bool]]:
    """Return what comes before all losses: nobody goes while there are enough that sleep, or of a lower level."""
    return (not row.asleep, level(row))


def waits(demand: Demand) -> bool:
    """Return whether somebody waits, for a model or at its door, or a person asked for it."""
    return demand.waiting > 0 or demand.wanted or demand.gated > 0


def broken_off(action: Load, world: World) -> bool:
    """Return whether a load in advance is broken off: somebody waits for another model, and nobody for this one."""
    if action.reason is not Reason.PREWARM:
        return False
    asked = {d.model for d in world.observation.demands if d.waiting > 0 or d.wanted}
    return bool(asked) and action.model not in asked


def due(manifest: Manifest, seen: Observation, known: Prewarms, now: float) -> bool:
    """Return whether a model may be loaded in advance now, as far as time and those who wait decide it."""
    if manifest.prewarm is Prewarm.OFF or (known.begun and now - known.begun[-1] < PACE):
        return False
    if sum(now - begun < HOUR for begun in known.begun) >= manifest.prewarm_per_hour:
        return False
    return not any(waits(demand) for demand in seen.demands)


def next_look(manifest: Manifest, world: World, table: Table, free: int | None, now: float) -> float | None:
    """Return when a model may next be loaded in advance, as far as time alone decides; None = never.

    `free` is what is left of the memory once the plan is performed; without a model that fits into it, or that others
    might make way for, there is nothing to look for.
    """
    if manifest.prewarm is Prewarm.OFF or manifest.prewarm_per_hour <= 0 or free is None:
        return None
    # While none is due, the chances of models that are not in memory need not have been asked for.
    at_leisure = due(manifest, world.observation, world.prewarms, now)
    known = {c.model for c in world.chances}
    room = inf if manifest.prewarm is Prewarm.FULL else free
    if not any(
        r.instance is None and (r.name in known or not at_leisure) and own(r.need or 0, r.files) <= room
        for r in table.rows
    ):
        return None
    last = world.prewarms.begun[-1] if world.prewarms.begun else -PACE
    times = [now + PACE]
    if manifest.prewarm is Prewarm.FULL:
        # Who was in use becomes one who may make way: not a minute later is that looked at, but then.
        times += [r.instance.last_used + RECENT for r in table.rows if r.instance is not None and not r.busy]
    return max(last + PACE, min(time for time in times if time > now))
