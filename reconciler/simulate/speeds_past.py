"""What was measured on this machine, and what of it says anything of a model as its settings are now."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

from reconciler.store.records import EvictionRecord, LoadRecord, RequestRecord

_AT: Final = itemgetter(0)


@dataclass(frozen=True, slots=True)
class Past:
    """What was measured: records of requests, loads and evictions, oldest first, of any models."""

    requests: Sequence[RequestRecord] = ()
    loads: Sequence[LoadRecord] = ()
    evictions: Sequence[EvictionRecord] = ()


def of_launches(past: Past, digests: Mapping[str, str]) -> Past:
    """Return the records of processes that were started with these launch digests, by the model's name.

    Neither a request nor an eviction says what its process was started with: that was the last load of its model
    before it. Where no load is remembered nobody knows, and the record says nothing.
    """
    launches = _Launches(past.loads)
    return Past(
        requests=tuple(
            r
            for r in past.requests
            if r.model in digests and launches.digest(r.model, r.at + r.waited) == digests[r.model]
        ),
        loads=tuple(r for r in past.loads if digests.get(r.model) == r.digest),
        evictions=tuple(
            r
            for r in past.evictions
            if r.model in digests and launches.digest(r.model, r.at) == digests[r.model]
        ),
    )


class _Launches:
    """Which launch of a model served at which time."""

    def __init__(self, loads: Iterable[LoadRecord]) -> None:
        begun: dict[str, list[tuple[float, str]]] = {}
        for record in loads:
            if record.outcome == "ready":
                begun.setdefault(record.model, []).append((record.at, record.digest))
        self._begun = {model: sorted(found, key=_AT) for model, found in begun.items()}

    def digest(self, model: str, at: float) -> str | None:
        """Return the digest of the process that served at a wall-clock second, None = not known."""
        begun = self._begun.get(model, [])
        place = bisect_right(begun, at, key=_AT)
        return begun[place - 1][1] if place else None
