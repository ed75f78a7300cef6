"""What a scrape of a hundred models costs, and what counting costs a request; processor time, least of many."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from benchmarks.report import Figure, progress
from benchmarks.stats import in_ms, median
from metrics_samples import TRAFFIC, busy
from reconciler.board import Snapshot
from reconciler.core.types import LedgerEntry, ModelSpec, Preflight
from reconciler.counts import Counts
from reconciler.gateway.metrics.page import page
from reconciler.leases import Ended

MODELS: Final = 100
RUNS: Final = 30
ROWS: Final = 1000
GOAL_SECONDS: Final = 0.05
FORMS: Final = ((False, "text format", generate_latest), (True, "OpenMetrics", openmetrics.generate_latest))


def run() -> Iterator[Figure]:
    """Write the page in both forms beside the client library, then count requests."""
    progress(f"metrics: {MODELS} models, {RUNS} scrapes of each form")
    snapshot, counts = desk()
    known = registry(page(snapshot, TRAFFIC, counts, snapshot.at).decode())
    for open_metrics, name, library in FORMS:
        yield writing(snapshot, counts, known, open_metrics, name, library)
    yield counting(snapshot)


def writing(
    snapshot: Snapshot,
    counts: Counts,
    known: CollectorRegistry,
    open_metrics: bool,
    name: str,
    library: Callable[[CollectorRegistry], bytes],
) -> Figure:
    """Return what a page costs in one form, the copy of the counters with it."""
    text = page(snapshot, TRAFFIC, counts, snapshot.at, open_metrics)
    ours, theirs = alternate(
        lambda: page(snapshot, TRAFFIC, counts.copy(), snapshot.at, open_metrics), lambda: library(known)
    )
    lines = len(text.splitlines())
    return Figure(
        f"a page of {MODELS} models, {lines:,} lines, {len(text) >> 10} KiB, {name}",
        f"{in_ms(min(ours))} (median {in_ms(median(ours))})",
        f"prometheus_client writes the same: {in_ms(min(theirs))}",
        min(ours) / min(theirs),
        f"< {in_ms(GOAL_SECONDS)}",
        min(ours) < GOAL_SECONDS,
    )


def desk() -> tuple[Snapshot, Counts]:
    """Return a machine with a hundred models in memory, each of which was asked and loaded."""
    made = busy()
    seen = made.world.observation
    names = [f"model-{number:03}" for number in range(MODELS)]
    launch, parts = made.applied.launches["chat"], seen.preflights[0].parts
    specs = tuple(ModelSpec(name, "d") for name in names)
    instances = tuple(replace(seen.instances[0], model=m, digest="d", pid=p) for p, m in enumerate(names, 1))
    preflights = tuple(Preflight(name, parts=parts) for name in names)
    manifest = replace(made.applied.manifest, models=specs)
    applied = replace(
        made.applied,
        manifest=manifest,
        launches=dict.fromkeys(names, launch),
        routes={name: name for name in names},
    )
    world = replace(
        made.world,
        observation=replace(seen, instances=instances, demands=(), preflights=preflights),
        ledger=tuple(LedgerEntry(name, "d", 1 << 30, load_seconds=3.2) for name in names),
    )
    counts = Counts()
    counts.keep(names)
    for name in names:
        counts.ended([Ended(name, "", 100.0, 2.0, 1.5, 103.0, "ok", (12, 34))])
        counts.loaded(name, 3.2)
    return replace(made, applied=applied, world=world), counts


def registry(text: str) -> CollectorRegistry:
    """Return what the client library makes of a page, to be written by it."""
    families: list[Metric] = list(text_string_to_metric_families(text))

    class Read(Collector):
        def collect(self) -> list[Metric]:
            return families

    made = CollectorRegistry()
    made.register(Read())
    return made


def counting(snapshot: Snapshot) -> Figure:
    """Return what counting one request costs, a second after its end, beside making its row."""
    counts = Counts()
    counts.keep(m.name for m in snapshot.applied.manifest.models)
    rows = [("model-001", "", 100.0, 0.0, 0.0, 100.3, "ok", (10, 20))] * ROWS
    ended = [Ended._make(row) for row in rows]
    ours, theirs = alternate(lambda: counts.ended(ended), lambda: [Ended._make(row) for row in rows])
    return Figure(
        "counting a request that is over",
        f"{min(ours) / ROWS * 1e6:.2f} us",
        f"taking its row out of the lease book: {min(theirs) / ROWS * 1e6:.2f} us",
        min(ours) / min(theirs),
    )


def alternate(*calls: Callable[[], object]) -> list[list[float]]:
    """Return the processor seconds of each call; they take turns, so that what else runs hits all alike."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(RUNS):
        for call, took in zip(calls, times, strict=True):
            began = time.thread_time()
            call()
            took.append(time.thread_time() - began)
    return times
