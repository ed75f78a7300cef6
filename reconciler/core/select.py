"""Who keeps memory, who is loaded, and who gives way for whom.

Two orders, and they must stay two. *Rank* says who keeps memory: priority, then the most recently used. *Urgency* says
whose turn it is to be loaded, and uses only what the plan itself cannot change: pinned, demanded, priority, arrival,
name. With one order for both, performing the first step would reorder the rest and a dry run would lie.
"""

from collections import deque
from math import inf
from typing import Final

from reconciler.core.diff import Fitness, Row, Table
from reconciler.core.leaving import portless, rests_until, spared, unstartable, walled_in
from reconciler.core.pressure import Level
from reconciler.core.prewarm import Advance
from reconciler.core.selection import Block, Coming, Going, Selection
from reconciler.core.shares import own
from reconciler.core.types import Manifest, Policy, Reason, World
from reconciler.core.value import load_seconds
from reconciler.core.victims import cover, leading

#: A request that waited so many seconds comes before all others of its priority, the oldest first.
LONG: Final = 60.0


def select(manifest: Manifest, world: World, table: Table, now: float) -> Selection:
    """Decide who leaves and who comes, in order."""
    return _Selector(manifest, world, table, now).run()


class _Selector(Advance):
    """One pass over the table."""

    def run(self) -> Selection:
        pinned = {row.name for row in self.table.rows if row.pinned}
        self.walled_in = {row.name for row in self.table.rows if walled_in(row, pinned)}
        self._relieve()
        self._relieve_pressure()
        self.claimants = deque(self._claimants())
        self.claimed = {row.name for row in self.claimants}
        while self.claimants:
            self._claim(self.claimants.popleft())
        self._look_ahead()
        if (ahead := self.ahead()) is not None:
            self._load(*ahead, reason=Reason.PREWARM)
        self.out.holders = self._holders()
        while self.removals:
            self.out.leftovers.append(self._remove_next())
        return self.out

    def _relieve(self) -> None:
        """Bring what stays below the budget: the budget may have been lowered, or a model has outgrown its size."""
        if self.budget is None or self.free is None:
            return
        leaving = {g.row.name for g in (*self.removals, *self.out.relief) if g.row is not None}
        rows = [r for r in self.table.rows if r.instance is not None and r.name not in leaving]
        rows += self.sleepers.here()
        over = sum(r.own_charge for r in rows) + self.staying.total - self.budget
        if over > 0:
            # One that holds nothing would leave for nothing.
            idle = [r for r in self.victims.values() if r.charge and (not r.busy or r.asleep)]
            for row in cover(idle, over, self.staying) or idle:
                self.out.relief.append(self._take(row, Reason.OVER_BUDGET))

    def _relieve_pressure(self) -> None:
        """While memory is short nothing is loaded, and models go in the order of their rank until the excess is gone.

        Only the first of them goes before the machine is looked at again. What leaves anyway goes before it, unless
        it is still in use: a drain may take long.
        """
        pressure = self.pressure
        critical = pressure.level is Level.CRITICAL
        candidates = [r for r in self.victims.values() if critical or not r.busy or r.asleep]
        leaving = bool(self.out.relief) or any(not g.busy for g in self.removals)
        # With nobody left to go, waiting for the target would be for ever: what fits below the hard mark is let in.
        waits = pressure.relieving and (leaving or bool(candidates))
        self.held_up = waits or pressure.level >= Level.HARD
        if pressure.relieving and pressure.evident and not leaving and self.out.capacity is not None:
            for row in leading(candidates, max(1, pressure.excess), self.staying)[0]:
                self.out.relief.append(self._take(row, Reason.MEMORY_PRESSURE))

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
                or r.name in self.aged
            )
        ]
        return sorted(rows, key=self._urgency)

    def _urgency(self, row: Row) -> tuple[bool, bool, bool, int, bool, float, float, str]:
        """Sort claimants. One whose own old process is still in use comes last: its drain would hold up the others.

        Whoever is waited for comes before all that merely are to be warm: these would take what is freed for it. Of
        equals the one comes first for which somebody has just made room: else that was for nothing. Then who has waited
        long, in order of arrival; then the one by which most are served for each second of loading.
        """
        demand = row.demand
        gone = row.name in self.resting or row.name in self.left_early
        draining = row.instance is not None and demand.in_use and not gone
        oldest = demand.oldest if demand.oldest is not None else inf
        rate = 0.0
        if self.policy is Policy.COST and demand.waiting:
            waited_long = self.now >= oldest + LONG
            rate = -inf if waited_long else -demand.waiting / max(load_seconds(row.entry, row.size), 0.1)
        last = row.name != self.made_room_for
        return (draining, not row.pinned, not row.demanded, -row.spec.priority, last, rate, oldest, row.name)

    def _claim(self, row: Row) -> None:
        """Load one model if it can be started and there is, or can be made, room for it."""
        if row.name in self.aged and self._replaced(row):
            self._claim_afresh(row)
            return
        reason = self._unstartable(row)
        if reason is None and self.free is None:
            reason = Reason.MEMORY_UNKNOWN
        if reason is None and self._rests(row):
            reason = Reason.RESTING
        if reason is not None or row.need is None or self.free is None or self.budget is None:
            self.out.blocked[row.name] = Block(reason or Reason.SIZE_UNKNOWN)
            return
        never = self._short_for_ever(row)
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

    def _unstartable(self, row: Row) -> Reason | None:
        """Return why a model cannot be started at all now, memory aside, or None."""
        reason = unstartable(row, self.now)
        return Reason.NOT_STARTABLE if reason is None and row.name in self.walled_in else reason

    def _claim_warm(self, row: Row) -> None:
        """Load a model nobody waits for: only below the soft mark, and if no room is kept from a request that waits."""
        room = (self.free or 0) + self._removals_total
        short = self._lack(row, room, self.staying)
        # One that is replaced is out for a while, and has to be let in like any other then.
        grows = self._replaced(row) or short + room > 0
        if grows and self.pressure.level >= Level.SOFT:
            self.out.blocked[row.name] = Block(Reason.MEMORY_PRESSURE)
            return
        kept = self.kept_for_demand if grows else 0
        short += kept
        if short > 0 or (self._anyone_blocked and (grows or self._owed(row, room, []))):
            self.out.blocked[row.name] = Block(Reason.NO_ROOM, max(short, 0))
            return
        if portless(row, []):
            self.out.blocked[row.name] = Block(Reason.NO_PORT)
            return
        self._load(row, [], kept)

    def _claim_afresh(self, row: Row) -> None:
        """Replace a process that has aged, if nobody else could want the room it leaves; else it serves on."""
        if self.free is None or self.budget is None or self.pressure.level >= Level.SOFT or self.held_up:
            return
        if self._anyone_blocked or self._short_for_ever(row) > 0:
            return
        kept = 0 if row.pinned else self.kept_for_demand
        if self._lack(row, self.free + self._removals_total, self.staying) + kept <= 0:
            self._load(row, [], kept)

    def _claim_demanded(self, row: Row) -> None:
        room = (self.free or 0) + self._removals_total
        short = self._lack(row, room, self.staying)
        displaced = self._displace(row, short) if short > 0 else []
        if displaced is None:
            self._block_for_room(row, short + room, short)
            return
        displaced = self._with_port(row, displaced, short)
        if displaced is None:
            self.out.blocked[row.name] = Block(Reason.NO_PORT)
        elif self._owed(row, room, displaced):
            first = None if displaced else self._held_up_by(row)
            if first is not None:
                self._let_ahead(first, row)
                return
            # What would be freed is owed to somebody more urgent, who was not allowed to free it: leave all as it is.
            self._block_for_room(row, short + room, short, Reason.OUTRANKED)
        else:
            self._load(row, displaced)

    def _let_ahead(self, first: Row, row: Row) -> None:
        """Have the old process of `row` leave, then load `first`, which waits for that, and `row` anew, in their order.

        Whoever found no room so far has another turn: `row` has become smaller.
        """
        blocked = [r for r in self.out_of_room if r is not first]
        for other in self.out_of_room:
            del self.out.blocked[other.name]
        self.out_of_room, self.blocked_sharing, self.least_blocked = [], [], None
        going = self._take(row, Reason.DRIFTED)
        self.left_early.add(row.name)
        one, another = sorted((first, row), key=self._urgency)
        self._load(one, [], ahead=going)
        self._claim_again([another, *blocked, *self._lacking_room()])

    def _load(
        self,
        row: Row,
        displaced: list[Row],
        kept: int = 0,
        reason: Reason | None = None,
        ahead: Going | None = None,
    ) -> None:
        """Load a model, after those that leave for it; `ahead` is one that leaves before, and for itself."""
        before = [] if ahead is None else [ahead]
        while self.removals and self._lack(row, (self.free or 0) - kept, self.here) > 0:
            before.append(self._remove_next())
        why = Reason.LESS_LIKELY if reason is Reason.PREWARM else Reason.MAKE_ROOM
        before += [self._take(victim, why, row) for victim in displaced]
        again = [v for v in displaced if v.wanted and not v.asleep and v.name not in self.claimed]
        if self._replaced(row):
            aged = row.fitness is not Fitness.DRIFTED
            before.append(self._take(row, Reason.RESTART_DUE if aged else Reason.DRIFTED))
            again += self._lacking_room()
        # Sorting all anew for each victim would take a while where there are hundreds.
        if again or any(v.name in self.claimed for v in displaced):
            self._claim_again(again)
        woken = self.sleepers.of(row) if row.sleeper is not None else None
        has = self._leave(woken) if woken is not None else 0
        self.staying.hold(row.files)
        # Files that somebody holds who is there now are not needed again, whether or not he stays.
        need = own(row.need or 0, row.files) + self.here.hold(row.files)
        keeps = need - (row.need or 0) + (row.size or 0) - has
        self.free = (self.free or 0) - keeps
        self.coming_bytes += keeps
        wakes = woken.instance if woken is not None else None
        self.out.coming.append(
            Coming(row, max(0, need - has), keeps, reason or _load_reason(row), before, wakes)
        )

    def _lacking_room(self) -> list[Row]:
        """Return the warm models that lacked room so far, and block them no more: a process leaves that held more."""
        lacking = {name for name, block in self.out.blocked.items() if block.reason is Reason.NO_ROOM}
        for name in lacking:
            del self.out.blocked[name]
        return [r for r in self.table.rows if r.name in lacking]

    def _claim_again(self, rows: list[Row]) -> None:
        """Let models have a turn once more: while a load goes on it takes more than what it keeps."""
        self.claimed.update(row.name for row in rows)
        self.claimants = deque(sorted([*self.claimants, *rows], key=self._urgency))

    def _rests(self, row: Row) -> bool:
        """Whether a model was unloaded a moment ago, or is before its turn comes, and is not loaded again at once."""
        if row.name in self.resting:
            return row.spec.reload_after > 0.0 and not row.pinned and not row.demand.wanted
        return rests_until(row, self.now) is not None

    def _look_ahead(self) -> None:
        """Say of cold models what a request for them would be told, before there is one."""
        for row in self.table.rows:
            if row.instance is not None or row.wanted:
                continue
            reason = self._unstartable(row)
            if reason is not None:
                self.out.hopeless[row.name] = Block(reason)
            elif row.need is not None and self.budget is not None:
                short = self.pinned.short(row)
                if short > 0:
                    self.out.hopeless[row.name] = Block(Reason.NEVER_FITS, short)


def _load_reason(row: Row) -> Reason:
    if row.pinned:
        return Reason.PINNED
    if row.demand.waiting > 0:
        return Reason.DEMANDED
    return Reason.REQUESTED if row.demand.wanted else Reason.WARM
