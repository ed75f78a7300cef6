"""Safe mode: what could take the machine down is on record before it is done, and is not done a fourth time."""

import time
from collections.abc import Callable

import structlog

from reconciler.boot import boot_id
from reconciler.core import machine
from reconciler.core.pressure import Level
from reconciler.core.safe_mode import CALM_SECONDS, SAFE_SECONDS, restrained, why
from reconciler.core.types import Manifest, Observation
from reconciler.loop.journal import Journal
from reconciler.loop.keeper import Keeper
from reconciler.store import AsyncStore, StoreError

log = structlog.get_logger("reconciler.loop")


class SafeMode:
    """Knows how earlier boots of the machine ended. Owned by the loop's task; times are monotonic seconds."""

    def __init__(
        self,
        store: AsyncStore,
        keeper: Keeper,
        journal: Journal,
        *,
        boot: Callable[[], str] = boot_id,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._keeper, self._journal = store, keeper, journal
        self._boot, self._wall = boot, wall
        #: Why only pinned models are loaded; "" = all are.
        self.why = ""
        self._run: int | None = None
        self._risk = ""
        #: When something was done last that could take the machine down.
        self._risked = float("-inf")
        self._asked = False

    async def start(self, now: float) -> None:
        """Look at how the last boots ended, and note that this run begins. An unreadable ledger stops nothing."""
        try:
            runs = await self._store.ask(lambda store: store.runs())
            self._run = await self._store.begin_run(self._wall())
        except StoreError as error:
            log.error("how earlier runs ended cannot be read, or this one noted", error=str(error))
            return
        self.why = why(runs, self._boot())
        if self.why:
            self._risked = now
            log.warning("safe mode", why=self.why)
            await self._journal.safe_mode("Entered", self.why)

    def restrain(self, seen: Observation, manifest: Manifest) -> Observation:
        """Return what was seen as a plan is to see it."""
        return restrained(seen, manifest, self.why)

    async def loading(self, model: str, now: float) -> None:
        """Note that a model is about to be loaded; on return it is on the disk."""
        await self._note(f"loading {model}", now)

    async def look(self, state: machine.State, seen: Observation, now: float) -> None:
        """Note whether anything is risked now, and leave safe mode once nothing was for long enough."""
        if isinstance(state, machine.Loading):
            self._risked = now
        elif seen.pressure.level >= Level.HARD:
            await self._note(self._risk or "memory was short", now)
        elif self._risk and now - self._risked >= CALM_SECONDS:
            await self._note("", self._risked)
        self._asked = self._asked and bool(self.why)
        if self.why and (self._asked or now - self._risked >= SAFE_SECONDS):
            await self._leave()

    def next_look(self, now: float) -> float | None:
        """Return when time alone changes something here; None = never."""
        if not self.why:
            return None
        return self._risked + SAFE_SECONDS if not self._asked else now

    def leave(self) -> None:
        """Have safe mode left at the next turn, and what led to it forgotten: a person says so."""
        self._asked = True

    async def end(self) -> None:
        """Note that this run ends as it should."""
        if self._run is not None:
            await self._keeper.keep(self._store.end_run(self._run))

    async def _note(self, risk: str, at: float) -> None:
        self._risked = max(self._risked, at)
        if risk == self._risk or self._run is None:
            return
        if await self._keeper.keep(self._store.run_risk(self._run, risk)):
            self._risk = risk

    async def _leave(self) -> None:
        said = (
            "somebody asked for that" if self._asked else f"it was calm for {SAFE_SECONDS / 60:.0f} minutes"
        )
        log.info("safe mode is over", why=said)
        if self._run is not None:
            await self._keeper.keep(self._store.leave_safe_mode(self._run, forget=self._asked))
        self.why, self._asked = "", False
        await self._journal.safe_mode("Left", said)
