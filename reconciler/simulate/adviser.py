"""What would help a layout: tried by planning, with the very search that `status` and `explain` use."""

from typing import Final

from reconciler.core.advice import TRIES
from reconciler.core.advice_cases import Case
from reconciler.core.advice_changes import changes
from reconciler.core.advice_rivals import rivalry
from reconciler.core.advice_types import Rivalry
from reconciler.core.advice_words import hint_text
from reconciler.core.types import Observation, Reason, Verdict, World
from reconciler.simulate.layout import Layout

#: What a simulation of this machine needs, and one of a machine that is described does not.
_HERE: Final = {
    Reason.NOT_STARTABLE: "mend that, or describe the machine that it is meant for (--machine FILE), where programs"
    " need not be installed",
    Reason.MEMORY_UNKNOWN: "describe the machine (--machine FILE)",
}


class Adviser:
    """Answers for one layout with no model loaded. Each question is worked out once, whichever run asks it."""

    def __init__(self, layout: Layout, *, described: bool) -> None:
        seen = Observation(0, 0.0, layout.memory, (), preflights=layout.preflights)
        self._case = Case(layout.manifest, World(seen, layout.ledger), 0.0)
        self._described = described
        self._apart: dict[tuple[str, ...], Rivalry | None] = {}
        self._fixes: dict[tuple[str, Reason], str | None] = {}

    def rivalry(self, names: tuple[str, ...]) -> Rivalry | None:
        """Return what models lack that can never stand together, and what would let them; None = they can."""
        if names not in self._apart:
            self._apart[names] = rivalry(self._case.manifest, self._case.world, self._case.now, names)
        return self._apart[names]

    def fix(self, verdict: Verdict) -> str | None:
        """Return what would have a model loaded that could not be, for people; None = what is known stands in why."""
        key = (verdict.model, verdict.reason)
        if key not in self._fixes:
            self._fixes[key] = self._fix(verdict)
        return self._fixes[key]

    def _fix(self, verdict: Verdict) -> str | None:
        if verdict.reason in _HERE:
            return None if self._described else _HERE[verdict.reason]
        change = next(changes(self._case, verdict.model, TRIES), None)
        return None if change is None else hint_text(verdict.model, change)
