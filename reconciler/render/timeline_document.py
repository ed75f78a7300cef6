"""A stretch of time as a document: samples of the memory, and the loads and evictions of the ledger. Reading blocks."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from reconciler.core.types import Reason
from reconciler.core.words import size, span
from reconciler.render.history_document import regretted
from reconciler.render.memory_document import LEVELS
from reconciler.render.plan_document import as_json
from reconciler.render.timeline_shapes import DoneDocument, SampleDocument, TimelineDocument
from reconciler.samples import Sample
from reconciler.store.records import EvictionRecord, LoadRecord

if TYPE_CHECKING:
    from reconciler.store import Store

#: Actions of one answer.
ACTIONS_MOST: Final = 2000
#: Seconds within which a load follows the eviction of the process it replaces.
_AT_ONCE: Final = 60.0
_REPLACING: Final = frozenset({Reason.DRIFTED, Reason.RESTART_DUE})


def timeline(store: "Store", samples: Sequence[Sample], since: float, until: float) -> dict[str, Any]:
    """Return the document of `schemas/timeline.v1.json`; `samples` are not empty, oldest first."""
    made = as_json(
        TimelineDocument(
            since=since,
            from_=max(since, samples[0].at),
            to=until,
            samples=tuple(map(_sample, samples)),
            actions=tuple(_actions(store, since)),
        )
    )
    return {name.removesuffix("_"): value for name, value in made.items()}


def _sample(one: Sample) -> SampleDocument:
    return SampleDocument(
        at=one.at,
        budget=one.budget,
        held=one.held,
        reserved=one.reserved,
        available=one.available,
        used=one.used,
        level=LEVELS[one.level],
        relieving=one.relieving,
        models=dict(one.models),
    )


def _actions(store: "Store", since: float) -> list[DoneDocument]:
    loads = store.loads(None, ACTIONS_MOST, since=since, newest=True)
    evictions = store.evictions(None, ACTIONS_MOST, since=since, newest=True)
    found = sorted((*map(_load, loads), *map(_eviction, evictions)), key=lambda done: (done.at, done.model))
    return _paired(found[-ACTIONS_MOST:])


def _paired(found: Iterable[DoneDocument]) -> list[DoneDocument]:
    """Call an eviction and the load of the same model that follows at once a reload, if it was begun for that."""
    made: list[DoneDocument] = []
    last: dict[str, int] = {}
    for done in found:
        before = made[last[done.model]] if done.model in last else None
        if done.action == "load" and before is not None and _replaced(before, done.at):
            made[last[done.model]] = replace(before, action="reload")
            done = replace(done, action="reload")
        last[done.model] = len(made)
        made.append(done)
    return made


def _replaced(before: DoneDocument, at: float) -> bool:
    at_once = at - before.at - before.seconds < _AT_ONCE
    return before.action == "evict" and before.reason in _REPLACING and at_once


def _load(r: LoadRecord) -> DoneDocument:
    return DoneDocument(
        at=r.at,
        seconds=r.seconds,
        action="load",
        model=r.model,
        reason=r.reason,
        for_model=None,
        outcome=r.outcome,
        detail=r.error or _loaded(r),
        regretted=False,
    )


def _loaded(r: LoadRecord) -> str:
    parts = ["its process was woken"] if r.kind == "wake" else []
    if r.waiting:
        parts.append(f"{r.waiting} request{'s' if r.waiting > 1 else ''} waited")
    if r.peak is not None:
        parts.append(f"held {size(r.peak)} at most")
    return ", ".join(parts)


def _eviction(r: EvictionRecord) -> DoneDocument:
    again = "" if r.wanted_after is None else f", wanted again after {span(r.wanted_after)}"
    return DoneDocument(
        at=r.at,
        seconds=r.seconds,
        action="evict",
        model=r.model,
        reason=r.reason,
        for_model=r.for_model or None,
        outcome=r.outcome,
        detail=f"{size(r.frees)}, idle {span(r.idle)}{again}",
        regretted=regretted(r),
    )
