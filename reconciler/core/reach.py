"""The part of the memory that no model but the pinned ones ever gets."""

from reconciler.core.diff import Row, Table
from reconciler.core.shares import Shares, own


class Pinned:
    """What pinned models are charged with nobody else there: the part of the memory no other model ever gets."""

    def __init__(self, table: Table) -> None:
        rows = [r for r in table.rows if r.pinned]
        self._files = {r.name: r.held_files or r.files for r in rows}
        self._own = {r.name: own(max(r.size or 0, r.charge or 0), self._files[r.name]) for r in rows}
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
