"""A plan as people read it: what happens, to whom, what it costs, and why, in aligned columns."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from reconciler.core.types import Account, Evict, Outcome, Plan, Reason, Step, Verdict
from reconciler.render.advice_shapes import HintDocument
from reconciler.render.paint import Paint, one_line, painter
from reconciler.render.units import Scale, scale_for

if TYPE_CHECKING:
    from reconciler.manifest.applied import Source

_COLOURS: Final = {"+": "green", "-": "red", "-/+": "yellow", "!": "red", "=": "", ".": "dim"}
#: Models without a step stand below the steps, in this order.
_REST: Final = (Outcome.LOAD, Outcome.EVICT, Outcome.RELOAD, Outcome.KEEP, Outcome.BLOCKED, Outcome.COLD)
_COUNTED: Final = (
    (Outcome.LOAD, "to load"),
    (Outcome.EVICT, "to evict"),
    (Outcome.RELOAD, "to reload"),
    (Outcome.KEEP, "to keep"),
    (Outcome.BLOCKED, "blocked"),
    (Outcome.COLD, "cold"),
)
#: Why a cold model would not be loaded either if somebody asked for it: it is not as the manifest wants it.
_HOPELESS: Final = (
    Reason.NOT_STARTABLE,
    Reason.BACKING_OFF,
    Reason.GIVEN_UP,
    Reason.SIZE_UNKNOWN,
    Reason.NEVER_FITS,
)


@dataclass(frozen=True, slots=True)
class _Row:
    number: str
    symbol: str
    model: str
    verb: str
    size: str
    after: str
    why: str


def plan_text(
    plan: Plan,
    source: "Source",
    *,
    colour: bool = False,
    described: bool = False,
    advice: Iterable[HintDocument] = (),
) -> str:
    """Return the plan as text without a final newline; `described` = no machine was looked at."""
    where = "  (on the machine as it is described)" if described else ""
    head = painter(colour)(origin_line(source, plan.generation) + where, "bold")
    return "\n".join([head, *plan_lines(plan, colour=colour, advice=advice)])


def plan_lines(plan: Plan, *, colour: bool = False, advice: Iterable[HintDocument] = ()) -> list[str]:
    """Return the lines of a plan below the one that names the manifest."""
    scale = _scale(plan)
    return [
        memory_line(plan.account, scale),
        *_table(_rows(plan, scale), painter(colour)),
        *(f"advice: {one_line(hint.text)}" for hint in advice),
        _closing(plan),
    ]


def origin_line(source: "Source", generation: int) -> str:
    """Return the line that names the manifest: path, generation, and commit."""
    commit = ""
    if source.git_commit:
        commit = f"  git {source.git_commit}{'+dirty' if source.git_dirty else ''}"
    number = f"  generation {generation}" if generation else ""  # none on a machine that is only described
    return f"manifest {source.path}{number}{commit}"


def memory_line(account: Account, scale: Scale) -> str:
    """Return the memory account in one line; only the first known figure carries the unit."""
    words = []
    shown_unit = False
    for count, label in (
        (account.budget, "budget"),
        (account.held, "held"),
        (account.reserved, "reserved"),
        (account.free, "free"),
    ):
        unit = "" if shown_unit or count is None else f" {scale.name}"
        shown_unit = shown_unit or count is not None
        words.append(f"{scale.number(count)}{unit} {label}")
    return "memory   " + "   ".join(words)


def why_text(reason: str, detail: str, for_model: str | None = None) -> str:
    """Return `Reason for MODEL: detail`, as far as the parts are there."""
    head = f"{reason} for {for_model}" if for_model else reason
    return f"{head}: {one_line(detail)}" if detail else head


def _scale(plan: Plan) -> Scale:
    """Return the unit of the budget: everything is compared with it, and a giant that never fits must not hide it."""
    if plan.account.budget is not None:
        return scale_for([plan.account.budget])
    moved = [s.frees if isinstance(s, Evict) else s.needs for s in plan.steps]
    return scale_for([plan.account.held, *moved, *(v.size for v in plan.verdicts)])


def _rows(plan: Plan, scale: Scale) -> list[_Row]:
    reloaded = {v.model for v in plan.verdicts if v.outcome is Outcome.RELOAD}
    rows = [_step_row(number, step, reloaded, scale) for number, step in enumerate(plan.steps, 1)]
    stepped = {step.model for step in plan.steps}
    rest = [v for v in plan.verdicts if v.model not in stepped]
    rest.sort(key=lambda v: (_REST.index(v.outcome), v.model))
    return rows + [_verdict_row(v, scale) for v in rest]


def _step_row(number: int, step: Step, reloaded: set[str], scale: Scale) -> _Row:
    after = f"-> {scale.number(step.free)} free"
    if isinstance(step, Evict):
        symbol = Outcome.RELOAD if step.model in reloaded else Outcome.EVICT
        why = why_text(step.reason, step.detail, step.for_model)
        return _Row(f"{number}.", symbol, step.model, "frees", scale.size(step.frees), after, why)
    why = why_text(step.reason, step.detail)
    return _Row(f"{number}.", Outcome.LOAD, step.model, "needs", scale.size(step.needs), after, why)


def _verdict_row(verdict: Verdict, scale: Scale) -> _Row:
    verb = {Outcome.KEEP: "holds", Outcome.EVICT: "frees"}.get(verdict.outcome, "needs")
    why = why_text(verdict.reason, verdict.detail)
    return _Row("", verdict.outcome, verdict.model, verb, scale.size(verdict.size), "", why)


def step_lines(plan: Mapping[str, Any], scale: Scale, paint: Paint) -> list[str]:
    """Return the steps of a plan document as they stand in the text of a plan."""
    reloaded = {v["model"] for v in plan["verdicts"] if v["outcome"] == "reload"}
    return _table([_document_row(step, reloaded, scale) for step in plan["steps"]], paint)


def _document_row(step: Mapping[str, Any], reloaded: set[str], scale: Scale) -> _Row:
    evict = step["action"] == "evict"
    symbol = (Outcome.RELOAD if step["model"] in reloaded else Outcome.EVICT) if evict else Outcome.LOAD
    return _Row(
        f"{step['number']}.",
        symbol,
        step["model"],
        "frees" if evict else "needs",
        scale.size(step["bytes"]),
        f"-> {scale.number(step['free'])} free",
        why_text(step["reason"], step["detail"], step["for_model"]),
    )


def _table(rows: list[_Row], paint: Paint) -> list[str]:
    def width(column: str) -> int:
        return max((len(getattr(row, column)) for row in rows), default=0)

    number, symbol, model, size_, after = map(width, ("number", "symbol", "model", "size", "after"))
    number = max(number, 2)
    lines = []
    for row in rows:
        sign = paint(row.symbol, _COLOURS[row.symbol]) if _COLOURS[row.symbol] else row.symbol
        cells = [
            f"  {row.number:>{number}} {' ' * (symbol - len(row.symbol))}{sign} {row.model:<{model}}  ",
            f"{row.verb} {row.size:>{size_}}",
            *([_after(row.after, after)] if after else []),
            f"  ({row.why})",
        ]
        lines.append(" ".join(cells))
    return lines


def _after(text: str, width: int) -> str:
    """Keep the arrow in its column and the numbers flush right."""
    return f"-> {text[3:]:>{width - 3}}" if text else " " * width


def _closing(plan: Plan) -> str:
    counts = {outcome: sum(v.outcome is outcome for v in plan.verdicts) for outcome in Outcome}
    if plan.steps:
        counted = ", ".join(f"{counts[outcome]} {words}" for outcome, words in _COUNTED if counts[outcome])
        only = " Only step 1 runs before the world is observed again." if len(plan.steps) > 1 else ""
        return f"Plan: {counted}.{only}"
    hopeless = sum(v.outcome is Outcome.COLD and v.reason in _HOPELESS for v in plan.verdicts)
    matching = sum(counts.values()) - counts[Outcome.BLOCKED] - hopeless
    models = "1 model matches" if matching == 1 else f"{matching} models match"
    blocked = f", {counts[Outcome.BLOCKED]} blocked" if counts[Outcome.BLOCKED] else ""
    blocked += f", {hopeless} cold that could not be loaded" if hopeless else ""
    manifest = f"generation {plan.generation}" if plan.generation else "the manifest"
    return f"No changes. {models} {manifest}{blocked}."
