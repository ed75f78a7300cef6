"""How long a request waits for busy models to come to rest by themselves before one of them is drained for it."""

from math import inf
from typing import Final

from reconciler.core.diff import Row
from reconciler.core.leaving import safe_until
from reconciler.core.selection import Stay
from reconciler.core.value import STARTING, load_seconds

#: At least so many seconds; requests end all the time.
LEAST: Final = 10.0
#: What a load takes, beyond what any start does, is borne so many times: a swap that is begun early only brings the
#: next one near.
SWAPS: Final = 20.0


def patience(row: Row) -> float:
    """Return the seconds requests for a model wait until a busy one may be drained for it.

    The dearer its load, the longer: two models in use that exclude each other would otherwise spend the time on
    taking turns. Never more than `ModelSpec.patience`, so that it is served before its clients are told to go.
    """
    return max(LEAST, min(row.spec.patience, SWAPS * (load_seconds(row.entry, row.size) - STARTING)))


def is_patient(row: Row, now: float) -> bool:
    """Return whether busy models may be drained for `row` now: it is pinned, or has waited long enough."""
    if row.pinned or row.demand.drains:
        return True
    # Told as `next_change` tells it: the difference of two times may be a hair less than what was added.
    return row.demand.oldest is not None and now >= row.demand.oldest + patience(row)


def drained_from(victim: Row, row: Row) -> float:
    """Return from when on a busy model may be drained for `row`; infinite = for as long as nobody waits.

    One that was loaded meanwhile has people of its own who waited: it is left alone for as long, counted from its load.
    """
    if row.pinned or row.demand.drains:
        return -inf
    if row.demand.oldest is None or victim.instance is None:
        return inf
    return max(row.demand.oldest, victim.instance.loaded_at) + patience(row)


def outlasts_wish(victim: Row, row: Row) -> bool:
    """Return whether an idle model stays for all that a person asked for `row`: it was loaded after that.

    Of two who exclude each other and were asked for at the same time the second would otherwise take the place of the
    first as soon as that is there.
    """
    wished = row.demand.wished
    if wished is None or row.pinned or row.demand.waiting or victim.instance is None or victim.asleep:
        return False
    return victim.instance.loaded_at >= wished


def is_kept(stay: Stay, row: Row) -> bool:
    """Return whether `row` waits for a victim because that was loaded a moment ago, and not because it is in use."""
    victim = stay.victim
    if not victim.busy or victim.instance is None:
        return True
    return safe_until(victim.spec, victim.instance) > drained_from(victim, row)
