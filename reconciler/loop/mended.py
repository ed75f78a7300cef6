"""Evictions that need not be told any more: of models that could not stand in memory together, and now can."""

from collections.abc import Iterable
from typing import Final

from reconciler.core.advice_cases import Case
from reconciler.core.advice_rivals import lack
from reconciler.core.types import Manifest, World

#: Seconds between two looks at models of which nothing is known to have changed: what they hold is measured meanwhile.
PACE: Final = 5.0

Names = tuple[str, ...]


class Mended:
    """Remembers which models could not stand together. Owned by the loop's task."""

    def __init__(self, apart: Iterable[Names] = ()) -> None:
        """`apart`: groups of models of which that is believed to begin with."""
        self._apart = set(apart)
        self._looked = float("-inf")
        self._manifest: Manifest | None = None

    def look(
        self, groups: Iterable[Names], manifest: Manifest, world: World, now: float
    ) -> tuple[Names, ...]:
        """Return those of `groups` that could not stand together when they were looked at last, and can now."""
        if manifest is self._manifest and now < self._looked + PACE:
            return ()
        self._manifest, self._looked = manifest, now
        case = Case(manifest, world, now)
        over: list[Names] = []
        apart: set[Names] = set()
        for group in groups:
            stands = _stands(case, group)
            if stands and group in self._apart:
                over.append(group)
            elif not stands:
                apart.add(group)
        self._apart = apart
        return tuple(over)


def _stands(case: Case, group: Names) -> bool:
    """Return whether models can be in memory at once; one that nobody knows any more is in nobody's way."""
    rows = {name: case.row(name) for name in group}
    known = [name for name, row in rows.items() if row is not None]
    if any(row is not None and row.size is None for row in rows.values()):
        return False
    return lack(case, tuple(known)) <= 0
