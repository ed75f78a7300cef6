"""What an earlier run did that still holds: loads in advance that count, and models that are to stay out."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from reconciler.core.prewarms import HOUR
from reconciler.core.types import Reason
from reconciler.store import EvictionRecord, Store

#: More loads than anybody can make after one eviction.
EVERYTHING: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Resumed:
    """Read out of the store at the start of a run."""

    #: When each load in advance of the last hour was begun, sorted; monotonic seconds.
    prewarmed: tuple[float, ...] = ()
    #: Models that a person had asked to go, gone or not, and nobody asked for since; sorted.
    dismissed: tuple[str, ...] = ()


def resumed(store: Store, last: Iterable[EvictionRecord], wall: float, now: float) -> Resumed:
    """Return what still holds. Blocking. Raises sqlite3.Error.

    `last` is `Store.last_evictions`, `wall` the wall-clock time of `now`.
    """
    # The event is written when a load begins: one that a crash ended has no record of its own.
    begun = store.event_times("load", str(Reason.PREWARM), wall - HOUR)
    # Of a clock that was set back since, the times lie ahead: as if it were just now.
    ages = (max(0.0, wall - at) for at in begun)
    gone = {one.model for one in last if _stays_out(store, one)}
    # A crash in the middle of such an eviction: there is no record of it, and it is still to be done.
    gone.update(store.begun_last(str(Reason.DISMISSED)))
    return Resumed(tuple(sorted(now - age for age in ages)), tuple(sorted(gone)))


def _stays_out(store: Store, gone: EvictionRecord) -> bool:
    if gone.reason != Reason.DISMISSED or gone.wanted_after is not None:
        return False
    after = store.loads(gone.model, limit=EVERYTHING, since=gone.at)
    return not any(load.outcome == "ready" for load in after)
