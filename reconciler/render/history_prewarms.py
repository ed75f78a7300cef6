"""What came of the loads nobody had asked for yet."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, TypeVar

from reconciler.core.types import Reason
from reconciler.render.history_records import Records
from reconciler.render.history_shapes import PrewarmsDocument
from reconciler.store.records import LoadRecord

#: Seconds by which two readings of the same time may differ.
_SLACK: Final = 0.5

T = TypeVar("T")


def prewarms(records: Records) -> PrewarmsDocument:
    """Return how many loads in advance of one model were used before it went again, and what that spared."""
    begun = [r for r in records.loads if r.reason == Reason.PREWARM]
    ready = [r for r in begun if r.outcome == "ready"]
    uses = _Uses(records)
    verdicts = [uses.of(r) for r in ready]
    used = sum(v is True for v in verdicts)
    in_vain = sum(v is False for v in verdicts)
    asked = sum(r.outcome == "ready" and r.reason != Reason.PREWARM and r.waiting > 0 for r in records.loads)
    return PrewarmsDocument(
        count=len(ready),
        used=used,
        in_vain=in_vain,
        undecided=len(ready) - used - in_vain,
        aborted=len(begun) - len(ready),
        precision=used / (used + in_vain) if used + in_vain else None,
        recall=used / (used + asked) if used + asked else None,
        spared=sum(r.seconds for r, v in zip(ready, verdicts, strict=True) if v),
    )


class _Uses:
    """When a model was used, and when it went."""

    def __init__(self, records: Records) -> None:
        self._came = sorted(r.at for r in records.requests)
        self._gone = [r for r in records.evictions if r.outcome != "given-up"]
        self._gone_at = [r.at for r in self._gone]
        self._loads_at = [r.at for r in records.loads if r.outcome == "ready"]

    def of(self, load: LoadRecord) -> bool | None:
        """Return whether somebody used what was loaded; None = nobody has so far, and it is still there.

        Of an eviction that is known it says itself how long nobody had used the model: single requests are kept for
        a shorter time than loads are.
        """
        eviction = _first(self._gone, self._gone_at, load.at + _SLACK)
        reloaded = _first(self._loads_at, self._loads_at, load.at + _SLACK)
        if eviction is not None and reloaded is not None and reloaded < eviction.at:
            eviction = None  # it died before: nothing was written of that
        if eviction is not None and eviction.idle < eviction.resident - _SLACK:
            return True
        end = eviction.at if eviction is not None else reloaded
        at = bisect_left(self._came, load.at)
        if at < len(self._came) and (end is None or self._came[at] < end):
            return True
        return None if end is None else False


def _first(rows: Sequence[T], times: Sequence[float], after: float) -> T | None:
    at = bisect_left(times, after)
    return rows[at] if at < len(rows) else None
