"""The room there is at one step of a plan: who holds it, who leaves anyway, and who may give way for whom."""

from collections import deque
from collections.abc import Iterator

from reconciler.core import book
from reconciler.core.diff import Fitness, Row, Table
from reconciler.core.leaving import (
    RESTING,
    going_order,
    removal_reason,
    replaced_for_its_age,
    safe_until,
    spared,
    stray_reason,
)
from reconciler.core.reach import Pinned
from reconciler.core.selection import Going, Selection
from reconciler.core.shares import Files, Shares, own, shared, within
from reconciler.core.sleeping import Sleepers
from reconciler.core.types import Instance, Manifest, Policy, Reason, World
from reconciler.core.value import loss, value
from reconciler.core.victims import Displaceable, PriorityBytes, rank


class Room:
    """What is free, and what could be; `free` runs along with the steps decided so far."""

    def __init__(self, manifest: Manifest, world: World, table: Table, now: float) -> None:
        seen = world.observation
        self.now = now
        self.policy = manifest.policy
        #: How likely each model is used again soon.
        self.chances = {c.model: c.returns for c in world.chances}
        #: How many wait together for each of them.
        self.waiters = {c.model: c.waiters for c in world.chances}
        #: The model for which the last one went that made room.
        self.made_room_for = world.swaps[-1].for_model if world.swaps else ""
        self.table = table
        self.pressure = seen.pressure
        self.budget = book.budget(manifest, seen.memory)
        self.sleepers = Sleepers(table, now)
        awake = [r.instance for r in table.rows if r.instance is not None]
        instances = awake + [r.instance for r in self.sleepers.rows if r.instance] + table.strays
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
        #: Are wanted, and to be replaced by a fresh process of themselves.
        self.aged: set[str] = set()
        residents = self._sort_out_residents()
        for row in (*self.sleepers.victims, *residents):
            self._weigh(row)
        residents.sort(key=rank)
        victims = [*self.sleepers.victims, *residents]
        #: May have to give way, the cheapest loss first.
        self.victims = {r.name: r for r in victims}
        self.held = sorted((r for r in residents if r.demand.held), key=lambda r: r.name)
        self.loading = [r.name for r in table.rows if r.instance is not None and not r.instance.ready]
        #: What all that are loaded first will keep.
        self.coming_bytes = 0
        self.bytes = PriorityBytes(victims)
        self.own_bytes = PriorityBytes(victims if self.sharing else (), own=True)
        stays = [(safe_until(r.spec, r.instance), r) for r in residents if r.instance is not None]
        #: Those of them that stay a while yet, whoever wants their room, and until when.
        self.kept = sorted(
            ((safe, r) for safe, r in stays if now < safe and not r.demand.held),
            key=lambda kept: (kept[0], kept[1].name),
        )
        self.asleep = (self.sleepers.displaceable,) if self.sleepers.victims else ()
        #: Those of them that may go now.
        self.idle = Displaceable(r for safe, r in stays if now >= safe and not r.busy)
        #: Those in use that may be drained for somebody, and until when each stays even so. A model that is held stays
        #: until it is released, however long somebody waits for its room.
        self.used = [
            (safe, r) for safe, r in stays if r.busy and not r.demand.held and not spared(r, Reason.MAKE_ROOM)
        ]
        self.busy = Displaceable(r for safe, r in self.used if now >= safe)
        self.pinned = Pinned(table, self.budget, now)
        #: Models taken out of memory so far for a reason after which they rest.
        self.resting: set[str] = set()
        #: Least room in which a model would fit that is demanded and found none; and, where files are shared, the
        #: models themselves: what they need changes with who holds a file.
        self.least_blocked: int | None = None
        self.blocked_sharing: list[Row] = []
        #: All that are demanded and found no room.
        self.out_of_room: list[Row] = []
        #: Pinned models whose old process leaves before somebody else is loaded, and not right before their own load.
        self.left_early: set[str] = set()
        #: Nothing is loaded while memory is short.
        self.held_up = False

    def _add_up(self) -> None:
        """Take all that runs into the account: what models hold alone, and each mapped file once."""
        running = [(r.instance.ready, r.charge, r.held_files) for r in self.table.rows if r.instance]
        running += [(True, r.charge, r.held_files) for r in self.sleepers.rows]
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

    def _sort_out_residents(self) -> list[Row]:
        """Part the residents into those that leave, those that may have to (returned), and those that stay."""
        first, going = self._sort_out_strays()
        victims: list[Row] = []
        for row in self.table.rows:
            if row.instance is None or not row.instance.ready:
                continue
            reason = removal_reason(row, self.now)
            if reason is not None and not spared(row, reason):
                busy = row.demand.in_use
                leaving = Going(row.instance, row.own_charge, reason, row.held_files, row, busy=busy)
                (first if row.charge is None else going).append(leaving)
                continue
            if row.wanted and replaced_for_its_age(row, self.now):
                self.aged.add(row.name)
            if not row.pinned:
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

    def _sort_out_strays(self) -> tuple[list[Going], list[Going]]:
        """Return what nobody can use any more and goes before anything else, and what else no row accounts for."""
        first: list[Going] = []
        going: list[Going] = []
        named = {r.name for r in self.table.rows}
        in_use = {r.name for r in self.table.rows if r.demand.in_use} | self.table.still_serving
        for stray in self.table.strays:
            charge, files = book.stray_charge(stray), _stray_files(stray)
            # One that hangs may have requests that still get something.
            serving = in_use if stray.hung else self.table.still_serving
            busy = stray.model in serving and not stray.broken
            if busy and stray.model in self.table.spared and not stray.hung:
                continue
            leaving = Going(stray, own(charge or 0, files), stray_reason(stray, named), files, busy=busy)
            # Before anything else go: a second process, which would pass for the model were the other one stopped
            # first; and one whose memory cannot be read, since nothing can be admitted beside it.
            ahead = leaving.reason is not Reason.REMOVED or charge is None
            (first if ahead else going).append(leaving)
        for row, why in self.sleepers.leaving():
            assert row.instance is not None, f"{row.name} has no process"
            first.append(Going(row.instance, row.own_charge, why, row.held_files, row))
        return first, going

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

    def _short_for_ever(self, row: Row) -> int:
        """Return the bytes that lack for `row` with nobody but the pinned models there; not above 0 = it fits.

        A pinned one that is to be replaced must not be let in only because it is there: while it is out, a more
        important one could take its room for good.
        """
        short = self.pinned.short(row)
        if short > 0 or not row.pinned or row.instance is None or not self._replaced(row):
            return short
        return Pinned(self.table, self.budget, self.now, gone=row).short(row)

    def _replaced(self, row: Row) -> bool:
        """Whether a process of its own, of old settings or aged, has to leave before the model is loaded."""
        replaced = row.fitness is Fitness.DRIFTED or row.name in self.aged
        if row.name in self.left_early:
            return False
        return replaced and (row.name in self.victims or row.pinned)

    def _old(self, row: Row) -> Row | None:
        """Return the process of its own whose memory a model has for itself: one it replaces, or wakes."""
        if row.sleeper is not None:
            return self.sleepers.of(row)
        return row if self._replaced(row) else None

    def _lack(self, row: Row, room: int, shares: Shares) -> int:
        """Return the bytes that `room` is short of what loading takes, with what a process of its own holds."""
        old = self._old(row)
        if old is not None:
            room += old.own_charge + shares.drop(old.held_files)
            need = own(row.need or 0, row.files) + shares.missing(row.files)
            shares.hold(old.held_files)
            return need - room
        return own(row.need or 0, row.files) + shares.missing(row.files) - room

    def _weigh(self, row: Row) -> None:
        """Note what evicting a running model costs: by the cost policy seconds, by the other one when it was used."""
        assert row.instance is not None, f"{row.name} does not run"
        if self.policy is Policy.COST:
            returns = self.chances.get(row.name)
            waiters = self.waiters.get(row.name, 1.0)
            row.loss = loss(row, returns, self.now, waiters)
            row.worth = None if returns is None or row.asleep else value(row, returns, self.now) * waiters
        else:
            row.loss = row.instance.last_used

    def _has_stayed(self, victim: Row) -> bool:
        return victim.instance is not None and self.now >= safe_until(victim.spec, victim.instance)

    def _take(self, row: Row, reason: Reason, claimant: Row | None = None) -> Going:
        """Note that a running model leaves, and give its charge back."""
        assert row.instance is not None, f"{row.name} does not run"
        frees = self._leave(row)
        self.free = (self.free or 0) + frees
        busy = row.demand.in_use and not row.asleep
        if reason in RESTING:
            self.resting.add(row.name)
        return Going(row.instance, frees, reason, row.held_files, row, claimant, busy=busy)

    def _leave(self, row: Row) -> int:
        """Note that a process holds nothing any more, or that its model is charged for it; return the bytes."""
        if self.victims.pop(row.name, None) is not None:
            self._forget_bytes(row)
            if not row.asleep:
                (self.busy if row.busy else self.idle).discard(row)
        if row.asleep:
            self.sleepers.gone(row)
        self.staying.drop(row.held_files)
        return row.own_charge + self.here.drop(row.held_files)

    def _forget_bytes(self, row: Row) -> None:
        """Count what one holds no more among what may be displaced."""
        self.bytes.add(row.spec.priority, -(row.charge or 0))
        if self.sharing:
            self.own_bytes.add(row.spec.priority, -row.own_charge)


def _charge_of(going: Going) -> int | None:
    return book.stray_charge(going.instance) if going.row is None else going.row.charge


def _stray_files(stray: Instance) -> Files:
    return within(stray.files, book.stray_charge(stray))


def _holders_of_files(table: Table) -> Iterator[Files]:
    """Yield the files of everybody who has, or would have, any of them in memory."""
    for row in table.rows:
        if row.files or row.held_files:
            yield (*row.files, *row.held_files)
        if row.sleeper is not None:
            yield row.sleeper.held_files
    for stray in table.strays:
        yield stray.files
