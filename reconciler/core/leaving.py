"""Who leaves whether or not somebody needs the room, in which order, and who cannot be started."""

from collections.abc import Container, Iterable
from typing import Final

from reconciler.core import book
from reconciler.core.diff import Fitness, Row
from reconciler.core.restarts import restart_due
from reconciler.core.selection import Going
from reconciler.core.types import Instance, ModelSpec, Reason, Residency

#: A transient model that was loaded and never asked anything leaves after this.
TRANSIENT_GRACE: Final = 30.0


#: Reasons for unloading a model that others need the room of. It is displaced, and may cool down once it is back.
DISPLACING: Final = frozenset({Reason.MAKE_ROOM, Reason.LESS_LIKELY, Reason.MEMORY_PRESSURE})
#: Reasons for unloading a model after which it is not wanted back at once. What is only replaced is.
RESTING: Final = DISPLACING | {
    Reason.OVER_BUDGET,
    Reason.IDLE_EXPIRED,
    Reason.TRANSIENT_DONE,
    Reason.DISMISSED,
}


def unstartable(row: Row, now: float) -> Reason | None:
    """Return why a model cannot be started at all now, memory aside, or None."""
    if row.preflight is not None and row.preflight.reason is not None:
        return Reason.NOT_STARTABLE
    if row.entry is not None and book.waits(row.entry, row.preflight, now):
        return Reason.GIVEN_UP if book.gave_up(row.entry) else Reason.BACKING_OFF
    if row.need is None:
        return Reason.SIZE_UNKNOWN
    return None


def portless(row: Row, leaving: Iterable[Row]) -> bool:
    """Return whether no port is free for a model that is loaded once others have left for it.

    A process of its own, which is replaced or woken, has one.
    """
    holders = row.preflight.ports_of if row.preflight is not None else ()
    if not holders or row.instance is not None or row.sleeper is not None:
        return False
    return not any(other.name in holders for other in leaving)


def walled_in(row: Row, pinned: Container[str]) -> bool:
    """Return whether no port can come free for a model: pinned ones, which never go, hold all that others do not."""
    return (
        portless(row, ()) and row.preflight is not None and all(m in pinned for m in row.preflight.ports_of)
    )


def rests_until(row: Row, now: float) -> float | None:
    """Return when a model that was unloaded a moment ago may be loaded again; None = now.

    Pinned models and those a person asks for do not rest.
    """
    closed = row.demand.closed
    if row.instance is not None or row.pinned or row.demand.wanted or closed is None:
        return None
    until = closed + row.spec.reload_after
    return until if until > now else None


def safe_until(spec: ModelSpec, instance: Instance) -> float:
    """Return until when a model may not be displaced because it was loaded a moment ago."""
    return instance.loaded_at + stays_for(spec, instance)[1]


def stays_for(spec: ModelSpec, instance: Instance) -> tuple[str, float]:
    """Return the key of the manifest that keeps a model which was loaded a moment ago, and its value in seconds."""
    cools = instance.returned and spec.cooldown > spec.min_resident
    return ("cooldown", spec.cooldown) if cools else ("min_resident", spec.min_resident)


def removal_reason(row: Row, now: float) -> Reason | None:
    """Return why a running model must leave whether or not somebody needs the room, or None."""
    instance, demand = row.instance, row.demand
    if instance is None or not instance.ready:
        return None
    if row.fitness is Fitness.DRIFTED and not row.wanted and unstartable(row, now) is None:
        return Reason.DRIFTED
    if row.pinned:
        return None
    if demand.dismissed and demand.waiting == 0 and not demand.wanted:
        return Reason.DISMISSED
    return None if row.busy or demand.away else _rested(row, instance, now)


def replaced_for_its_age(row: Row, now: float) -> bool:
    """Return whether a running model that nobody uses leaves for a fresh process of itself, which could be started."""
    # Most models have no limit: that is asked first.
    if not restart_due(row, now) or row.busy or row.demand.away:
        return False
    return unstartable(row, now) is None


def _rested(row: Row, instance: Instance, now: float) -> Reason | None:
    # One that is wanted is replaced in one go, where it claims its room.
    if not row.wanted and replaced_for_its_age(row, now):
        return Reason.RESTART_DUE
    idle = now - instance.last_used
    if row.spec.residency is Residency.TRANSIENT and (instance.served > 0 or idle >= TRANSIENT_GRACE):
        return Reason.TRANSIENT_DONE
    # One that the manifest wants in memory would be loaded again at once.
    if row.spec.idle_ttl is not None and idle >= row.spec.idle_ttl and not row.wanted:
        return Reason.IDLE_EXPIRED
    return None


def spared(row: Row, reason: Reason) -> bool:
    """Whether a model that is in use is left alone for a while: a drain for the same reason was called off."""
    return row.demand.in_use and row.demand.spared is reason


def stray_reason(stray: Instance, named: set[str]) -> Reason:
    """Return why a process leaves that no row accounts for."""
    if stray.broken:
        return Reason.CRASHED
    if stray.hung:
        return Reason.HUNG
    return Reason.DUPLICATE if stray.model in named else Reason.REMOVED


def going_order(going: Going) -> tuple[bool, bool, str, int]:
    """Sort those that leave: second processes, then idle ones; a drain holds up everything behind it."""
    ahead = going.reason in (Reason.CRASHED, Reason.DUPLICATE, Reason.HUNG)
    return (not ahead, going.busy, going.instance.model, going.instance.pid)
