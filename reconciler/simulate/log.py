"""What the single slot did, and what came of it: who was wanted again, and what was loaded in advance for nothing."""

from collections.abc import Iterable
from dataclasses import replace

from reconciler.core import prewarms as core_prewarms
from reconciler.core import swaps
from reconciler.core.regrets import awaited
from reconciler.core.types import Demand, Evict, Load, Prewarms, Reason, Step, Swap
from reconciler.simulate.clock import Clock
from reconciler.simulate.result import Action


class Log:
    """Actions in order of their beginning."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.actions: list[Action] = []
        self._step: Step | None = None
        self._began = 0.0
        #: The model that is going, "" = none, and after how many seconds it was wanted meanwhile.
        self._going = ""
        self._wanted_after: float | None = None
        #: Of each model that went, and of each that was loaded in advance and not used yet, the place in `actions`.
        self._gone: dict[str, int] = {}
        self._ahead: dict[str, int] = {}
        self._prewarms = Prewarms()
        self._swaps: tuple[Swap, ...] = ()

    def begins(self, step: Step, demands: Iterable[Demand] = ()) -> None:
        """A step was begun when so much was asked for."""
        self._step, self._began = step, self._clock.now
        if isinstance(step, Evict):
            self._going = step.model
            self._wanted_after = 0.0 if awaited(demands, step.model) else None
        if step.reason is Reason.PREWARM:
            self._prewarms = core_prewarms.begun(self._prewarms, self._clock.now)

    def ends(self, *, aborted: bool = False) -> None:
        """The step in flight is over."""
        step = self._step
        assert step is not None, "no step is in flight"
        kind = "load" if isinstance(step, Load) else "evict"
        for_model = step.for_model or "" if isinstance(step, Evict) else ""
        self.actions.append(
            Action(
                kind,
                step.model,
                step.reason,
                self._began,
                self._clock.now,
                for_model=for_model,
                wanted_after=None if aborted else self._wanted_after,
                aborted=aborted,
            )
        )
        self._going, self._wanted_after = "", None
        if aborted:
            return
        place = len(self.actions) - 1
        if isinstance(step, Evict):
            self._swaps = swaps.noted(self._swaps, step, self._clock.now)
            if self.actions[place].wanted_after is None:
                self._gone[step.model] = place
            if self._ahead.pop(step.model, None) is not None:
                self._prewarms = core_prewarms.in_vain(self._prewarms, step.model, self._clock.now)
        elif step.reason is Reason.PREWARM:
            self._ahead[step.model] = place

    def came(self, row: int, model: str, cold: bool) -> None:
        """A request came; `cold` = its model took no requests."""
        if self._gone or self._going:
            self._wanted(model)
        if not cold and self._ahead and (place := self._ahead.pop(model, None)) is not None:
            action = self.actions[place]
            self.actions[place] = replace(action, used_after=self._clock.now - action.ended)
            self._prewarms = core_prewarms.used(self._prewarms, model)

    def _wanted(self, model: str) -> None:
        if model == self._going and self._wanted_after is None:
            self._wanted_after = self._clock.now - self._began
        place = self._gone.pop(model, None)
        if place is not None:
            action = self.actions[place]
            self.actions[place] = replace(action, wanted_after=self._clock.now - action.began)

    def swaps(self, now: float) -> tuple[Swap, ...]:
        """Return who made room for whom lately."""
        return swaps.recent(self._swaps, now)

    def prewarms(self, now: float) -> Prewarms:
        """Return what is known of loads in advance; one that nobody uses for long was in vain."""
        for model, place in sorted(self._ahead.items()):
            if now - self.actions[place].ended >= core_prewarms.VAIN_AFTER:
                del self._ahead[model]
                self._prewarms = core_prewarms.in_vain(self._prewarms, model, now)
        return self._prewarms
