"""The part of the memory that no model but the pinned ones ever gets."""

from reconciler.core.diff import Fitness, Row, Table
from reconciler.core.leaving import unstartable
from reconciler.core.shares import Files, Shares, own


class Pinned:
    """What pinned models are charged with nobody else there: the part of the memory no other model ever gets."""

    def __init__(self, table: Table, now: float) -> None:
        charges = {r.name: _lasting(r, now) for r in table.rows if r.pinned}
        self._files = {name: files for name, (_, files) in charges.items()}
        self._own = {name: own(charge, files) for name, (charge, files) in charges.items()}
        self._shares = Shares()
        for files in self._files.values():
            self._shares.hold(files)
        self._total = sum(self._own.values()) + self._shares.total

    def beside(self, row: Row) -> int:
        """Return the bytes of all pinned models and of `row`, which is being loaded, together."""
        if not row.pinned:
            return self._total + own(row.need or 0, row.files) + self._shares.missing(row.files)
        others = self._total - self._own[row.name] - self._shares.drop(self._files[row.name])
        together = others + own(row.need or 0, row.files) + self._shares.missing(row.files)
        self._shares.hold(self._files[row.name])
        return together


def _lasting(row: Row, now: float) -> tuple[int, Files]:
    """Return what a pinned model is charged for good: a process of old settings will be replaced, if that can be."""
    if row.fitness is Fitness.DRIFTED and unstartable(row, now) is None:
        return row.size or 0, row.files
    return max(row.size or 0, row.charge or 0), row.held_files or row.files
