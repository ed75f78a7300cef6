"""The gateway before an engine that takes no time: how fast a stream passes, and what requests leave in memory."""

import statistics
from typing import Final

import psutil

from benchmarks import firehose, http_load
from benchmarks.manager import Manager
from benchmarks.report import Figure, progress

PATH: Final = "/v1/completions"
STREAMS: Final = 5
CONNECTIONS: Final = 32
REQUESTS: Final = 100_000
WARM_UP: Final = 10_000
MOST_SECONDS: Final = 600.0
GOAL_GROWTH: Final = 4 << 20
MIB: Final = 1 << 20


def stream(manager: Manager, echo: int, model: str) -> Figure:
    """Measure how fast a stream passes whose engine takes no time for it."""
    progress(f"gateway: {STREAMS} streams of {firehose.EVENTS} events from an engine that takes no time")
    request = http_load.post(PATH, {"model": model, "prompt": "hi", "stream": True})
    rates: dict[int, list[float]] = {manager.port: [], echo: []}
    for _ in range(STREAMS):
        for port, taken in rates.items():
            client = http_load.Client(port)
            taken.append(firehose.EVENTS / client.ask(request))
            client.close()
    ours, direct = (statistics.median(taken) for taken in rates.values())
    return Figure(
        what=f"gateway, a stream of {firehose.EVENTS:,} events at once",
        measured=f"{ours:,.0f} events/s",
        reference=f"direct: {direct:,.0f} events/s",
        ratio=ours / direct,
    )


def memory(manager: Manager, start: int, model: str) -> Figure:
    """Measure what many requests leave behind; `start` is what it held before the first, in bytes."""
    progress(f"gateway: {REQUESTS} requests, and what memory they leave behind")
    request = http_load.post(PATH, {"model": model, "prompt": "hi"})
    http_load.flood(manager.port, request, CONNECTIONS, WARM_UP, MOST_SECONDS)
    before = rss(manager)
    seconds, _ = http_load.flood(manager.port, request, CONNECTIONS, REQUESTS - WARM_UP, MOST_SECONDS)
    after, rate = rss(manager), (REQUESTS - WARM_UP) / seconds
    return Figure(
        what=f"gateway, memory after {REQUESTS:,} requests",
        measured=f"{after / MIB:.1f} MiB, grown by {(after - before) / MIB:+.1f} MiB",
        goal=f"<= {GOAL_GROWTH / MIB:g} MiB",
        met=after - before <= GOAL_GROWTH,
        reference=f"after {WARM_UP:,}: {before / MIB:.1f}, ready: {start / MIB:.1f} MiB ({rate:.0f} requests/s)",
        ratio=after / before,
    )


def rss(manager: Manager) -> int:
    """Return the bytes the manager holds."""
    held: int = psutil.Process(manager.pid).memory_info().rss
    return held
