"""Advice as JSON documents."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from reconciler.core.advice import advise, hints
from reconciler.core.advice_rivals import MOST, rivals
from reconciler.core.advice_types import Change, Rivalry, Worth
from reconciler.core.advice_words import change_text, hint_text, rivalry_text, within_horizon
from reconciler.core.types import Evict, Manifest, Plan, World
from reconciler.render.advice_shapes import (
    AdviceDocument,
    ChangeDocument,
    GoingDocument,
    HintDocument,
    RivalryDocument,
    WorthDocument,
)
from reconciler.render.plan_document import as_json, verdict_document

if TYPE_CHECKING:
    from reconciler.board import Snapshot

#: With more models than this nobody's status waits until advice is found, which `explain` gives: the event loop that
#: makes the status serves everybody else, too.
MODELS: Final = 40


def advice_json(snapshot: "Snapshot", now: float, model: str) -> dict[str, Any]:
    """Return the document of `schemas/advice.v1.json`. Raises KeyError for a model that nobody knows.

    It takes some dozens of plans: not on the event loop.
    """
    found = advise(snapshot.applied.manifest, snapshot.world, model, now)
    return as_json(
        AdviceDocument(
            model=model,
            verdict=verdict_document(found.verdict),
            worth=_worth(found.worth) if found.worth is not None else None,
            fits=found.fits,
            goes=tuple(_going(step) for step in found.goes),
            changes=_changes(found.changes),
            rivalries=tuple(rivalry_document(r) for r in found.rivalries),
        )
    )


def hint_documents(
    manifest: Manifest, world: World, made: Plan, now: float, *, waiting: bool = False
) -> tuple[HintDocument, ...]:
    """Return the most important advice, `MOST` at most: who cannot stand together, and what those lack that wait.

    With `waiting` a model that was used lately and one that waits for its room count as taking turns.
    """
    if len(manifest.models) > MODELS:
        return ()
    apart = rivals(manifest, world, now, waiting=waiting)
    found = [HintDocument("rivals", r.models, rivalry_text(r)) for r in apart]
    told = {name for r in apart for name in r.models}
    for model, change in hints(manifest, world, made, now, MOST - len(found)):
        if model not in told:
            found.append(HintDocument("blocked", (model,), hint_text(model, change)))
    return tuple(found)


def _worth(worth: Worth) -> WorthDocument:
    soon = None if worth.returns is None else within_horizon(worth.returns)
    return WorthDocument(
        seconds=worth.seconds,
        return_seconds=worth.return_seconds,
        load_seconds=worth.load_seconds,
        decides=worth.decides,
        returns=worth.returns,
        learned=worth.learned,
        waiters=worth.waiters,
        soon=soon,
        rank=worth.rank,
        of=worth.of,
    )


def _going(step: Evict) -> GoingDocument:
    return GoingDocument(
        model=step.model,
        pid=step.pid,
        bytes=step.frees,
        reason=step.reason.value,
        for_model=step.for_model,
        detail=step.detail,
        drain=step.drain,
        sleeps=step.sleep,
    )


def _changes(changes: Iterable[Change]) -> tuple[ChangeDocument, ...]:
    return tuple(
        ChangeDocument(
            kind=change.kind.value,
            model=change.model,
            bytes=change.bytes,
            tokens=change.tokens,
            tokens_left=change.tokens_left,
            priority=change.priority,
            may_preempt=change.may_preempt.value if change.may_preempt is not None else None,
            mark=change.mark,
            seconds=change.seconds,
            at_once=change.at_once,
            text=change_text(change),
        )
        for change in changes
    )


def rivalry_document(rivalry: Rivalry) -> RivalryDocument:
    """Return what models lack that cannot stand together, as a document."""
    return RivalryDocument(
        models=rivalry.models,
        short=rivalry.short,
        changes=_changes(rivalry.changes),
        together=_changes(rivalry.together),
        text=rivalry_text(rivalry),
    )
