"""What an earlier run did that still holds: loads in advance that count, and models that are to stay out."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from reconciler.core import prewarms
from reconciler.core.prewarms import HOUR
from reconciler.core.types import Prewarms, Reason
from reconciler.store import EvictionRecord, Store

#: More loads than anybody can make after one eviction.
EVERYTHING: Final = 1_000_000
#: Seconds for which it is remembered that a load in advance was in vain.
DAY: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Resumed:
    """Read out of the store at the start of a run."""

    #: What is known of loads in advance.
    prewarms: Prewarms = field(default_factory=Prewarms)
    #: Models that a person had asked to go, gone or not, and nobody asked for since; sorted.
    dismissed: tuple[str, ...] = ()


def resumed(store: Store, last: Iterable[EvictionRecord], wall: float, now: float) -> Resumed:
    """Return what still holds. Blocking. Raises sqlite3.Error.

    `last` is `Store.last_evictions`, `wall` the wall-clock time of `now`.
    """
    gone = {one.model for one in last if _stays_out(store, one)}
    # A crash in the middle of such an eviction: there is no record of it, and it is still to be done.
    gone.update(store.begun_last(str(Reason.DISMISSED)))
    return Resumed(_prewarms(store, wall, now), tuple(sorted(gone)))


def _prewarms(store: Store, wall: float, now: float) -> Prewarms:
    """Return the loads in advance that count for the next one, and which were in vain again and again."""

    def clock(at: float) -> float:
        """Of a clock that was set back since, the times lie ahead: as if it were just now."""
        return now - max(0.0, wall - at)

    # The event is written when a load begins: one that a crash ended has no record of its own.
    begun = store.events_of("load", since=wall - HOUR, reason=str(Reason.PREWARM))
    known = Prewarms(tuple(sorted(clock(one.at) for one in begun)))
    told = store.events_of("prewarm-used", "prewarm-in-vain", since=wall - DAY)
    ends = [(one.at, one.model or "", one.kind == "prewarm-used") for one in told]
    loads = store.loads(limit=EVERYTHING, since=wall - DAY)
    failed = (x for x in loads if x.reason == Reason.PREWARM and x.outcome == "failed")
    ends += [(one.at + one.seconds, one.model, False) for one in failed]
    for at, model, used in sorted(ends):
        known = prewarms.used(known, model) if used else prewarms.in_vain(known, model, clock(at))
    return known


def _stays_out(store: Store, gone: EvictionRecord) -> bool:
    if gone.reason != Reason.DISMISSED or gone.wanted_after is not None:
        return False
    after = store.loads(gone.model, limit=EVERYTHING, since=gone.at)
    return not any(load.outcome == "ready" for load in after)
