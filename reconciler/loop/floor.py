"""A load that drives memory through the floor is ended while the machine still answers."""

from dataclasses import dataclass
from typing import Final

from reconciler.core import book, machine
from reconciler.core.memory import Memory
from reconciler.core.shares import Shares, own
from reconciler.core.types import Instance, Manifest, Observation
from reconciler.core.words import size

#: Seconds for which looks must agree: one reading ends nothing, however often the loop is woken.
LOW_SECONDS: Final = 0.2
#: Memory comes and goes on any machine: a load that was let in down to the floor may dip below it for a moment. Not by
#: more than this share of the floor, though, or a small one would be none.
DIP_SHARE: Final = 0.5


@dataclass(frozen=True, slots=True)
class Sunk:
    """Why a load is ended. `own_fault`: it took more than it was given; else somebody else took what it needed."""

    message: str
    own_fault: bool


class FloorWatch:
    """Remembers since when less is available than must stay free."""

    def __init__(self) -> None:
        self._since: float | None = None

    @staticmethod
    def depth(manifest: Manifest, memory: Memory) -> int | None:
        """Return the available bytes below which a load sinks the machine; None = unknown."""
        floor = book.reserve(manifest, memory)
        return None if floor is None else floor - min(machine.SETTLE_SLACK, int(floor * DIP_SHARE))

    def look(self, state: machine.State, manifest: Manifest, seen: Observation) -> Sunk | None:
        """Return why the load in flight is to be ended, or None. Unknown memory ends nothing."""
        depth, available = self.depth(manifest, seen.memory), seen.memory.available
        if not isinstance(state, machine.Loading) or depth is None or available is None or available >= depth:
            self._since = None
            return None
        self._since = seen.at if self._since is None else self._since
        if seen.at - self._since < LOW_SECONDS:
            return None
        if _is_dying(state.action.model, seen.instances):
            # Its memory is on the way back, and not somebody else's: how it ended is told elsewhere.
            return None
        needs, took = state.action.needs, _took(state.action.model, seen.instances)
        kept = size(book.reserve(manifest, seen.memory))
        low = f"only {size(available)} of memory were left, {kept} are kept free"
        if took > needs + state.action.holds:
            return Sunk(f"it took {size(took)} where {size(needs)} were expected, and {low}", True)
        return Sunk(f"{low}: other programs took what it needs", False)


def _is_dying(model: str, instances: tuple[Instance, ...]) -> bool:
    """Return whether the process that loads holds nothing any more: one that lives holds something."""
    return any(i.committed == 0 for i in instances if i.model == model and not i.ready and not i.asleep)


def _took(model: str, instances: tuple[Instance, ...]) -> int:
    """Return the bytes that came with the load of a model: files that another one had mapped before are not of it."""
    before, took = Shares(), 0
    loading = [i for i in instances if i.model == model and not i.ready and not i.asleep]
    for instance in instances:
        if instance not in loading:
            before.hold(instance.files)
    for instance in loading:
        took += own(book.held(instance) or 0, instance.files) + before.hold(instance.files)
    return took
