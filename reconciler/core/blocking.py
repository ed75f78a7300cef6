"""Who finds no room at one step of a plan: what he is told, and what of others is owed to him."""

from itertools import chain, islice
from math import inf
from typing import Final

from reconciler.core.diff import Fitness, Row
from reconciler.core.displacing import Displacing
from reconciler.core.patience import is_kept
from reconciler.core.selection import Block, Stay
from reconciler.core.shares import own
from reconciler.core.types import Reason
from reconciler.core.victims import bound
from reconciler.core.words import size as size_text

#: Models named of those that take the room before a blocked one.
BEHIND_SHOWN: Final = 3


class Blocking(Displacing):
    """A room in which some wait for what others have."""

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
        stay: Stay | None = None
        if reason is None:
            if self._could_free(row, bound(row), short):
                stay = self._stay(row, short)
                reason = (
                    Reason.VICTIMS_KEPT if stay is not None and is_kept(stay, row) else Reason.VICTIMS_BUSY
                )
                held = () if stay is not None else self._in_the_way(row, short)
            elif self._could_free(row, inf, short):
                reason = Reason.OUTRANKED
            else:
                reason = Reason.INSUFFICIENT_MEMORY
        block = Block(reason, max(short, 0), held, stay)
        if reason is Reason.INSUFFICIENT_MEMORY:
            coming = (c.row.name for c in self.out.coming)
            block.behind = tuple(islice(chain(self.loading, coming), BEHIND_SHOWN))
            block.further = len(self.loading) + len(self.out.coming) - len(block.behind)
            block.enough = short <= self.out.reserved + self.coming_bytes
        self.out.blocked[row.name] = block
        self.out_of_room.append(row)
        if (mine := self.sleepers.keep(row)) is not None and self.victims.pop(row.name, None) is not None:
            self._forget_bytes(mine)  # who comes after it does not take what it has of its own
        if self.sharing:
            self.blocked_sharing.append(row)
        elif self.least_blocked is None or needs_room < self.least_blocked:
            self.least_blocked = needs_room

    def _held_up_by(self, row: Row) -> Row | None:
        """Return the pinned model that finds no room for the old process of another, `row`; None = there is none.

        Nobody may displace that process, and to replace it first would leave its room to who is more urgent. Both are
        possible if both fit, in any order, once it has gone: `row` has become smaller.
        """
        if not row.pinned or row.fitness is not Fitness.DRIFTED:
            return None
        waiting = [r for r in self.out_of_room if r.pinned]
        if len(waiting) != 1:
            return None
        first = waiting[0]
        old = self._old(first)
        gone = [row] if old is None else [row, old]
        room = (self.free or 0) + self._removals_total
        room += sum(r.own_charge + self.staying.drop(r.held_files) for r in gone)
        fits = max(self._together(first, row), self._together(row, first)) <= room
        for other in gone:
            self.staying.hold(other.held_files)
        return first if fits else None

    def _together(self, one: Row, another: Row) -> int:
        """Return what it takes to load `another` beside `one`, the old processes of both gone."""
        keeps = own(one.size or 0, one.files) + self.staying.hold(one.files)
        needs = own(another.need or 0, another.files) + self.staying.missing(another.files)
        self.staying.drop(one.files)
        return keeps + needs

    def _holders(self) -> str:
        """Name the three largest models that are not pinned and stay, with what a claimant would have to outrank."""
        staying = [r for r in self.victims.values() if r.charge]
        largest = sorted(staying, key=lambda r: (-(r.charge or 0), r.name))[:3]
        return ", ".join(f"{r.name} ({size_text(r.charge)}, priority {r.spec.priority})" for r in largest)
