"""Sizes and durations as people read them, and the one unit a whole plan is shown in."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from reconciler.core.words import size, span

__all__ = ["Scale", "scale_for", "size", "span"]

_MIB: Final = 1 << 20
_GIB: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Scale:
    """A unit shared by figures that stand below each other, so that they compare at a glance."""

    unit: int
    name: str
    digits: int

    def number(self, count: int | None) -> str:
        """Return the bare number (`18.1`), or `unknown`."""
        return "unknown" if count is None else f"{count / self.unit:.{self.digits}f}"

    def size(self, count: int | None) -> str:
        """Return number and unit; what would round to nothing, or to hundredths, gets a smaller unit (`30 MiB`)."""
        if count and (float(self.number(count)) == 0 or (self.digits == 2 and abs(count) * 10 < self.unit)):
            return size(count)
        return f"{self.number(count)} {self.name}" if count is not None else "unknown"


def scale_for(counts: Iterable[int | None]) -> Scale:
    """Return GiB with one decimal if any of the bytes reaches 10 GiB, with two from 1 GiB on, else whole MiB."""
    largest = max((abs(c) for c in counts if c is not None), default=0)
    if largest < _GIB:
        return Scale(_MIB, "MiB", 0)
    return Scale(_GIB, "GiB", 1 if largest >= 10 * _GIB else 2)
