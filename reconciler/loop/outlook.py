"""What the loop remembers from turn to turn so that a plan can look ahead, and the world as a plan is to see it."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from reconciler.core import machine, swaps
from reconciler.core.prewarm import broken_off
from reconciler.core.types import Chance, LedgerEntry, Manifest, Observation, Prewarm, Step, Swap, World
from reconciler.loop.hands import Outcome
from reconciler.loop.journal import Journal
from reconciler.loop.prewarming import Prewarming

#: Tells how soon each of some models is expected to be used again; the time is a reading of the loop's clock.
Chances = Callable[[Iterable[str], float], tuple[Chance, ...]]
BROKEN_OFF = "somebody waits for another model"


class Outlook:
    """Habits, loads in advance, and who took turns with whom. Owned by the loop's task."""

    def __init__(self, journal: Journal, chances: Chances, *, once: bool) -> None:
        self._chances = chances
        #: A loop that ends when nothing is left to do loads nothing that nobody asked for.
        self._once = once
        self.prewarming = Prewarming(journal)
        self._swaps: tuple[Swap, ...] = ()

    def manifest(self, wanted: Manifest) -> Manifest:
        """Return the manifest that is planned for."""
        return replace(wanted, prewarm=Prewarm.OFF) if self._once else wanted

    def begun(self, step: Step, now: float) -> None:
        """Note that a step was begun."""
        self.prewarming.begun(step, now)

    def closed(self, ended: machine.State, done: Outcome, now: float) -> None:
        """Note how the step of the state that ended went."""
        self.prewarming.closed(ended, done, now)
        if isinstance(ended, machine.Evicting) and isinstance(done.event, machine.Exited):
            self._swaps = swaps.noted(self._swaps, ended.action, now)

    def world(
        self, manifest: Manifest, seen: Observation, ledger: tuple[LedgerEntry, ...], now: float
    ) -> World:
        """Return everything that a plan may look at."""
        return World(
            seen,
            ledger,
            chances=self._chances((m.name for m in manifest.models), now),
            prewarms=self.prewarming.known,
            swaps=swaps.recent(self._swaps, now),
        )

    def breaks_off(self, state: machine.State, world: World) -> str:
        """Return why a load in advance is not to go on, or ""."""
        return BROKEN_OFF if isinstance(state, machine.Loading) and broken_off(state.action, world) else ""
