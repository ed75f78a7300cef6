"""What it is worth to keep a model in memory: the seconds somebody is expected to wait for it otherwise."""

from typing import Final

from reconciler.core.diff import Fitness, Row
from reconciler.core.gaps import untold
from reconciler.core.types import LedgerEntry

#: What loading takes as long as it was not measured: bytes read in a second, and seconds besides.
READ_SPEED: Final = 3_000_000_000
STARTING: Final = 2.0
#: What a return costs besides: another model has to go for it, and the slot is taken from everybody meanwhile; seconds.
RETURNING: Final = 4.0
#: What stopping a process costs those who wait, in seconds: of two equal losses, the one of fewer models.
STOPPING: Final = 0.04


def load_seconds(entry: LedgerEntry | None, size: int | None) -> float:
    """Return the seconds loading a model takes: measured, else worked out from its bytes."""
    if entry is not None and entry.load_seconds is not None:
        return entry.load_seconds
    return (size or 0) / READ_SPEED + STARTING


def value(row: Row, returns: float | None, now: float) -> float:
    """Return the seconds of waiting that a model in memory is expected to spare: those to load it, by its chance.

    `returns` is that chance, `Chance.returns`; None = nothing is known of its use but how long it has been idle.
    """
    if returns is None:
        returns = untold(max(0.0, now - row.instance.last_used)) if row.instance is not None else 0.0
    return (load_seconds(row.entry, row.size or row.charge) + RETURNING) * returns


def loss(row: Row, returns: float | None, now: float, waiters: float = 1.0) -> float:
    """Return what evicting a model costs, in seconds: all of those wait that are expected to wait together for it.

    One of old settings has to be loaded anew in any case.
    """
    if row.fitness is Fitness.DRIFTED:
        return STOPPING
    return value(row, returns, now) * waiters + STOPPING
