"""Habits out of what the store has of earlier runs: single requests, and before the oldest of them buckets."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from reconciler.core.habits import Habits
from reconciler.loop.local_time import local_seconds
from reconciler.store import BUCKET_SECONDS, ArrivalBucket, RequestRecord

#: Seconds that count: what is older weighs next to nothing.
REACH: Final = 21 * 86_400.0
#: A bucket stands for at most this many uses, evenly over its time: so its pauses are seen, and nothing takes long.
USES: Final = 4

#: When (local seconds), whether it is an end, and of which model.
Event = tuple[float, bool, str]


def replayed(
    buckets: Iterable[ArrivalBucket],
    requests: Iterable[RequestRecord],
    now: float,
    local: Callable[[float], float] = local_seconds,
) -> Habits:
    """Return new habits. `now` is wall-clock seconds: what was written under a clock that was ahead does not count.

    Takes some microseconds a request: not for the event loop.
    """
    habits = Habits()
    known = [r for r in requests if now - REACH <= r.at <= now]
    oldest = min((r.at for r in known), default=now)
    events = [*_of_requests(known, now, local), *_of_buckets(buckets, now - REACH, oldest, local)]
    for at, over, model in sorted(events):
        if over:
            habits.ended(model, at)
        else:
            habits.arrived(model, at)
    for record in known:
        if record.seconds > 0:
            habits.waited(record.model, record.cold, local(record.at + record.waited))
    return habits


def _of_requests(
    records: Iterable[RequestRecord], now: float, local: Callable[[float], float]
) -> Iterator[Event]:
    for record in records:
        begin, end = record.at, min(now, record.at + record.waited + record.seconds)
        at = local(begin)
        yield at, False, record.model
        yield at + (end - begin), True, record.model


def _of_buckets(
    buckets: Iterable[ArrivalBucket], first: float, before: float, local: Callable[[float], float]
) -> Iterator[Event]:
    for bucket in buckets:
        if bucket.requests < 1 or bucket.start < first or bucket.start + BUCKET_SECONDS > before:
            continue
        uses, begin = min(bucket.requests, USES), local(bucket.start)
        for n in range(uses):
            at = begin + BUCKET_SECONDS * (n + 0.5) / uses
            yield at, False, bucket.model
            yield at, True, bucket.model
