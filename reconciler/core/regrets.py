"""Evictions that were the wrong ones, or for which there is too little memory: what is told of a model they befall."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from reconciler.core.types import Demand, Reason

#: A model that is wanted again so many seconds after its eviction began should not have gone.
SOON: Final = 60.0
#: It is told when this many evictions of a model in so many seconds were followed by that.
OFTEN: Final = 3
WINDOW: Final = 3600.0
#: The evictions that are a choice, or want of memory. What a person or a changed manifest asks for is neither.
CHOSEN: Final = frozenset({Reason.MAKE_ROOM, Reason.LESS_LIKELY, Reason.OVER_BUDGET, Reason.MEMORY_PRESSURE})


def rued(reason: Reason, wanted_after: float | None) -> bool:
    """Return whether an eviction was one too many: it was chosen, and its model was wanted again at once.

    `wanted_after` is in seconds from the begin of the eviction; None = the model was not wanted.
    """
    return reason in CHOSEN and wanted_after is not None and wanted_after <= SOON


def awaited(demands: Iterable[Demand], model: str) -> bool:
    """Return whether a model that goes now is wanted already: requests stand at its door."""
    return any(d.model == model and (d.gated or d.waiting) for d in demands)


@dataclass(frozen=True, slots=True)
class Gone:
    """One eviction of a model, as far as regret needs it."""

    reason: Reason
    #: For whom it was; "" = for no model in particular.
    for_model: str
    #: When it began, monotonic seconds, and seconds from then until the model was wanted again (None = it was not).
    began: float
    wanted_after: float | None

    @property
    def regretted(self) -> bool:
        """Whether it was one too many."""
        return rued(self.reason, self.wanted_after)


@dataclass(frozen=True, slots=True)
class Regret:
    """A model that was wanted again at once after several evictions."""

    model: str
    evictions: int
    regretted: int
    #: Why those that are regretted were begun, and for whom ("" = no model), the most frequent first.
    reasons: tuple[tuple[Reason, int], ...]
    rivals: tuple[tuple[str, int], ...]

    @property
    def message(self) -> str:
        """What happened, and what helps."""
        times = (
            f"{self.regretted} of {self.evictions}"
            if self.regretted < self.evictions
            else f"all {self.evictions}"
        )
        text = f"was wanted again within a minute of {times} evictions in the last hour"
        return f"{text}, {self._for_whom()}: {self._advice()}"

    def _for_whom(self) -> str:
        reason, rival = self.reasons[0][0], self.rivals[0][0]
        if rival:
            each = "each time" if self.rivals[0][1] == self.regretted else "mostly"
            return f"{each} for {rival}"
        each = "each time" if self.reasons[0][1] == self.regretted else "mostly"
        return f"{each} {_CAUSES[reason]}"

    def _advice(self) -> str:
        reason, rival = self.reasons[0][0], self.rivals[0][0]
        if rival and reason is not Reason.LESS_LIKELY:
            return (
                "raise machine.memory, or give less context to models that are used at the same time;"
                " `reconcile status` names those that cannot stand together"
            )
        return _ADVICE[reason]


_CAUSES: Final = {
    Reason.MAKE_ROOM: "to make room",
    Reason.LESS_LIKELY: "for a model that seemed likelier to be used",
    Reason.OVER_BUDGET: "because models held more than the budget",
    Reason.MEMORY_PRESSURE: "because the machine was short of memory",
}
_ADVICE: Final = {
    Reason.MAKE_ROOM: "make models smaller, or raise machine.memory",
    Reason.LESS_LIKELY: "set prewarm to free, so that nothing goes for a guess",
    Reason.OVER_BUDGET: "state what models really need in memory.steady, or raise machine.memory",
    Reason.MEMORY_PRESSURE: "lower machine.memory to what other programs leave, or end those",
}


def circles(pairs: Iterable[tuple[str, str]]) -> tuple[tuple[str, ...], ...]:
    """Return the groups of models that are joined by pairs of one that went and the one that it went for, sorted.

    >>> circles([("b", "a"), ("c", "b"), ("x", "y"), ("z", "")])
    (('a', 'b', 'c'), ('x', 'y'))
    """
    groups: list[set[str]] = []
    for pair in pairs:
        if all(pair):
            joined = set(pair).union(*(g for g in groups if not g.isdisjoint(pair)))
            groups = [*(g for g in groups if g.isdisjoint(pair)), joined]
    return tuple(sorted(tuple(sorted(group)) for group in groups))


def regret(model: str, gone: Iterable[Gone], now: float) -> Regret | None:
    """Return what is to be told of the evictions of a model; None = nothing, or nothing any more."""
    recent = [g for g in gone if g.reason in CHOSEN and g.began > now - WINDOW]
    wrong = [g for g in recent if g.regretted]
    if len(wrong) < OFTEN:
        return None
    reasons, rivals = Counter(g.reason for g in wrong), Counter(g.for_model for g in wrong)
    return Regret(
        model,
        len(recent),
        len(wrong),
        tuple(sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0]))),
        tuple(sorted(rivals.items(), key=lambda pair: (-pair[1], pair[0]))),
    )
