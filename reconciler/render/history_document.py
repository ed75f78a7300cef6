"""The history of models as a document, worked out from what the ledger keeps."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import Any, Final

from reconciler.core.regrets import SOON, rued
from reconciler.core.types import Reason
from reconciler.render.history_prewarms import prewarms
from reconciler.render.history_records import Records
from reconciler.render.history_shapes import (
    ArrivalsDocument,
    DigestDocument,
    EvictionDocument,
    EvictionsDocument,
    HistoryDocument,
    HourDocument,
    LoadDocument,
    LoadsDocument,
    ModelHistoryDocument,
    ReasonDocument,
    StartsDocument,
)
from reconciler.render.plan_document import as_json
from reconciler.store.records import EvictionRecord, LoadRecord

#: Records of one kind that a document shows one by one.
NEWEST_LOADS: Final = 20
NEWEST_EVICTIONS: Final = 50


def history(models: Mapping[str, Records], since: float, until: float) -> HistoryDocument:
    """Return what happened between two times (wall-clock seconds), of these models."""
    made = (_model(name, records) for name, records in sorted(models.items()))
    return HistoryDocument(since, until, SOON, tuple(made))


def history_json(models: Mapping[str, Records], since: float, until: float) -> dict[str, Any]:
    """Return the same as plain data."""
    return as_json(history(models, since, until))


def _model(name: str, records: Records) -> ModelHistoryDocument:
    return ModelHistoryDocument(
        name,
        _loads(records.loads),
        _evictions(records.evictions),
        prewarms(records),
        arrivals_document(records),
    )


def _loads(records: Sequence[LoadRecord]) -> LoadsDocument:
    ready = [r for r in records if r.outcome == "ready"]
    cold = [r for r in ready if r.kind == "load"]
    outcomes = Counter(r.outcome for r in records)
    newest = sorted({r.digest: r.at for r in cold}.items(), key=lambda item: -item[1])
    return LoadsDocument(
        starts=_starts(cold),
        digests=tuple(DigestDocument(d, at, _starts([r for r in cold if r.digest == d])) for d, at in newest),
        wakes=len(ready) - len(cold),
        failed=outcomes["failed"],
        given_up=outcomes["given-up"],
        newest=tuple(load_document(r) for r in records[-NEWEST_LOADS:]),
    )


def load_document(r: LoadRecord) -> LoadDocument:
    """Return one load."""
    failure = r.failure or None
    return LoadDocument(
        r.at, r.digest, r.reason, r.seconds, r.peak, r.outcome, r.waiting, r.kind, r.error, failure
    )


def _starts(records: Sequence[LoadRecord]) -> StartsDocument:
    seconds = [r.seconds for r in records]
    return StartsDocument(
        count=len(records),
        last=seconds[-1] if seconds else None,
        median=quantile(seconds, 0.5),
        p95=quantile(seconds, 0.95),
        seconds=sum(seconds),
        peak=max((r.peak for r in records if r.peak is not None), default=None),
    )


def _evictions(records: Sequence[EvictionRecord]) -> EvictionsDocument:
    done = [r for r in records if r.outcome != "given-up"]
    counts, regrets = Counter(r.reason for r in done), Counter(r.reason for r in done if regretted(r))
    reasons = sorted(counts, key=lambda reason: (-counts[reason], reason))
    return EvictionsDocument(
        count=len(done),
        regretted=sum(regrets.values()),
        given_up=len(records) - len(done),
        reasons=tuple(ReasonDocument(reason, counts[reason], regrets[reason]) for reason in reasons),
        newest=tuple(eviction_document(r) for r in records[-NEWEST_EVICTIONS:]),
    )


def eviction_document(r: EvictionRecord) -> EvictionDocument:
    """Return one eviction."""
    return EvictionDocument(
        at=r.at,
        reason=r.reason,
        for_model=r.for_model or None,
        frees=r.frees,
        used=r.used,
        pressure=r.pressure,
        seconds=r.seconds,
        resident=r.resident,
        idle=r.idle,
        wanted_after=r.wanted_after,
        regretted=regretted(r),
        outcome=r.outcome,
    )


def regretted(record: EvictionRecord) -> bool:
    """Return whether an eviction was one too many: nobody had asked for it, and its model was wanted again at once."""
    return record.outcome != "given-up" and rued(Reason(record.reason), record.wanted_after)


def arrivals_document(records: Records) -> ArrivalsDocument:
    """Return what became of the requests for one model."""
    came, cold = [0] * 24, [0] * 24
    for bucket in records.arrivals:
        hour = time.localtime(bucket.start).tm_hour
        came[hour] += bucket.requests
        cold[hour] += bucket.cold
    waits = [r.cold for r in records.requests if r.cold > 0]
    return ArrivalsDocument(
        requests=sum(came),
        cold=sum(cold),
        cold_seconds=sum(bucket.waited for bucket in records.arrivals),
        median=quantile(waits, 0.5),
        p95=quantile(waits, 0.95),
        longest=max(waits, default=None),
        hours=tuple(HourDocument(hour, came[hour], cold[hour]) for hour in range(24)),
    )


def quantile(values: Iterable[float], share: float) -> float | None:
    """Return the smallest value that so large a share of the values does not exceed; None = there are none.

    >>> quantile([4.0, 1.0, 3.0, 2.0], 0.5), quantile(range(1, 101), 0.95), quantile([7.0], 0.95)
    (2.0, 95, 7.0)
    """
    ordered = sorted(values)
    if not ordered:
        return None
    return ordered[max(0, ceil(share * len(ordered)) - 1)]
