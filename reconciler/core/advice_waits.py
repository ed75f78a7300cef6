"""The moments at which time alone may let a model in, and what happens at each."""

from collections.abc import Iterator
from math import isfinite
from typing import Final

from reconciler.core.diff import Row
from reconciler.core.leaving import TRANSIENT_GRACE, rests_until, safe_until, stays_for
from reconciler.core.patience import drained_from, patience
from reconciler.core.restarts import next_restart
from reconciler.core.select import LONG
from reconciler.core.types import Residency

#: Nobody is told to wait for longer than this, in seconds.
HORIZON: Final = 86_400.0
#: Most moments that are looked at.
MOMENTS: Final = 40


def moments(rows: list[Row], claimant: str, now: float) -> list[tuple[float, str]]:
    """Return the moments after `now` at which a plan may turn out otherwise, and what happens then; the first first."""
    found = [m for row in rows for m in _of(row, row.name == claimant, now)]
    found += [m for row in rows if row.name == claimant for m in _of_used(rows, row)]
    ahead = sorted(m for m in found if now < m[0] <= now + HORIZON)
    return ahead[:MOMENTS]


def _of(row: Row, claims: bool, now: float) -> Iterator[tuple[float, str]]:
    if row.wanted:
        yield from _of_claimant(row, "it" if claims else row.name, now)
    instance = row.instance
    if instance is None or not instance.ready or claims:
        return
    if (safe := safe_until(row.spec, instance)) > instance.loaded_at:
        yield (
            safe,
            f"{row.name} has been loaded for its {stays_for(row.spec, instance)[0]}, and may be displaced",
        )
    if row.busy or row.demand.away:
        return
    if row.spec.idle_ttl is not None:
        yield instance.last_used + row.spec.idle_ttl, f"{row.name} has been idle for its idle_ttl, and leaves"
    if row.spec.residency is Residency.TRANSIENT:
        yield instance.last_used + TRANSIENT_GRACE, f"{row.name} is transient, and leaves"
    if (restart := next_restart(row.spec, instance)) is not None:
        yield restart, f"{row.name} has run as long as its restart allows, and is replaced"


def _of_claimant(row: Row, name: str, now: float) -> Iterator[tuple[float, str]]:
    """Yield when more is done for one that is wanted: for others, too, room is made that may be enough for two."""
    if row.entry is not None and row.entry.retry_at is not None:
        yield row.entry.retry_at, f"the next try of {row.name} is due"
    if (rested := rests_until(row, now)) is not None:
        yield rested, f"the reload_after of {row.name} is over"
    if row.demand.waiting and row.demand.oldest is not None:
        yield (
            row.demand.oldest + patience(row),
            f"{name} has waited so long that models in use are drained for it",
        )
        yield row.demand.oldest + LONG, f"{name} has waited so long that it comes before others"


def _of_used(rows: list[Row], claimant: Row) -> Iterator[tuple[float, str]]:
    """Yield when models in use may be drained that were loaded since the first request for another one came."""
    for row in rows:
        if row is not claimant and row.busy and row.instance is not None:
            at = drained_from(row, claimant)
            if isfinite(at):
                yield at, f"{row.name} has been loaded for so long that it is drained for one that waits"
