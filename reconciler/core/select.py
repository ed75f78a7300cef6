"""Who keeps memory, who is loaded, and who gives way for whom.

Two orders, and they must stay two. *Rank* says who keeps memory: priority, then the most recently used. *Urgency* says
whose turn it is to be loaded, and uses only what the plan itself cannot change: pinned, demanded, priority, arrival,
name. With one order for both, performing the first step would reorder the rest and a dry run would lie.
"""

import sys
from collections import deque
from collections.abc import Iterator
from itertools import chain, islice
from math import inf
from typing import Final

from reconciler.core import book
from reconciler.core.diff import Fitness, Row, Table
from reconciler.core.leaving import (
    going_order,
    removal_reason,
    rests_until,
    spared,
    stray_reason,
    unstartable,
)
from reconciler.core.pressure import Level
from reconciler.core.reach import Pinned
from reconciler.core.selection import Block, Coming, Going, Selection
from reconciler.core.shares import Files, Shares, own, shared, within
from reconciler.core.types import Instance, Manifest, Observation, Reason
from reconciler.core.victims import Displaceable, PriorityBytes, bound, cover, leading, may_displace, rank
from reconciler.core.words import size as size_text

#: A request that waited this long may have a busy victim sealed and drained; until then victims must be idle.
PATIENCE: Final = 10.0
#: Models named of those that take the room before a blocked one.
BEHIND_SHOWN: Final = 3


def select(manifest: Manifest, seen: Observation, table: Table, now: float) -> Selection:
    """Decide who leaves and who comes, in order."""
    return _Selector(manifest, seen, table, now).run()


class _Selector:
    """One pass over the table; `free` runs along with the steps decided so far."""

    def __init__(self, manifest: Manifest, seen: Observation, table: Table, now: float) -> None:
        self.now = now
        self.table = table
        self.pressure = seen.pressure
        self.budget = book.budget(manifest, seen.memory)
        instances = [r.instance for r in table.rows if r.instance is not None] + table.strays
        capacity = book.capacity(manifest, seen.memory, instances)
        soft = book.capacity(manifest, seen.memory, instances, book.mark(manifest, soft=True))
        #: Room that only a model somebody waits for may take: between the soft mark and the hard one.
        self.kept_for_demand = (capacity or 0) - (soft or 0)
        #: Files of all that is in memory at this step of the plan, and of those of it that do not leave anyway.
        self.here, self.staying = Shares(), Shares()
        self.sharing = shared(_holders_of_files(table))
        self.out = Selection(capacity=capacity, shortage=seen.pressure.cause)
        #: What is left of the capacity at this step of the plan; None = something that is there then is unknown.
        self.free: int | None = None
        #: Processes whose charge is unknown.
        self.unknown = 0
        self._add_up()
        #: Leave whatever happens, idle ones first: a drain holds up everything behind it. And what they hold alone.
        self.removals: deque[Going] = deque()
        self.removals_own = 0
        victims = sorted(self._sort_out_residents(), key=rank)
        #: May have to give way, the cheapest loss first.
        self.victims = {r.name: r for r in victims}
        self.held = sorted((r for r in victims if r.demand.held), key=lambda r: r.name)
        self.loading = [r.name for r in table.rows if r.instance is not None and not r.instance.ready]
        #: What all that are loaded first will keep.
        self.coming_bytes = 0
        self.bytes = PriorityBytes(victims)
        self.own_bytes = PriorityBytes(victims if self.sharing else (), own=True)
        #: Those of them that may go now, and those that may be drained now.
        settled = [r for r in victims if self._has_stayed(r)]
        self.idle = Displaceable(r for r in settled if not r.busy)
        # A model that is held stays until it is released, however long somebody waits for its room.
        self.busy = Displaceable(
            r for r in settled if r.busy and not r.demand.held and not spared(r, Reason.MAKE_ROOM)
        )
        self.pinned = Pinned(table, now)
        #: Least room in which a model would fit that is demanded and found none; and, where files are shared, the
        #: models themselves: what they need changes with who holds a file.
        self.least_blocked: int | None = None
        self.blocked_sharing: list[Row] = []
        #: Nothing is loaded while memory is short.
        self.held_up = False

    def run(self) -> Selection:
        self._relieve()
        self._relieve_pressure()
        for row in self._claimants():
            self._claim(row)
        self._look_ahead()
        self.out.holders = self._holders()
        while self.removals:
            self.out.leftovers.append(self._remove_next())
        return self.out

    def _add_up(self) -> None:
        """Take all that runs into the account: what models hold alone, and each mapped file once."""
        running = [(r.instance.ready, r.charge, r.held_files) for r in self.table.rows if r.instance]
        running += [(True, book.stray_charge(s), _stray_files(s)) for s in self.table.strays]
        sums = {True: 0, False: 0}
        # What is ready first: a file that a model maps while it loads may be there already.
        for is_ready, charge, files in sorted(running, key=lambda r: not r[0]):
            self.staying.hold(files)
            sums[is_ready] += own(charge or 0, files) + self.here.hold(files)
            self.unknown += charge is None
        self.out.held, self.out.reserved = (None if self.unknown else sums[True]), sums[False]
        if self.out.capacity is None:
            return
        self.free = self.out.capacity - sums[True] - sums[False]
        self.out.free = None if self.unknown else self.free

    # -- who leaves whatever happens ------------------------------------------------------------------------------

    def _sort_out_residents(self) -> list[Row]:
        """Part the residents into those that leave, those that may have to (returned), and those that stay."""
        first: list[Going] = []
        going: list[Going] = []
        victims: list[Row] = []
        named = {r.name for r in self.table.rows}
        for stray in self.table.strays:
            charge, files = book.stray_charge(stray), _stray_files(stray)
            busy = stray.model in self.table.still_serving and not stray.broken
            if busy and stray.model in self.table.spared:
                continue
            leaving = Going(stray, own(charge or 0, files), stray_reason(stray, named), files, busy=busy)
            # Before anything else go: a second process, which would pass for the model were the other one stopped
            # first; and one whose memory cannot be read, since nothing can be admitted beside it.
            ahead = leaving.reason is not Reason.REMOVED or charge is None
            (first if ahead else going).append(leaving)
        for row in self.table.rows:
            if row.instance is None or not row.instance.ready:
                continue
            reason = removal_reason(row, self.now)
            if reason is not None and not spared(row, reason):
                busy = row.demand.in_use
                leaving = Going(row.instance, row.own_charge, reason, row.held_files, row, busy=busy)
                (first if row.charge is None else going).append(leaving)
            elif not row.pinned:
                victims.append(row)
        for leaving in sorted(first, key=going_order):
            self.staying.drop(leaving.files)
            leaving.charge += self.here.drop(leaving.files)
            self.out.relief.append(leaving)
        unknown = self.unknown - sum(1 for g in first if _charge_of(g) is None)
        self.free = None if unknown or self.free is None else self.free + sum(g.charge for g in first)
        for leaving in sorted(going, key=going_order):
            self.staying.drop(leaving.files)
            self.removals_own += leaving.charge
            self.removals.append(leaving)
        return victims

    @property
    def _removals_total(self) -> int:
        """What comes back once all that leaves anyway has left, the files only they hold included."""
        return self.removals_own + self.here.total - self.staying.total

    def _remove_next(self) -> Going:
        """Let the next of those that leave anyway go."""
        going = self.removals.popleft()
        self.removals_own -= going.charge
        going.charge += self.here.drop(going.files)
        self.free = (self.free or 0) + going.charge
        return going

    def _relieve(self) -> None:
        """Bring what stays below the budget: the budget may have been lowered, or a model has outgrown its size."""
        if self.budget is None or self.free is None:
            return
        leaving = {g.row.name for g in (*self.removals, *self.out.relief) if g.row is not None}
        rows = (r for r in self.table.rows if r.instance is not None and r.name not in leaving)
        over = sum(r.own_charge for r in rows) + self.staying.total - self.budget
        if over > 0:
            idle = [r for r in self.victims.values() if not r.busy]
            for row in cover(idle, over, self.staying) or idle:
                self.out.relief.append(self._take(row, Reason.OVER_BUDGET))

    def _relieve_pressure(self) -> None:
        """While memory is short nothing is loaded, and models go in the order of their rank until the excess is gone.

        Only the first of them goes before the machine is looked at again. What leaves anyway goes before it, unless
        it is still in use: a drain may take long.
        """
        pressure = self.pressure
        critical = pressure.level is Level.CRITICAL
        candidates = [r for r in self.victims.values() if critical or not r.busy]
        leaving = bool(self.out.relief) or any(not g.busy for g in self.removals)
        # With nobody left to go, waiting for the target would be for ever: what fits below the hard mark is let in.
        waits = pressure.relieving and (leaving or bool(candidates))
        self.held_up = waits or pressure.level >= Level.HARD
        if pressure.relieving and pressure.evident and not leaving and self.out.capacity is not None:
            for row in leading(candidates, max(1, pressure.excess), self.staying)[0]:
                self.out.relief.append(self._take(row, Reason.MEMORY_PRESSURE))

    # -- who comes ------------------------------------------------------------------------------------------------

    def _claimants(self) -> list[Row]:
        relieved = {g.row.name for g in self.out.relief if g.row is not None}
        rows = [
            r
            for r in self.table.rows
            if r.wanted
            and (
                r.instance is None
                or r.name in relieved
                or (r.fitness is Fitness.DRIFTED and r.instance.ready and not spared(r, Reason.DRIFTED))
            )
        ]
        return sorted(rows, key=_urgency)

    def _claim(self, row: Row) -> None:
        """Load one model if it can be started and there is, or can be made, room for it."""
        reason = unstartable(row, self.now)
        if reason is None and self.free is None:
            reason = Reason.MEMORY_UNKNOWN
        if reason is None and rests_until(row, self.now) is not None:
            reason = Reason.RESTING
        if reason is not None or row.need is None or self.free is None or self.budget is None:
            self.out.blocked[row.name] = Block(reason or Reason.SIZE_UNKNOWN)
            return
        never = self.pinned.beside(row) - self.budget
        if never > 0:
            self.out.blocked[row.name] = Block(Reason.NEVER_FITS, never)
            return
        if self.held_up:
            self.out.blocked[row.name] = Block(Reason.MEMORY_PRESSURE)
            return
        if row.demanded:
            self._claim_demanded(row)
        else:
            self._claim_warm(row)

    def _look_ahead(self) -> None:
        """Say of cold models what a request for them would be told, before there is one."""
        for row in self.table.rows:
            if row.instance is not None or row.wanted:
                continue
            reason = unstartable(row, self.now)
            if reason is not None:
                self.out.hopeless[row.name] = Block(reason)
            elif row.need is not None and self.budget is not None:
                short = self.pinned.beside(row) - self.budget
                if short > 0:
                    self.out.hopeless[row.name] = Block(Reason.NEVER_FITS, short)

    def _holders(self) -> str:
        """Name the three largest models that are not pinned and stay, with what a claimant would have to outrank."""
        staying = [r for r in self.victims.values() if r.charge]
        largest = sorted(staying, key=lambda r: (-(r.charge or 0), r.name))[:3]
        return ", ".join(f"{r.name} ({size_text(r.charge)}, priority {r.spec.priority})" for r in largest)

    def _replaced(self, row: Row) -> bool:
        """Whether a process of old settings has to leave before the model is loaded."""
        return row.fitness is Fitness.DRIFTED and (row.name in self.victims or row.pinned)

    def _lack(self, row: Row, room: int, shares: Shares) -> int:
        """Return the bytes that `room` is short of what loading takes, once the model's own old process has left."""
        if self._replaced(row):
            room += row.own_charge + shares.drop(row.held_files)
            need = own(row.need or 0, row.files) + shares.missing(row.files)
            shares.hold(row.held_files)
            return need - room
        return own(row.need or 0, row.files) + shares.missing(row.files) - room

    def _claim_warm(self, row: Row) -> None:
        """Load a model nobody waits for: only below the soft mark, and if no room is kept from a request that waits."""
        room = (self.free or 0) + self._removals_total
        short = self._lack(row, room, self.staying)
        grows = short + room > 0
        if grows and self.pressure.level >= Level.SOFT:
            self.out.blocked[row.name] = Block(Reason.MEMORY_PRESSURE)
            return
        kept = self.kept_for_demand if grows else 0
        short += kept
        if short > 0 or (self._anyone_blocked and (grows or self._owed(row, room, []))):
            self.out.blocked[row.name] = Block(Reason.NO_ROOM, max(short, 0))
            return
        self._load(row, [], kept)

    def _claim_demanded(self, row: Row) -> None:
        room = (self.free or 0) + self._removals_total
        short = self._lack(row, room, self.staying)
        displaced = self._displace(row, short) if short > 0 else []
        if displaced is None:
            self._block_for_room(row, short + room, short)
        elif self._owed(row, room, displaced):
            # What would be freed is owed to somebody more urgent, who was not allowed to free it: leave all as it is.
            self._block_for_room(row, short + room, short, Reason.OUTRANKED)
        else:
            self._load(row, displaced)

    @property
    def _anyone_blocked(self) -> bool:
        return self.least_blocked is not None or bool(self.blocked_sharing)

    def _owed(self, row: Row, room: int, displaced: list[Row]) -> bool:
        """Return whether a more urgent model that is blocked would fit once those have left that leave for `row`."""
        leaving = [*displaced, row] if self._replaced(row) else displaced
        if self.least_blocked is not None:
            return self.least_blocked <= room + sum(r.charge or 0 for r in leaving)
        if not self.blocked_sharing:
            return False
        room += sum(r.own_charge + self.staying.drop(r.held_files) for r in leaving)
        owed = any(self._lack(r, room, self.staying) <= 0 for r in self.blocked_sharing)
        for other in leaving:
            self.staying.hold(other.held_files)
        return owed

    def _block_for_room(self, row: Row, needs_room: int, short: int, reason: Reason | None = None) -> None:
        held: tuple[str, ...] = ()
        if reason is None:
            if self._could_free(row, bound(row), short):
                reason = Reason.VICTIMS_BUSY
                held = self._in_the_way(row, short)
            elif self._could_free(row, inf, short):
                reason = Reason.OUTRANKED
            else:
                reason = Reason.INSUFFICIENT_MEMORY
        block = Block(reason, max(short, 0), held)
        if reason is Reason.INSUFFICIENT_MEMORY:
            coming = (c.row.name for c in self.out.coming)
            block.behind = tuple(islice(chain(self.loading, coming), BEHIND_SHOWN))
            block.further = len(self.loading) + len(self.out.coming) - len(block.behind)
            block.enough = short <= self.out.reserved + self.coming_bytes
        self.out.blocked[row.name] = block
        if self.sharing:
            self.blocked_sharing.append(row)
        elif self.least_blocked is None or needs_room < self.least_blocked:
            self.least_blocked = needs_room

    def _could_free(self, row: Row, limit: float, short: int) -> bool:
        """Return whether all victims below a priority together would give back so much, in use or not."""
        mine = row.name in self.victims and row.spec.priority < limit
        if self.bytes.below(limit) - (row.charge or 0 if mine else 0) < short:
            return False
        if not self.sharing:
            return True
        least = self.own_bytes.below(limit) - (row.own_charge if mine else 0)
        if least >= short or least + self.staying.total < short:
            return least >= short
        others = (v for v in self.victims.values() if v is not row and v.spec.priority < limit)
        self._step_in(row)
        freed = leading(others, sys.maxsize, self.staying)[1]
        self._step_back(row)
        return freed >= short

    def _in_the_way(self, row: Row, short: int) -> tuple[str, ...]:
        """Return the models that are held, where all others that `row` may displace would not be enough."""
        candidates = (v for v in self.held if v is not row and v.name in self.victims)
        held = tuple(v.name for v in candidates if may_displace(row, v.spec.priority))
        if not held:
            return ()
        below = (v for v in self.victims.values() if v is not row and may_displace(row, v.spec.priority))
        self._step_in(row)
        freed = leading((v for v in below if not v.demand.held), sys.maxsize, self.staying)[1]
        self._step_back(row)
        return held if freed < short else ()

    def _displace(self, row: Row, short: int) -> list[Row] | None:
        """Return the victims that make room for `row`, cheapest loss first, none of them spare; None = not enough."""
        limit = bound(row)
        patient = row.pinned or (row.demand.oldest is not None and self.now - row.demand.oldest >= PATIENCE)
        groups = (self.idle, self.busy) if patient else (self.idle,)
        # Most searches on a full machine find nobody: known without looking at a single victim.
        if sum(group.bytes.below(limit) for group in groups) < short:
            return None
        if self.sharing and self.own_bytes.below(limit) + self.staying.total < short:
            return None
        victims = (v for group in groups for v in group.below(limit) if v is not row)
        if not self.sharing:
            return cover(victims, short, self.staying)
        self._step_in(row)
        found = cover(victims, short, self.staying)
        self._step_back(row)
        return found

    def _step_in(self, row: Row) -> None:
        """Let `row` hold its files already: a victim with the same file would not give it back."""
        self.staying.hold(row.files)
        if self._replaced(row):
            self.staying.drop(row.held_files)

    def _step_back(self, row: Row) -> None:
        self.staying.drop(row.files)
        if self._replaced(row):
            self.staying.hold(row.held_files)

    def _has_stayed(self, victim: Row) -> bool:
        return (
            victim.instance is not None and self.now - victim.instance.loaded_at >= victim.spec.min_resident
        )

    # -- bookkeeping ----------------------------------------------------------------------------------------------

    def _load(self, row: Row, displaced: list[Row], kept: int = 0) -> None:
        before = []
        while self.removals and self._lack(row, (self.free or 0) - kept, self.here) > 0:
            before.append(self._remove_next())
        before += [self._take(victim, Reason.MAKE_ROOM, row) for victim in displaced]
        if self._replaced(row):
            before.append(self._take(row, Reason.DRIFTED))
        self.staying.hold(row.files)
        # Files that somebody holds who is there now are not needed again, whether or not he stays.
        need = own(row.need or 0, row.files) + self.here.hold(row.files)
        keeps = need - (row.need or 0) + (row.size or 0)
        self.free = (self.free or 0) - keeps
        self.coming_bytes += keeps
        self.out.coming.append(Coming(row, need, keeps, _load_reason(row), before))

    def _take(self, row: Row, reason: Reason, claimant: Row | None = None) -> Going:
        """Note that a running model leaves, and give its charge back."""
        assert row.instance is not None, f"{row.name} does not run"
        if self.victims.pop(row.name, None) is not None:
            self.bytes.add(row.spec.priority, -(row.charge or 0))
            if self.sharing:
                self.own_bytes.add(row.spec.priority, -row.own_charge)
            (self.busy if row.busy else self.idle).discard(row)
        self.staying.drop(row.held_files)
        frees = row.own_charge + self.here.drop(row.held_files)
        self.free = (self.free or 0) + frees
        return Going(row.instance, frees, reason, row.held_files, row, claimant, busy=row.demand.in_use)


def _charge_of(going: Going) -> int | None:
    return book.stray_charge(going.instance) if going.row is None else going.row.charge


def _stray_files(stray: Instance) -> Files:
    return within(stray.files, book.stray_charge(stray))


def _holders_of_files(table: Table) -> Iterator[Files]:
    """Yield the files of everybody who has, or would have, any of them in memory."""
    for row in table.rows:
        if row.files or row.held_files:
            yield (*row.files, *row.held_files)
    for stray in table.strays:
        yield stray.files


def _urgency(row: Row) -> tuple[bool, bool, bool, int, float, str]:
    """Sort claimants. One whose own old process is still in use comes last: its drain would hold up the others.

    Whoever is waited for comes before all that merely are to be warm: these would take what is freed for it.
    """
    draining = row.instance is not None and row.demand.in_use
    oldest = row.demand.oldest if row.demand.oldest is not None else float("inf")
    return (draining, not row.pinned, not row.demanded, -row.spec.priority, oldest, row.name)


def _load_reason(row: Row) -> Reason:
    if row.pinned:
        return Reason.PINNED
    if row.demand.waiting > 0:
        return Reason.DEMANDED
    return Reason.REQUESTED if row.demand.wanted else Reason.WARM
