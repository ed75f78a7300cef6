"""Requests on their way into the store: in buckets and one by one, a batch at a time."""

from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

from reconciler.leases import Arrival, Ended
from reconciler.loop.keeper import Keeper
from reconciler.store import BUCKET_SECONDS, ArrivalBucket, AsyncStore, RequestRecord

#: Seconds between batches at least.
PACE: Final = 5.0
#: Requests written at a time: thousands a second are not in memory three times over meanwhile.
BATCH: Final = 1000
#: Requests and buckets kept while the disk is full; the oldest are lost.
MOST_REQUESTS: Final = 50_000
MOST_BUCKETS: Final = 5_000


class Tally:
    """Collects what is to be written of requests. Owned by the loop's task."""

    def __init__(self, store: AsyncStore, keeper: Keeper) -> None:
        self._store, self._keeper = store, keeper
        self._ended: deque[Ended] = deque(maxlen=MOST_REQUESTS)
        #: By start and model: requests, cold ones, seconds that those waited.
        self._buckets: dict[tuple[int, str], list[float]] = {}
        self._written = float("-inf")

    def add(
        self, arrivals: Iterable[Arrival], ended: Iterable[Ended], wall: Callable[[float], float]
    ) -> None:
        """Count what came, and what ended with the wait it had; `wall` leads from the loop's clock to the wall's."""
        for model, at in arrivals:
            self._bucket(model, wall(at))[0] += 1
        for one in ended:
            self._ended.append(one)
            if one.cold > 0:
                bucket = self._bucket(one.model, wall(one.arrived))
                bucket[1] += 1
                bucket[2] += one.cold
        while len(self._buckets) > MOST_BUCKETS:
            del self._buckets[min(self._buckets)]

    async def write(self, wall: Callable[[float], float], now: float, *, last: bool = False) -> None:
        """Write what there is, if the last time was a while ago, or this is the last one."""
        if now - self._written < PACE and not last:
            return
        self._written = now
        if self._buckets:
            counts, self._buckets = self._buckets, {}
            made = [_bucket(key, counted) for key, counted in sorted(counts.items())]
            if not await self._keeper.keep(self._store.bump_arrivals(made)):
                self._take_back(counts)
        while self._ended:
            batch = tuple(islice(self._ended, BATCH))
            # Made in the worker thread, where it delays no request.
            records = (_request(one, wall(one.arrived)) for one in batch)
            if not await self._keeper.keep(self._store.add_requests(records)):
                break
            for _ in batch:
                self._ended.popleft()

    def due(self, now: float) -> float | None:
        """Return when there is something to write after this turn, by the loop's clock; None = there is nothing."""
        due = self._written + PACE
        return due if (self._ended or self._buckets) and due > now else None

    def _take_back(self, counts: dict[tuple[int, str], list[float]]) -> None:
        """Keep what could not be written, beside what came meanwhile."""
        came, self._buckets = self._buckets, counts
        for key, counted in came.items():
            before = counts.get(key, [0, 0, 0.0])
            counts[key] = [old + new for old, new in zip(before, counted, strict=True)]

    def _bucket(self, model: str, at: float) -> list[float]:
        key = int(at // BUCKET_SECONDS) * BUCKET_SECONDS, model
        found = self._buckets.get(key)
        if found is None:
            found = self._buckets[key] = [0, 0, 0.0]
        return found


def _bucket(key: tuple[int, str], counted: list[float]) -> ArrivalBucket:
    start, model = key
    requests, cold, waited = counted
    return ArrivalBucket(model, start, int(requests), int(cold), waited)


def _request(one: Ended, at: float) -> RequestRecord:
    prompt, output = one.tokens or (None, None)
    return RequestRecord(
        0, at, one.model, one.owner, one.waited, one.cold, one.seconds, prompt, output, one.outcome
    )
