"""When the same world would be planned differently, because time alone has passed."""

from collections.abc import Iterator
from typing import Final

from reconciler.core.diff import Row, Table
from reconciler.core.leaving import TRANSIENT_GRACE, rests_until, safe_until
from reconciler.core.patience import patience
from reconciler.core.prewarm import next_look
from reconciler.core.restarts import next_restart
from reconciler.core.select import LONG
from reconciler.core.selection import Selection
from reconciler.core.types import Instance, Manifest, Residency, World

#: Models in use are not looked at more often than this to see whether they have come to rest.
REST: Final = 0.5


def next_change(
    table: Table, selection: Selection, manifest: Manifest, world: World, now: float
) -> float | None:
    """Return the earliest future time at which the same world may be planned differently; None = never.

    A loop that sleeps until then (or until something happens) misses nothing.
    """
    times = [time for row in table.rows for time in _times(row, now)]
    stays = (block.stay.until for block in selection.blocked.values() if block.stay is not None)
    times += [until for until in stays if until is not None]
    if (ahead := next_look(manifest, world, table, selection.free, now)) is not None:
        times.append(ahead)
    return min((t for t in times if t > now), default=None)


def _times(row: Row, now: float) -> Iterator[float]:
    """Yield when something may change for one model."""
    demand = row.demand
    if row.entry is not None and row.entry.retry_at is not None:
        yield row.entry.retry_at
    if row.entry is not None and row.entry.raised_until is not None:
        yield row.entry.raised_until
    if demand.oldest is not None and demand.waiting > 0:
        yield demand.oldest + patience(row)
        yield demand.oldest + LONG
    if (rested := rests_until(row, now)) is not None and row.wanted:
        yield rested
    if row.instance is not None:
        yield from _of_running(row, row.instance, now)


def _of_running(row: Row, instance: Instance, now: float) -> Iterator[float]:
    if (safe := safe_until(row.spec, instance)) > instance.loaded_at:
        yield safe
    if row.spec.idle_ttl is not None:
        # The end of a request wakes nobody: looking once in each idle time is enough to be in time for its end.
        in_use = row.busy or row.demand.away
        yield now + max(row.spec.idle_ttl, REST) if in_use else instance.last_used + row.spec.idle_ttl
    if row.spec.residency is Residency.TRANSIENT and not row.busy:
        yield instance.last_used + TRANSIENT_GRACE
    if (restart := next_restart(row.spec, instance)) is not None:
        yield restart
