"""A ledger filled by hand, for tests of what is shown of it. All times are in UTC; `NOW` is a Monday morning."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reconciler.store import ArrivalBucket, EvictionRecord, LoadRecord, RequestRecord, Store

GIB = 1 << 30
DAY = 86400.0
#: 2026-11-30 09:00:00 UTC.
NOW = 1_796_029_200.0


@contextmanager
def utc() -> Iterator[None]:
    """Be in a place whose clocks show UTC."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "UTC"
    time.tzset()
    try:
        yield
    finally:
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before
        time.tzset()


def load(model: str, ago: float, seconds: float = 18.0, **more: object) -> LoadRecord:
    """Return a load that was begun so many seconds before NOW."""
    values: dict[str, object] = {
        "digest": "d1a2b3c4d5",
        "reason": "Demanded",
        "peak": 4 * GIB,
        "outcome": "ready",
        "waiting": 1,
        "kind": "load",
    }
    return LoadRecord(0, NOW - ago, model, seconds=seconds, **{**values, **more})  # type: ignore[arg-type]


def eviction(model: str, ago: float, wanted_after: float | None = None, **more: object) -> EvictionRecord:
    """Return an eviction that was begun so many seconds before NOW."""
    values: dict[str, object] = {
        "reason": "MakeRoom",
        "for_model": "coder",
        "frees": 4 * GIB,
        "used": 0.71,
        "pressure": "calm",
        "seconds": 1.5,
        "resident": 4000.0,
        "idle": 300.0,
        "outcome": "gone",
    }
    return EvictionRecord(0, NOW - ago, model, wanted_after=wanted_after, **{**values, **more})  # type: ignore[arg-type]


def request(model: str, ago: float, cold: float = 0.0, seconds: float = 2.5, **more: object) -> RequestRecord:
    """Return a request that came so many seconds before NOW."""
    values: dict[str, object] = {
        "client": "desk",
        "waited": cold,
        "prompt_tokens": 120,
        "output_tokens": 40,
        "outcome": "ok",
    }
    return RequestRecord(0, NOW - ago, model, cold=cold, seconds=seconds, **{**values, **more})  # type: ignore[arg-type]


def bucket(model: str, ago: float, requests: int, cold: int = 0, waited: float = 0.0) -> ArrivalBucket:
    """Return the five minutes in which a time lies."""
    start = int(NOW - ago)
    return ArrivalBucket(model, start - start % 300, requests, cold, waited)


LOADS = (
    load("chat", 6 * DAY, 21.0),
    load("chat", 5 * DAY, 17.0),
    load("coder", 5 * DAY - 7000, 33.0, digest="c0ffee", peak=20 * GIB, waiting=2),
    load("chat", 3 * DAY, 16.0, digest="e5f6a7b8"),
    load("chat", 2 * DAY, 0.0, digest="e5f6a7b8", peak=None, outcome="failed", error="exit 1: cannot open"),
    load("chat", DAY, 18.5, digest="e5f6a7b8", reason="Prewarm", waiting=0, peak=5 * GIB),
    load("chat", 10000, 4.0, digest="e5f6a7b8", reason="Prewarm", waiting=0, outcome="given-up", peak=None),
    load("chat", 8000, 19.0, digest="e5f6a7b8", reason="Prewarm", waiting=0),
    load("chat", 2000, 0.8, digest="e5f6a7b8", kind="wake", peak=None),
    load("coder", 3500, 35.0, digest="c0ffee", peak=20 * GIB),
)
EVICTIONS = (
    eviction("chat", 5 * DAY + 9000, 3600.0),
    eviction("chat", 5 * DAY - 7030, 12.0, used=0.83, pressure="soft"),
    eviction("coder", 4 * DAY, None, reason="IdleExpired", for_model="", idle=900.0, used=None),
    eviction("chat", 2 * DAY + 500, 40.0, reason="Drifted", for_model=""),
    eviction("chat", DAY - 3000, None, resident=2981.5, idle=2981.5),
    eviction("chat", 3550, 1550.0, resident=4431.0, idle=60.0, outcome="asleep"),
)
REQUESTS = (
    request("chat", 5 * DAY, 17.2, 4.0),
    request("coder", 5 * DAY - 7000, 34.5, 61.0, client="agents", prompt_tokens=8000, output_tokens=900),
    request("chat", 3 * DAY, 16.4),
    request("chat", 7500, 0.0, 3.0),
    request("chat", 7400, 0.0, 0.0, outcome="refused:queue_full", prompt_tokens=None, output_tokens=None),
    request("chat", 2000, 1.0, 2.0, client="agents"),
)
ARRIVALS = (
    bucket("chat", 5 * DAY, 40, 1, 17.2),
    bucket("coder", 5 * DAY - 7000, 3, 2, 60.0),
    bucket("chat", 3 * DAY, 25, 1, 16.4),
    bucket("chat", 7500, 12),
    bucket("chat", 2000, 4, 1, 1.0),
    bucket("embed", 2000, 100),
)
EVENTS = (
    (DAY, "manifest", None, "Applied", "generation 7"),
    (3600, "evict", "chat", "MakeRoom", "for coder: priority 500 <= 750, idle 60s"),
    (3550, "asleep", "chat", "MakeRoom", "in 1.5 s, holds 200 MiB"),
    (3500, "load", "coder", "Demanded", "1 request waiting, oldest 0.1s"),
    (3465, "loaded", "coder", "Demanded", "in 35.0 s, holds 20.0 GiB"),
    (3000, "load-failed", "odd", "LoadFailed", "exit 1: cannot open\n\x1b[31mred"),
    (100, "crashed", "coder", "Crashed", "killed by SIGKILL"),
)


def fill(store: Store) -> None:
    """Write all of the above into a ledger."""
    for done in LOADS:
        store.add_load(done)
    for gone in EVICTIONS:
        store.add_eviction(gone)
    store.add_requests(REQUESTS)
    store.bump_arrivals(ARRIVALS)
    for ago, kind, model, reason, message in EVENTS:
        store.add_event(NOW - ago, kind, model, reason, message)


def filled(path: Path) -> Path:
    """Make such a ledger at `path` and return it."""
    with Store(path) as store:
        fill(store)
    return path
