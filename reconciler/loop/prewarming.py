"""Models that are loaded before anybody asks: what becomes of each is counted, and decides about the next."""

from dataclasses import dataclass, replace

from reconciler.board import PrewarmCount, PrewarmFigures
from reconciler.core import machine, prewarms
from reconciler.core.types import Demand, Load, Observation, Prewarms, Reason, Step
from reconciler.loop.hands import Outcome
from reconciler.loop.journal import Journal
from reconciler.loop.launches import Launch


@dataclass(frozen=True, slots=True)
class _Unused:
    """A model that is in memory and has not been asked for yet."""

    launch: Launch
    #: When it was ready, and how many requests its process had served until then.
    since: float
    served: int


class Prewarming:
    """Follows each model loaded in advance until somebody asks for it, or it goes. Owned by the loop's task."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        #: What the next decision needs of all this.
        self.known = Prewarms()
        self._unused: dict[str, _Unused] = {}
        self._counts: dict[str, PrewarmCount] = {}
        self._waited_for = 0

    @property
    def figures(self) -> PrewarmFigures:
        """How good it was so far."""
        return PrewarmFigures(tuple(c for _, c in sorted(self._counts.items())), self._waited_for)

    def resume(self, known: Prewarms) -> None:
        """Go on from what an earlier run knew."""
        self.known = known

    def begun(self, step: Step, now: float) -> None:
        """Note that a step was begun."""
        if isinstance(step, Load) and step.reason is Reason.PREWARM:
            self.known = prewarms.begun(self.known, now)
            self._count(step.model, begun=1)

    def closed(self, ended: machine.State, done: Outcome, now: float) -> None:
        """Note how the step of the state that ended went."""
        if not isinstance(ended, machine.Loading):
            return
        step, ready = ended.action, isinstance(done.event, machine.Ready)
        if step.reason is not Reason.PREWARM:
            self._waited_for += ready and step.reason is Reason.DEMANDED
        elif ready and done.launch is not None:
            launch = done.launch
            self._unused[step.model] = _Unused(launch, now, launch.served_before)
        elif done.error:
            self._in_vain(step.model, now)
        else:
            self._count(step.model, broken_off=1)

    async def look(self, seen: Observation, now: float) -> None:
        """Take over what a look shows: which of them were asked for, and which went or stay for nothing."""
        demands = {d.model: d for d in seen.demands}
        ready = {(i.pid, i.started) for i in seen.instances if i.ready}
        for model, unused in sorted(self._unused.items()):
            process = unused.launch.process
            if _asked(demands.get(model, Demand(model)), unused):
                del self._unused[model]
                self.known = prewarms.used(self.known, model)
                self._count(model, used=1)
                await self._journal.prewarm_used(model, now - unused.since)
                continue
            gone = (process.pid, process.started) not in ready
            if gone or now - unused.since >= prewarms.VAIN_AFTER:
                del self._unused[model]
                self._in_vain(model, now)
                again_in = dict(self.known.until)[model] - now
                await self._journal.prewarm_in_vain(model, now - unused.since, gone, again_in)

    def _in_vain(self, model: str, now: float) -> None:
        self.known = prewarms.in_vain(self.known, model, now)
        self._count(model, in_vain=1)

    def _count(self, model: str, **more: int) -> None:
        count = self._counts.get(model) or PrewarmCount(model)
        self._counts[model] = replace(count, **{key: getattr(count, key) + n for key, n in more.items()})


def _asked(demand: Demand, unused: _Unused) -> bool:
    """Return whether somebody wants a model, or had it in the meantime."""
    if demand.in_use or demand.waiting or demand.wanted:
        return True
    return unused.launch.served_before + unused.launch.served > unused.served
