"""Advice: why a model is loaded or not, who would go for it, and what would make it fit.

All of it is found by planning worlds that differ in one thing. It takes some dozens of plans, and is worked out only
for those who ask.
"""

from itertools import takewhile
from typing import Final

from reconciler.core.advice_cases import Case, asked, loads
from reconciler.core.advice_changes import changes
from reconciler.core.advice_rivals import rivals
from reconciler.core.advice_types import Advice, Change, Worth
from reconciler.core.diff import Row, compare
from reconciler.core.room import Room
from reconciler.core.types import Evict, Load, Manifest, Outcome, Plan, Policy, Prewarm, World
from reconciler.core.value import load_seconds, value

#: Changes of one model that are tried for a line of the status.
TRIES: Final = 25


def advise(manifest: Manifest, world: World, model: str, now: float) -> Advice:
    """Return all that can be said of one model. Raises KeyError for a name that no plan has a verdict on."""
    case = Case(manifest, world, now)
    verdict = case.plan().verdict(model)
    if verdict is None:
        raise KeyError(model)
    row = case.row(model)
    if row is None:
        return Advice(model, verdict, None, fits=True)
    made = asked(case, model).plan()
    stands = row.instance is not None and verdict.outcome is Outcome.KEEP
    fits = stands or loads(made, model)
    return Advice(
        model=model,
        verdict=verdict,
        worth=worth(case, model),
        fits=fits,
        goes=() if stands or not fits else _before(made, model),
        changes=() if fits else tuple(changes(case, model)),
        rivalries=tuple(r for r in rivals(manifest, world, now, waiting=True) if model in r.models),
    )


def _before(made: Plan, model: str) -> tuple[Evict, ...]:
    """Return who leaves before a model is loaded, whether or not for its sake."""
    ahead = takewhile(lambda step: not (isinstance(step, Load) and step.model == model), made.steps)
    return tuple(step for step in ahead if isinstance(step, Evict))


def worth(case: Case, model: str) -> Worth:
    """Return what a model of the manifest is worth in memory now. Raises KeyError for another name."""
    table = compare(case.manifest, case.world, case.now)
    row = next((r for r in table.rows if r.name == model), None)
    if row is None:
        raise KeyError(model)
    room = Room(case.manifest, case.world, table, case.now)
    order = list(room.victims)
    known = room.chances.get(model)
    # What it spares if it is sure to be used at once is what it takes to come back.
    seconds, whole = value(row, known, case.now), value(row, 1.0, case.now)
    waiters = room.waiters.get(model, 1.0) if row.instance is not None else 1.0
    unknown = known is None and row.instance is None
    return Worth(
        seconds=seconds * waiters,
        return_seconds=whole,
        load_seconds=load_seconds(row.entry, row.size or row.charge),
        decides=_decides(case.manifest, row),
        returns=None if unknown or whole <= 0 else seconds / whole,
        learned=known is not None,
        waiters=waiters,
        rank=order.index(model) + 1 if model in order else None,
        of=len(order),
    )


def _decides(manifest: Manifest, row: Row) -> bool:
    """Return whether anything depends on what a model is worth: who makes way, or what is loaded in advance."""
    if row.pinned:
        return False
    if row.instance is None:
        return manifest.prewarm is not Prewarm.OFF
    return manifest.policy is Policy.COST or manifest.prewarm is Prewarm.FULL


def hints(manifest: Manifest, world: World, made: Plan, now: float, most: int) -> list[tuple[str, Change]]:
    """Return what would help with the least effort of the `most` models for which somebody waits in vain the longest.

    Of each only so much is tried that nobody need wait for it.
    """
    waited = {d.model: d.oldest or now for d in world.observation.demands if d.waiting or d.wanted}
    blocked = [v.model for v in made.verdicts if v.outcome is Outcome.BLOCKED and v.model in waited]
    blocked.sort(key=lambda name: (waited[name], name))
    case = Case(manifest, world, now)
    firsts = ((name, next(changes(case, name, TRIES), None)) for name in blocked[:most])
    return [(name, change) for name, change in firsts if change is not None]
