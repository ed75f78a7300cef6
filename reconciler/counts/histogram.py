"""How often values fell into which range."""

from bisect import bisect_left
from typing import Self


class Histogram:
    """Counts values by upper bounds (each included); one more range holds what is above all of them."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        #: Of each range alone, not added up.
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Count one value; what is below zero, by clocks that were read in two places, counts as zero."""
        self.counts[bisect_left(self.bounds, value)] += 1
        if value > 0.0:
            self.sum += value

    def merge(self, other: Self) -> None:
        """Count everything that `other` counted, too. It has the same bounds."""
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        self.sum += other.sum

    def copy(self) -> Self:
        """Return what was counted until now."""
        made = type(self)(self.bounds)
        made.counts, made.sum = self.counts.copy(), self.sum
        return made

    @property
    def total(self) -> int:
        """How many values were counted."""
        return sum(self.counts)
