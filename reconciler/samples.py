"""How the memory was, some seconds apart: what a chart of the last hour is drawn from. Kept in memory, and bounded."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from reconciler.core.pressure import Level
from reconciler.core.types import Account, Instance, Observation

#: Seconds between two samples at least, unless the level of the pressure is another.
PACE_SECONDS: Final = 10.0
#: Samples kept, besides the first and the last: an hour in which something changes all the time.
MOST: Final = 360
#: Share of the machine's memory by which a reading has to differ to be a change: the system's own come and go.
_CHANGE: Final = 0.002


@dataclass(frozen=True, slots=True)
class Sample:
    """The memory at one moment, in bytes; None = unknown."""

    #: Seconds since 1970.
    at: float
    budget: int | None
    held: int | None
    reserved: int
    available: int | None
    #: Mean share of the machine's memory in use (0-1).
    used: float | None
    level: Level
    relieving: bool
    #: What the processes of each loaded model hold that only they can give back.
    models: Mapping[str, int | None]


def sample(account: Account, seen: Observation, at: float) -> Sample:
    """Return what is to be kept of a look at the machine; `at` is in seconds since 1970."""
    return Sample(
        at=at,
        budget=account.budget,
        held=account.held,
        reserved=account.reserved,
        available=seen.memory.available,
        used=seen.pressure.used,
        level=seen.pressure.level,
        relieving=seen.pressure.relieving,
        models=_committed(seen.instances),
    )


def _committed(instances: tuple[Instance, ...]) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    for instance in sorted(instances, key=lambda i: (i.model, i.pid)):
        had = found.get(instance.model, 0)
        unknown = had is None or instance.committed is None
        found[instance.model] = None if unknown else had + instance.committed  # type: ignore[operator]
    return found


class Samples:
    """The samples of one run, oldest first."""

    def __init__(self) -> None:
        self._kept: deque[Sample] = deque(maxlen=MOST + 2)

    def note(self, new: Sample, total: int | None) -> None:
        """Keep a sample if it tells something that the one before does not; `total` is the machine's memory."""
        last = self._kept[-1] if self._kept else None
        least = (total or 0) * _CHANGE
        if (
            last is None
            or _level(last) != _level(new)
            or (new.at - last.at >= PACE_SECONDS and _differs(last, new, least))
        ):
            self._kept.append(new)

    def since(self, at: float) -> tuple[Sample, ...]:
        """Return the samples of a time and later, and the one that held when it began."""
        kept = tuple(self._kept)
        first = next((n for n, one in enumerate(kept) if one.at > at), len(kept))
        return kept[max(0, first - 1) :]


def _level(one: Sample) -> tuple[Level, bool]:
    return one.level, one.relieving


def _differs(old: Sample, new: Sample, least: float) -> bool:
    if old.models.keys() != new.models.keys():
        return True
    pairs = [(old.models[name], new.models[name]) for name in new.models]
    readings = [(old.available, new.available), *pairs]
    stated = [(old.budget, new.budget), (old.held, new.held), (old.reserved, new.reserved)]
    return any(a != b for a, b in stated) or any(_moved(a, b, least) for a, b in readings)


def _moved(old: int | None, new: int | None, least: float) -> bool:
    if old is None or new is None:
        return old is not new
    return abs(new - old) > least
