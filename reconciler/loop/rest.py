"""The time between two turns: until when to rest, and what ends that early."""

from collections.abc import Callable
from typing import Final

import anyio
import structlog

from reconciler.core import machine
from reconciler.core.memory import Watermarks
from reconciler.core.types import Manifest, Plan, Reason
from reconciler.loop.observe import Observer
from reconciler.loop.slot import Slot

#: Seconds between turns when nothing happens, and while something is being done.
CALM_TICK: Final = 10.0
BUSY_TICK: Final = 0.5
#: Seconds between looks at most while somebody waits for models in use: hundreds of requests may end in each of them.
CROWDED_PACE: Final = 0.1
#: A model waits for others that are in use, or were loaded a moment ago.
FOR_REST: Final = frozenset({Reason.VICTIMS_BUSY, Reason.VICTIMS_KEPT})
#: Share of the probe's pace at which memory is glanced at while a model loads.
LOADING_SHARE: Final = 0.03
#: A turn that comes this much later than it should (the machine slept, we were stopped) only looks.
LATE: Final = 5.0

log = structlog.get_logger("reconciler.loop")


class Rest:
    """Owned by the loop's task; anybody may wake it."""

    def __init__(
        self, observer: Observer, slot: Slot, manifest: Callable[[], Manifest], clock: Callable[[], float]
    ) -> None:
        self._observer, self._slot, self._manifest, self._clock = observer, slot, manifest, clock
        self._wake, self._urgent = anyio.Event(), anyio.Event()
        #: Somebody waits for models in use: each end of a request says so, and most say nothing new.
        self._crowded = False
        #: Whether the turn that comes now comes so late that it only looks.
        self.late = False

    def wake(self) -> None:
        """End it now."""
        self._urgent.set()
        self._wake.set()

    def nudge(self) -> None:
        """End it soon: now, unless the loop has just looked and waits for a model in use to come to rest."""
        self._wake.set()

    def over(self) -> None:
        """Note that a turn begins: whatever is said from now on ends the next rest."""
        self._wake, self._urgent = anyio.Event(), anyio.Event()

    def planned(self, made: Plan) -> None:
        """Note what a turn has planned."""
        self._crowded = any(v.reason in FOR_REST for v in made.verdicts)

    async def until(self, at: float | None) -> None:
        """Return at that time, or when a tick is over, or as soon as something has happened."""
        turned = now = self._clock()
        tick = now + (CALM_TICK if self._slot.idle else BUSY_TICK)
        wake_at = max(now, tick if at is None else min(tick, at))
        while not self._wake.is_set() and (now := self._clock()) < wake_at:
            with anyio.move_on_after(min(wake_at - now, self._glance_after)):
                await self._wake.wait()
            if not self._wake.is_set() and await self._alarmed():
                break
        if self._crowded and not self._urgent.is_set():
            with anyio.move_on_after(turned + CROWDED_PACE - self._clock()):
                await self._urgent.wait()
        self.late = self._clock() - wake_at > LATE
        if self.late:
            log.warning("this turn comes late and only looks", seconds=self._clock() - wake_at)

    @property
    def _marks(self) -> Watermarks | None:
        return self._manifest().watermarks

    @property
    def _glance_after(self) -> float:
        """Seconds until the next glance between two looks."""
        pace = self._observer.pace
        return pace * LOADING_SHARE if isinstance(self._slot.state, machine.Loading) else pace

    async def _alarmed(self) -> bool:
        """Glance at the memory: others fill it faster than a calm loop looks, and a load faster than a busy one."""
        if isinstance(self._slot.state, machine.Loading):
            return await self._observer.sinks(self._manifest())
        return self._slot.idle and await self._observer.uneasy(self._marks)
