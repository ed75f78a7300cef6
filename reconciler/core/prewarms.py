"""What became of models that were loaded before anybody asked. Pure bookkeeping; times are monotonic seconds."""

from dataclasses import replace
from typing import Final

from reconciler.core.types import Prewarms

HOUR: Final = 3600.0
#: A model that was loaded in vain is not loaded in advance again for so long, twice as long each further time.
BACKOFF_FIRST: Final = 300.0
BACKOFF_CAP: Final = 1800.0
#: One that is not used within so many seconds was loaded in vain, also if it is still there.
VAIN_AFTER: Final = 3600.0


def begun(known: Prewarms, now: float) -> Prewarms:
    """Return what is known once another one is begun."""
    return replace(known, begun=(*(at for at in known.begun if now - at < HOUR), now))


def used(known: Prewarms, model: str) -> Prewarms:
    """Return what is known once a model was used that had been loaded in advance: what was in vain is forgotten."""
    return replace(
        known,
        until=tuple(entry for entry in known.until if entry[0] != model),
        vain=tuple(entry for entry in known.vain if entry[0] != model),
    )


def in_vain(known: Prewarms, model: str, now: float) -> Prewarms:
    """Return what is known once a model went, or stayed for `VAIN_AFTER`, without having been used."""
    times = dict(known.vain).get(model, 0) + 1
    until = now + min(BACKOFF_CAP, BACKOFF_FIRST * 2.0 ** min(times - 1, 30))
    return replace(
        known,
        until=tuple(sorted({**dict(known.until), model: until}.items())),
        vain=tuple(sorted({**dict(known.vain), model: times}.items())),
    )
