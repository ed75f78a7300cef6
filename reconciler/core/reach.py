"""The part of the memory that no model but the pinned ones ever gets."""

from reconciler.core.diff import Fitness, Row, Table
from reconciler.core.leaving import unstartable
from reconciler.core.shares import Files, Shares, own


class Pinned:
    """What pinned models are charged with nobody else there: the part of the memory no other model ever gets.

    One that runs has what it has. Of those that do not, one for which there can never be room beside the more important
    ones is charged nothing: it would keep from all others what it cannot have itself.
    """

    def __init__(self, table: Table, budget: int | None, now: float, gone: Row | None = None) -> None:
        """Add up what the pinned models of a table are charged; that of `gone` as if its process were not there."""
        self._budget = budget
        self._held: dict[str, tuple[int, Files]] = {}
        self._shares = Shares()
        self._own = 0
        #: The most that one of them takes while it loads beyond what it is charged.
        self._extra = 0
        #: Bytes that those lack for which there is never room.
        self._hopeless: dict[str, int] = {}
        running = [r for r in table.rows if r.pinned and r.instance is not None and r is not gone]
        replaced = [r for r in running if r.fitness is Fitness.DRIFTED and unstartable(r, now) is None]
        for row in running:
            self._hold(row, row.charge or 0 if row in replaced else max(row.size or 0, row.charge or 0))
        for row in sorted(replaced, key=_growth):
            if self.short(row) <= 0:  # else the old process stays
                self._drop(row)
                self._hold(row, row.size or 0, row.files)
                replaced.remove(row)
        for row in running:
            if row not in replaced:
                self._extra = max(self._extra, (row.need or 0) - self._held[row.name][0])
        out = (r for r in table.rows if r.pinned and (r.instance is None or r is gone))
        for row in sorted(out, key=_rank):
            self._admit(row)

    def short(self, row: Row) -> int:
        """Return the bytes that lack for loading `row` with nobody but the pinned ones there; not above 0 = it fits."""
        if row.name in self._hopeless:
            return self._hopeless[row.name]
        held = self._held.get(row.name)
        if held is not None:
            self._drop(row)
        lack = (
            self._own + own(row.need or 0, row.files) + self._shares.total + self._shares.missing(row.files)
        )
        if held is not None:
            self._hold(row, *held)
        return self._beyond(lack)

    def _admit(self, row: Row) -> None:
        """Charge one that does not run, if it and each of the others could still be loaded beside all the rest."""
        before = self._extra
        self._hold(row, row.size or 0, row.files)
        self._extra = max(self._extra, (row.need or 0) - (row.size or 0))
        over = self._beyond(self._own + self._shares.total + self._extra)
        if over > 0:
            self._drop(row)
            self._extra = before
            self._hopeless[row.name] = over

    def _beyond(self, need: int) -> int:
        # Without a budget nothing is ever known to be too large.
        return 0 if self._budget is None else need - self._budget

    def _hold(self, row: Row, charge: int, files: Files | None = None) -> None:
        files = (row.held_files or row.files) if files is None else files
        self._held[row.name] = (charge, files)
        self._shares.hold(files)
        self._own += own(charge, files)

    def _drop(self, row: Row) -> None:
        charge, files = self._held.pop(row.name)
        self._shares.drop(files)
        self._own -= own(charge, files)


def _growth(row: Row) -> tuple[int, int, str]:
    """Sort those that are replaced: what becomes smaller makes room for what becomes larger."""
    return ((row.size or 0) - (row.charge or 0), *_rank(row))


def _rank(row: Row) -> tuple[int, str]:
    return (-row.spec.priority, row.name)
