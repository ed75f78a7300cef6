"""A load that drives memory through the floor is ended while the machine still answers."""

from dataclasses import dataclass
from typing import Final

from reconciler.core import book, machine
from reconciler.core.types import Manifest, Observation
from reconciler.core.words import size

#: Looks in a row that must agree: one reading ends nothing.
LOOKS: Final = 2


@dataclass(frozen=True, slots=True)
class Sunk:
    """Why a load is ended. `own_fault`: it took more than it was given; else somebody else took what it needed."""

    message: str
    own_fault: bool


class FloorWatch:
    """Counts the looks at which less is available than must stay free."""

    def __init__(self) -> None:
        self._low = 0

    def look(self, state: machine.State, manifest: Manifest, seen: Observation) -> Sunk | None:
        """Return why the load in flight is to be ended, or None. Unknown memory ends nothing."""
        floor, available = book.reserve(manifest, seen.memory), seen.memory.available
        # Memory comes and goes on any machine: a load that was let in down to the floor may dip below it for a moment.
        sinks = floor is not None and available is not None and available < floor - machine.SETTLE_SLACK
        if not isinstance(state, machine.Loading) or not sinks:
            self._low = 0
            return None
        self._low += 1
        if self._low < LOOKS:
            return None
        action = state.action
        loading = [i for i in seen.instances if i.model == action.model and not i.ready]
        held = sum(book.held(i) or 0 for i in loading)
        low = f"only {size(available)} of memory were left, {size(floor)} are kept free"
        if held > action.needs:
            return Sunk(f"it took {size(held)} where {size(action.needs)} were expected, and {low}", True)
        return Sunk(f"{low}: other programs took what it needs", False)
