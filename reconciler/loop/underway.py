"""The step that is being performed: held to its limits as they are now, called off or given up when it is in vain."""

from math import inf

from reconciler.core import machine
from reconciler.core.types import Manifest, Observation, World
from reconciler.loop.desired import Desired
from reconciler.loop.drains import Drains
from reconciler.loop.ending import LAST_DRAIN
from reconciler.loop.evicting import Evictor
from reconciler.loop.floor import FloorWatch, Sunk
from reconciler.loop.giving_up import NOT_WANTED, over
from reconciler.loop.loading import Loader
from reconciler.loop.outlook import Outlook
from reconciler.loop.slot import Slot


class Underway:
    """Owned by the loop's task."""

    def __init__(
        self,
        slot: Slot,
        desired: Desired,
        loader: Loader,
        evictor: Evictor,
        drains: Drains,
        outlook: Outlook,
    ) -> None:
        self._slot, self._desired, self._loader = slot, desired, loader
        self._evictor, self._drains, self._outlook = evictor, drains, outlook
        self._floor = FloorWatch()
        #: Why the load in flight was ended for want of memory.
        self.sunk: Sunk | None = None
        #: Why the load in flight was given up otherwise.
        self.given_up = NOT_WANTED

    def begun(self) -> None:
        """Note that a step was begun."""
        self.sunk, self.given_up = None, NOT_WANTED

    def look(self, manifest: Manifest, seen: Observation) -> None:
        """Note whether the load in flight leaves too little memory."""
        self.sunk = self._floor.look(self._slot.state, manifest, seen) or self.sunk

    def review(self, world: World, now: float, *, stop_asked: float, late: bool) -> None:
        """Judge it anew. `stop_asked` is when the loop was asked to stop (infinite = it was not), `late` that this turn
        only looks.
        """
        self._give_up_load(world, stopping=stop_asked < inf)
        self._review_drain(world, now, stop_asked, late=late)
        if (patience := self._loader.patience) is not None:
            self._slot.goes_on(patience.last, patience.seconds, now)

    def _review_drain(self, world: World, now: float, stop_asked: float, *, late: bool) -> None:
        """Hold a drain in progress to its limits as they are now, and call it off when it is not needed any more.

        A server that is being asked to sleep is not waited for as long as it likes once somebody waits for room.
        """
        state = self._slot.state
        if isinstance(state, machine.Evicting) and any(d.waiting for d in world.observation.demands):
            self._evictor.hurry_sleep()
        if not isinstance(state, machine.Evicting) or self._evictor.drain is None or late:
            return
        model = self._desired.promised(state.action.model)
        limit = min(model.drain_timeout, stop_asked - state.since + LAST_DRAIN)
        self._evictor.limit(limit)
        self._slot.limits(limit, model.stop_grace, now)
        if stop_asked == inf:
            why = self._drains.judge(state, limit, self._desired.applied.manifest, world, now)
            if why:
                self._evictor.call_off(why)

    def _give_up_load(self, world: World, *, stopping: bool) -> None:
        """Cancel a load whose model was removed or changed, that takes too much, or that nobody waits for while
        somebody waits for another one, and any when we are to stop.
        """
        state = self._slot.state
        if not isinstance(state, machine.Loading):
            return
        why = over(state.action, self._desired.spec(state.action.model), stopping=stopping)
        why = why or (self.sunk.message if self.sunk else self._outlook.breaks_off(state, world))
        if why:
            if self.given_up == NOT_WANTED:  # the first reason counts
                self.given_up = why
            self._slot.cancel_load()
