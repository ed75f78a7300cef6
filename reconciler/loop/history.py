"""What came of the use of the models: written down as it happens, and what it tells of the use to come."""

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import anyio
import anyio.to_thread
import structlog

from reconciler.core.crashes import FailureKind
from reconciler.core.habits import Habits
from reconciler.core.regrets import WINDOW, Regret
from reconciler.core.types import Chance, Evict, Load, Manifest, Observation, Step, World
from reconciler.counts import Counts
from reconciler.leases import Arrival, Ended, LeaseBook
from reconciler.loop import request_lines
from reconciler.loop.farewells import Farewells
from reconciler.loop.had import had
from reconciler.loop.hands import Outcome
from reconciler.loop.journal import Journal
from reconciler.loop.keeper import Keeper
from reconciler.loop.local_time import LocalTime
from reconciler.loop.mended import Mended
from reconciler.loop.replay import REACH, replayed
from reconciler.loop.resumed import Resumed, resumed
from reconciler.loop.tally import Tally
from reconciler.store import AsyncStore, LoadRecord, RequestRecord, Store, StoreError

#: Local time that is set back by more than this, or forward by more than that, makes what habits know of times wrong.
BACK: Final = 60.0
FORTH: Final = 2 * 3600.0
#: Seconds between two looks at what came and ended, the latter when the last one found that many.
SIP: Final = 1.0
HASTY_SIP: Final = 0.1
MANY: Final = 200
#: Loads that wait to be written, and requests that wait for habits to be read; the oldest are lost.
UNWRITTEN: Final = 200
UNHEARD: Final = 100_000
#: Letters kept of why a load failed: the log has all of it.
LONGEST: Final = 500
#: Requests read at a time, and more evictions than anybody can make in an hour.
PAGE: Final = 10_000
EVERYTHING: Final = 1_000_000

log = structlog.get_logger("reconciler.loop")


@dataclass(frozen=True, slots=True)
class _Begun:
    """The load in flight: when it was begun by the wall's clock, and how many waited for it."""

    at: float
    waiting: int


class History:
    """Drains the book of leases, follows each step, and knows the habits. Owned by the loop's task."""

    def __init__(
        self,
        store: AsyncStore,
        keeper: Keeper,
        book: LeaseBook,
        journal: Journal,
        counts: Counts,
        *,
        log_requests: bool = False,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._keeper, self._book, self._journal = store, keeper, book, journal
        self._counts, self._log_requests = counts, log_requests
        self._time = LocalTime(wall)
        self._farewells = Farewells(store, keeper, counts)
        self._tally = Tally(store, keeper)
        self._loads: deque[LoadRecord] = deque(maxlen=UNWRITTEN)
        #: Held while it is written: what waits is taken out once it is in the file.
        self._writing = anyio.Lock()
        self._load: _Begun | None = None
        self._seen: Observation | None = None
        #: None while they are read, and what came meanwhile.
        self._habits: Habits | None = None
        self._unheard: deque[tuple[float, bool, str, float, float]] = deque(maxlen=UNHEARD)
        self._wrong = anyio.Event()
        self._told: frozenset[str] = frozenset()
        #: Models that are wanted again at once when they go, sorted by name; for the status.
        self.regrets: tuple[Regret, ...] = ()
        self._mended = Mended()
        #: What an earlier run did that still holds; from `start` on.
        self.resumed = Resumed()

    async def start(self, now: float) -> None:
        """Go on where the last run ended. Habits are read by `run`, for they may take a while."""
        self._time.follow(now)
        wall = self._time.wall(now)
        try:
            last = await self._store.ask(lambda store: store.last_evictions())
            recent = await self._store.ask(
                lambda store: store.evictions(limit=EVERYTHING, since=wall - WINDOW)
            )
            self.resumed = await self._store.ask(lambda store: resumed(store, last, wall, now))
        except StoreError as error:
            log.error("what was done before cannot be read", error=str(error))
        else:
            self._farewells.restore(last, recent, wall, now)
            self.regrets = self._farewells.regrets(now)
            # Whether they could stand together is not on record: if they can now, it was mended meanwhile.
            self._mended = Mended(self._farewells.circles())
            self._told = frozenset(r.model for r in self.regrets)
        self._wrong.set()

    async def run(self) -> None:
        """Read the habits out of the store, now and whenever the clock or the time zone was set. Does not return.

        In between the book is emptied often: a calm loop turns so rarely that after many requests that would take long.
        """
        pause = SIP
        while True:
            with anyio.move_on_after(pause):
                await self._wrong.wait()
            if self._wrong.is_set():
                self._wrong = anyio.Event()
                await self._read_habits()
            pause = HASTY_SIP if self._take() > MANY else SIP

    async def _read_habits(self) -> None:
        self._unheard.clear()
        before, self._habits = self._habits, None
        wall = self._time.wall_now()
        try:
            buckets = await self._store.ask(lambda store: store.arrivals(wall - REACH))
            requests = await self._requests(wall - REACH)
        except StoreError as error:
            log.error("how models were used cannot be read", error=str(error))
            self._hear(before or Habits())
            return
        self._hear(await anyio.to_thread.run_sync(replayed, buckets, requests, wall))

    async def _requests(self, since: float) -> list[RequestRecord]:
        """Return the requests since a wall-clock time, read a page at a time: others use the store, too."""
        read: list[RequestRecord] = []

        def page(store: Store) -> tuple[RequestRecord, ...]:
            return store.requests(limit=PAGE, after=read[-1].id if read else 0, since=since)

        while found := await self._store.ask(page):
            read += found
        return read

    def _hear(self, habits: Habits) -> None:
        while self._unheard:
            at, over, model, cold, served = self._unheard.popleft()
            (habits.ended if over else habits.arrived)(model, self._time.local(at))
            if cold > 0.0:
                habits.waited(model, cold, self._time.local(served))
        self._habits = habits

    # -- each turn -------------------------------------------------------------------------------------------------

    def look(self, seen: Observation, now: float) -> None:
        """Take over what came and ended since the last turn, and what is wanted now."""
        self._seen = seen
        moved = self._time.follow(now)
        if moved < -BACK or moved > FORTH:
            self._wrong.set()
        self._take()
        self._farewells.asked(seen.demands, now)
        self.regrets = self._farewells.regrets(now)

    def mend(self, manifest: Manifest, world: World, now: float) -> None:
        """Tell nothing any more of models that could not stand in memory together and now can."""
        if not self.regrets:
            return
        if over := self._mended.look(self._farewells.circles(), manifest, world, now):
            for group in over:
                self._farewells.forgive(group)
            self.regrets = self._farewells.regrets(now)

    def _take(self) -> int:
        arrivals, ended = self._book.taken()
        self._tally.add(arrivals, ended, self._time.wall)
        self._counts.ended(ended)
        if self._log_requests:
            request_lines.tell(ended)
        for model, at in arrivals:
            self._farewells.wanted(model, at)
        self._learn(arrivals, ended)
        return len(ended)

    def _learn(self, arrivals: list[Arrival], ended: list[Ended]) -> None:
        events = [(a.at, False, a.model, 0.0, 0.0) for a in arrivals]
        # One that left before it was served says nothing of how many wait together.
        events += [
            (e.ended, True, e.model, e.cold if e.seconds > 0 else 0.0, e.arrived + e.waited) for e in ended
        ]
        events.sort()
        self._unheard.extend(events)
        if self._habits is not None:
            self._hear(self._habits)

    async def close(self, now: float) -> None:
        """Write all that is left, for this run ends."""
        self._take()
        await self.write(now, last=True)

    async def flush(self, now: float) -> None:
        """Write all that is known by now, for somebody asks for it. From any task of the loop's thread."""
        self._take()
        await self.write(now, last=True)

    async def write(self, now: float, *, last: bool = False) -> None:
        """Write what is new; `last` = also what would be written with the next batch. A full disk stops nothing."""
        async with self._writing:
            await self._write(now, last=last)

    async def _write(self, now: float, *, last: bool) -> None:
        while self._loads:
            if not await self._keeper.keep(self._store.add_load(self._loads[0])):
                break
            self._loads.popleft()
        await self._farewells.write()
        await self._tally.write(self._time.wall, now, last=last)
        for regret in self.regrets:
            if regret.model not in self._told:
                await self._journal.wanted_again(regret.model, regret.message)
        self._told = frozenset(r.model for r in self.regrets)

    def due(self, now: float) -> float | None:
        """Return when a batch of requests is to be written that this turn does not write; None = there is none."""
        return self._tally.due(now)

    def chances(self, models: Iterable[str], now: float) -> tuple[Chance, ...]:
        """Return how soon each of `models` is expected to be used again; nothing before habits are known."""
        return () if self._habits is None else self._habits.chances(models, self._time.local(now))

    # -- steps -----------------------------------------------------------------------------------------------------

    def begun(self, step: Step, now: float) -> None:
        """Note that a step was begun."""
        if isinstance(step, Evict):
            self._farewells.begun(step, self._seen, self._time.wall(now), now)
            return
        demands = self._seen.demands if self._seen is not None else ()
        waiting = next((d.waiting for d in demands if d.model == step.model), 0)
        self._load = _Begun(self._time.wall(now), waiting)

    def loaded(
        self, step: Load, outcome: str, done: Outcome, error: str = "", failure: FailureKind | None = None
    ) -> None:
        """Note how a load went: `ready`, `failed` or `given-up`, with why for the latter two."""
        begun, self._load = self._load, None
        if begun is None:
            return
        self._loads.append(
            LoadRecord(
                id=0,
                at=begun.at,
                model=step.model,
                digest=step.digest,
                reason=str(step.reason),
                seconds=done.seconds,
                peak=had(done.launch, 0) or None,
                outcome=outcome,
                waiting=begun.waiting,
                kind="load" if step.pid is None else "wake",
                error=error[:LONGEST],
                failure="" if failure is None else str(failure),
            )
        )

    def evicted(self, step: Evict, outcome: str, seconds: float) -> None:
        """Note how an eviction went: `gone`, `asleep` or `given-up`."""
        self._farewells.ended(step, outcome, seconds)
