"""A plan as a JSON document."""

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from reconciler.core.types import Account, Evict, Outcome, Plan, Step, Verdict
from reconciler.render.advice_shapes import HintDocument
from reconciler.render.shapes import (
    FORMAT_VERSION,
    AccountDocument,
    Document,
    GitDocument,
    OriginDocument,
    OutcomeName,
    PlanDocument,
    StepDocument,
    SummaryDocument,
)
from reconciler.render.verdict_shapes import VerdictDocument

if TYPE_CHECKING:  # the manifest package is heavy to import, and only the shape is needed here
    from reconciler.manifest.applied import Source

OUTCOME_NAMES: Final[dict[Outcome, OutcomeName]] = {
    Outcome.LOAD: "load",
    Outcome.EVICT: "evict",
    Outcome.RELOAD: "reload",
    Outcome.KEEP: "keep",
    Outcome.BLOCKED: "blocked",
    Outcome.COLD: "cold",
}


def plan_json(plan: Plan, source: "Source", advice: tuple[HintDocument, ...] = ()) -> dict[str, Any]:
    """Return the document of `schemas/plan.v1.json` for a plan, the manifest source it was made for, and advice."""
    git = git_document(source)
    return as_json(
        PlanDocument(
            manifest=OriginDocument(path=source.path, generation=plan.generation, git=git),
            observation=plan.seq,
            account=account_document(plan.account),
            steps=step_documents(plan),
            verdicts=tuple(verdict_document(v) for v in sorted(plan.verdicts, key=lambda v: v.model)),
            summary=_summary(plan),
            changes=bool(plan.steps),
            advice=advice,
        )
    )


def as_json(document: Document) -> dict[str, Any]:
    """Return a top-level document as plain data, with its format version first."""
    return {"formatVersion": FORMAT_VERSION, **_mapping(document)}


def _mapping(document: Document) -> dict[str, Any]:
    """Like dataclasses.asdict without its deep copies: the status of thousands of models is made while others wait."""
    names: tuple[str, ...] = type(document).__slots__
    return {name: _plain(getattr(document, name)) for name in names}


def _plain(value: Any) -> Any:
    if isinstance(value, Document):
        return _mapping(value)
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def git_document(source: "Source") -> GitDocument | None:
    """Return where in git the manifest is, or None outside a repository."""
    return GitDocument(source.git_commit, source.git_dirty) if source.git_commit else None


def step_documents(plan: Plan) -> tuple[StepDocument, ...]:
    """Return the steps of a plan, numbered from 1."""
    return tuple(_step(number, step) for number, step in enumerate(plan.steps, 1))


def account_document(account: Account) -> AccountDocument:
    """Return the memory account of a plan."""
    return AccountDocument(account.budget, account.held, account.reserved, account.free)


def verdict_document(verdict: Verdict) -> VerdictDocument:
    """Return one verdict."""
    return VerdictDocument(
        model=verdict.model,
        outcome=OUTCOME_NAMES[verdict.outcome],
        reason=verdict.reason.value,
        detail=verdict.detail,
        size=verdict.size,
        retry_in=verdict.retry_in,
    )


def _step(number: int, step: Step) -> StepDocument:
    evict = step if isinstance(step, Evict) else None
    return StepDocument(
        number=number,
        action="evict" if evict else "load",
        model=step.model,
        bytes=step.frees if isinstance(step, Evict) else step.needs,
        free=step.free,
        reason=step.reason.value,
        for_model=evict.for_model if evict else None,
        detail=step.detail,
        drain=evict.drain if evict else False,
        sleeps=evict.sleep if evict else False,
        pid=step.pid,
    )


def _summary(plan: Plan) -> SummaryDocument:
    counts = Counter(OUTCOME_NAMES[v.outcome] for v in plan.verdicts)
    return SummaryDocument(**{name: counts[name] for name in OUTCOME_NAMES.values()})
