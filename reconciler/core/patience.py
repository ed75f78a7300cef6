"""How long a request waits for busy models to come to rest by themselves before one of them is drained for it."""

from typing import Final

from reconciler.core.diff import Row
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
    """Return whether a busy model may be drained for `row` now: it is pinned, or has waited long enough."""
    if row.pinned or row.demand.drains:
        return True
    # Told as `next_change` tells it: the difference of two times may be a hair less than what was added.
    return row.demand.oldest is not None and now >= row.demand.oldest + patience(row)
