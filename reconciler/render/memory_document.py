"""Who holds memory, as parts of the status document."""

from collections.abc import Iterable, Sequence
from typing import Final

from reconciler.core import book
from reconciler.core.account import breakdown
from reconciler.core.memory import Estimate, Said, Watermarks
from reconciler.core.types import Instance, LedgerEntry, Observation, Preflight
from reconciler.render.memory_shapes import (
    BreakdownDocument,
    EstimateDocument,
    LevelName,
    MarksDocument,
    ModelMemoryDocument,
    PressureDocument,
    SaidDocument,
)

LEVELS: Final[tuple[LevelName, ...]] = ("calm", "soft", "hard", "critical")


def breakdown_document(seen: Observation) -> BreakdownDocument | None:
    """Return who holds the machine's memory, or None where it cannot be told."""
    found = breakdown(seen.memory, seen.instances)
    if found is None:
        return None
    return BreakdownDocument(
        total=found.total,
        available=found.available,
        models=found.models,
        warm=found.warm,
        others=found.others,
        kernel=found.kernel,
        pools=found.pools,
        unattributed=found.unattributed,
    )


def pressure_document(seen: Observation) -> PressureDocument:
    """Return whether memory is short."""
    short = seen.pressure
    return PressureDocument(LEVELS[short.level], short.used, short.relieving, short.cause)


def marks_document(marks: Watermarks | None) -> MarksDocument | None:
    """Return the watermarks of a manifest."""
    return None if marks is None else MarksDocument(marks.soft, marks.hard, marks.critical, marks.target)


def model_memory(
    mine: Sequence[Instance],
    seen: Observation,
    preflight: Preflight | None,
    entry: LedgerEntry | None,
    charge: int | None,
    now: float,
) -> ModelMemoryDocument:
    """Return one model's part of the account; `mine` are its processes, `charge` what it is charged."""
    committed = sum_known(i.committed for i in mine)
    first = mine[0] if mine else None
    parts = preflight.parts if preflight is not None else None
    return ModelMemoryDocument(
        committed=committed,
        warm=sum_known(i.warm for i in mine),
        warm_basis=first.warm_basis.value if first else "measured",
        warm_age=None if first is None or first.warm_at is None else max(0.0, now - first.warm_at),
        device=sum(i.device for i in mine),
        releasable=_releasable(committed, mine, seen.instances),
        reserved=kept_free(mine, charge),
        peak=entry.peak if entry is not None else 0,
        estimate=estimate_document(parts) if parts is not None else None,
        said=_said(entry.said) if entry is not None and entry.said is not None else None,
    )


def kept_free(mine: Sequence[Instance], charge: int | None) -> int:
    """Return the bytes a model in memory is charged on top of what its processes `mine` hold."""
    holds = sum_known(book.held(i) for i in mine)
    return max(0, (charge or 0) - (holds or 0)) if mine else 0


def estimate_document(parts: Estimate) -> EstimateDocument:
    """Return an estimate by kind."""
    return EstimateDocument(
        weights=parts.weights,
        context=parts.context,
        compute=parts.compute,
        cache=parts.cache,
        overhead=parts.overhead,
        loading=parts.loading,
        steady=parts.steady,
        peak=parts.peak,
    )


def _said(said: Said) -> SaidDocument:
    return SaidDocument(said.weights, said.context, said.compute, said.context_tokens)


def _releasable(committed: int | None, mine: Sequence[Instance], everybody: Iterable[Instance]) -> int | None:
    if committed is None:
        return None
    elsewhere = {f.key for i in everybody if i not in mine for f in i.files}
    own = {f.key: f.size for i in mine for f in i.files if f.key not in elsewhere}
    return committed + sum(own.values())


def sum_known(counts: Iterable[int | None]) -> int | None:
    """Return the sum in bytes; None if a part is unknown."""
    total = 0
    for count in counts:
        if count is None:
            return None  # a sum with an unknown part would read as less than it is
        total += count
    return total
