"""The shell around the core: it turns, and at each turn begins at most the head of the plan.

Everything mutable here is owned by the one task that runs `Loop.run`. Others only leave a value (a manifest, an exit,
an outcome) and wake it; a wake carries no content, and a turn looks at the whole world anew.
"""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Final

import anyio
import anyio.abc
import structlog

from reconciler.board import Board
from reconciler.core import book as ledger_book
from reconciler.core import machine, pressure
from reconciler.core.memory import Watermarks
from reconciler.core.plan import plan
from reconciler.core.types import Evict, Load, Outcome, Plan, Preflight, Reason, Step, World
from reconciler.core.underway import told
from reconciler.host import Host, Ports
from reconciler.leases import LeaseBook
from reconciler.loop.admission import admissions
from reconciler.loop.adopt import adopt
from reconciler.loop.deaths import take_deaths
from reconciler.loop.desired import Desired
from reconciler.loop.drains import Drains
from reconciler.loop.ending import Ending
from reconciler.loop.evicting import REPLACING, Evictor
from reconciler.loop.hands import Hands
from reconciler.loop.hands import Outcome as Done
from reconciler.loop.history import History
from reconciler.loop.jobs import Jobs
from reconciler.loop.journal import Journal
from reconciler.loop.keeper import Keeper
from reconciler.loop.launches import Launches
from reconciler.loop.ledger import Ledger
from reconciler.loop.liveness import Liveness
from reconciler.loop.loading import Loader
from reconciler.loop.log_keeper import LogKeeper
from reconciler.loop.observe import Observer
from reconciler.loop.outcomes import Outcomes
from reconciler.loop.outlook import Outlook
from reconciler.loop.publish import Publisher
from reconciler.loop.refusals import once_ready, refusals
from reconciler.loop.rest import CROWDED_PACE, Rest
from reconciler.loop.safe_mode import SafeMode
from reconciler.loop.scarce import Looking
from reconciler.loop.slot import Slot
from reconciler.loop.states import States
from reconciler.loop.takeover import Takeover
from reconciler.loop.underway import Underway
from reconciler.manifest import Applied, ManifestError
from reconciler.manifest.applied import OnExit
from reconciler.memory.probe import MachineProbe
from reconciler.store import AsyncStore

#: Seconds between looks while something that is asked for lacks room: other programs give memory back without a word.
BLOCKED_TICK: Final = 1.0
_FOR_ROOM: Final = frozenset(
    {
        Reason.INSUFFICIENT_MEMORY,
        Reason.MEMORY_PRESSURE,
        Reason.MEMORY_UNKNOWN,
        Reason.NO_PORT,
        Reason.OUTRANKED,
    }
)
#: With `once`: how often a model that fails to load is tried before that is the result.
ONCE_TRIES: Final = 2

log = structlog.get_logger("reconciler.loop")


@dataclass(frozen=True, slots=True)
class Options:
    """How one run behaves."""

    #: Return as soon as nothing more can be done, and leave the models running.
    once: bool = False
    #: What becomes of the models at the end; None = what the manifest says then.
    on_exit: OnExit | None = None
    #: Log a line for each request that is over.
    log_requests: bool = False


class Loop:
    """The control loop of one state directory."""

    def __init__(
        self,
        applied: Applied,
        *,
        host: Host,
        machine_probe: MachineProbe,
        store: AsyncStore,
        book: LeaseBook,
        board: Board,
        close_upstream: Callable[[str], Awaitable[None]],
        options: Options | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host, self._store, self._book = host, store, book
        self._options, self._clock = options or Options(), clock
        self._launches = Launches()
        self._observer = Observer(host, machine_probe, self._launches, book)
        self._keeper = Keeper()
        self._ledger = Ledger(store, self._keeper)
        self._counts = board.counts
        self._journal = Journal(store, self._keeper, self._ledger, told=board.noted, counts=board.counts)
        self._safe_mode = SafeMode(store, self._keeper, self._journal)
        self._states = States(host.states, self._journal.state, clock=clock)
        self._history = History(
            store, self._keeper, book, self._journal, board.counts, log_requests=self._options.log_requests
        )
        self._logs = LogKeeper(host.logs)
        self._outcomes = Outcomes(self._journal, book, self._launches, self._history)
        self._outlook = Outlook(self._journal, self._history.chances, once=self._options.once)
        self._publisher = Publisher(board, host.logs, self._states.kept, lambda: self._liveness.health())
        self._hands = Hands(
            host=host,
            store=store,
            keeper=self._keeper,
            book=book,
            launches=self._launches,
            observer=self._observer,
            states=self._states,
            clock=clock,
            changed=self.wake,
        )
        self._loader = Loader(self._hands, Ports(*applied.ports), lambda launch: self._takeover.watch(launch))
        self._jobs = Jobs(self._hands, self._loader.http)
        self._liveness = Liveness(self._hands, self._loader.http, lambda: self._applied)
        self._evictor = Evictor(self._hands, close_upstream, self._jobs, self._loader.http)
        self._desired = Desired(
            applied,
            store=store,
            keeper=self._keeper,
            journal=self._journal,
            book=book,
            ports=self._loader.use_ports,
            hide=host.hide,
            states=self._states,
        )
        self._takeover = Takeover(
            self._hands, self._loader, self._ledger, self._journal, self._desired, lambda: self._tasks
        )
        self._ending = Ending(
            self._hands,
            self._evictor,
            book,
            self._journal,
            self._history,
            self._outcomes,
            self._desired.promised,
        )
        self._drains = Drains()
        self._slot = Slot(self.wake, self._observer.available)
        self._forget: set[str] = set()
        self._underway = Underway(
            self._slot, self._desired, self._loader, self._evictor, self._drains, self._outlook
        )
        self._tasks: anyio.abc.TaskGroup | None = None
        self._rest = Rest(self._observer, self._slot, lambda: self._applied.manifest, clock)
        self._stopping = False
        #: What whoever asked to stop wants to become of the models; None = nothing was said of that.
        self._on_exit: OnExit | None = None
        #: When it was asked to stop; infinite = it was not.
        self._stop_asked = inf
        #: Whether something the manifest wants could not be done; the result of a run with `once`.
        self.blocked = False

    # -- what others may call --------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Have the loop look now."""
        self._rest.wake()

    def nudge(self) -> None:
        """Have the loop look soon: now, unless it has just looked and waits for a model in use to come to rest."""
        self._rest.nudge()

    def manifest(self, reading: Applied | ManifestError) -> None:
        """Leave a new reading of the manifest."""
        self._desired.leave(reading)
        self.wake()

    def forget(self, model: str) -> None:
        """Have what was measured of a model, and its failures, forgotten at the next turn."""
        self._forget.add(model)
        self.wake()

    def resume(self) -> None:
        """Have safe mode left at the next turn, if it is on: every model is loaded again."""
        self._safe_mode.leave()
        self.wake()

    def request_stop(self, on_exit: OnExit | None = None) -> None:
        """Begin nothing more, end what is loaded, or leave it, and return. A second call hurries: drains end at once.

        `on_exit` says what becomes of the models; None = as was said before, or in the manifest.
        """
        self._on_exit = on_exit or self._on_exit
        if self._stopping:
            self._ending.hurry()
        else:
            self._stop_asked = self._clock()
        self._stopping = True
        self._evictor.sleep_no_more()
        self._ending.end_leases()
        self.wake()

    @property
    def leaves(self) -> bool:
        """Whether the models stay when this run ends."""
        said = self._on_exit or self._options.on_exit or self._applied.on_exit
        return said is OnExit.LEAVE

    # -- the story -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Turn until stopped, or, with `once`, until nothing more can be done."""
        try:
            async with anyio.create_task_group() as self._tasks:
                await self._start()
                self._tasks.start_soon(self._logs.run)
                self._tasks.start_soon(self._jobs.run)
                self._tasks.start_soon(self._liveness.run)
                self._tasks.start_soon(self._history.run)
                machine_around = Looking("the machine")
                while not self._halted:
                    later = self._clock() + BLOCKED_TICK
                    until: float | None = await machine_around.attempt(self._timed_turn, later)
                    if not self._halted:
                        await self._rest.until(until)
                if not self._options.once or self._stopping:
                    await (self._ending.leave_all if self.leaves else self._ending.stop_all)()
                await self._history.close(self._clock())
                await self._safe_mode.end()
                self._tasks.cancel_scope.cancel()
        finally:
            await self._loader.aclose()

    async def write_down(self) -> None:
        """Write what came of the use until now, for somebody is about to read it. A full disk stops nothing."""
        if self._tasks is None or self._halted:
            return  # the last thing a loop does is to write all of it
        written = anyio.Event()
        # In a task of the loop: whoever asks may leave in the middle of it, and rows would be written twice.
        self._tasks.start_soon(self._write_down, written)
        await written.wait()

    async def _write_down(self, written: anyio.Event) -> None:
        try:
            await self._history.flush(self._clock())
        finally:
            written.set()

    async def _start(self) -> None:
        await self._ledger.load(self._clock())
        await self._safe_mode.start(self._clock())
        await self._history.start(self._clock())
        self._outlook.prewarming.resume(self._history.resumed.prewarms)
        for model in self._history.resumed.dismissed:
            self._book.dismiss(model)
        await self._desired.apply(self._applied)
        self._book.assign(admissions(self._applied, ()))
        for launch in await adopt(
            self._host,
            self._store,
            self._keeper,
            self._applied.launches,
            self._loader.http,
            self._clock(),
            self._journal,
        ):
            await self._takeover.take(launch)

    async def _timed_turn(self) -> float | None:
        begun = self._clock()
        try:
            return await self._turn()
        finally:
            self._counts.turns.add(self._clock() - begun)

    async def _turn(self) -> float | None:
        """Look, plan, begin at most one step, publish. Return when to look again at the latest."""
        now = self._clock()
        self._rest.over()
        await self._desired.take()
        for hold in self._book.expire(now):
            await self._journal.lease_over(hold)
        for ended, outcome in self._slot.take(now):
            await self._outcomes.close(ended, outcome, self._underway.sunk, self._underway.given_up, now)
            self._outlook.closed(ended, outcome, now)
        await take_deaths(
            self._launches,
            self._host,
            self._book,
            self._store,
            self._keeper,
            self._journal,
            self._observer.oom,
            now,
        )
        await self._liveness.take(self._journal, now)
        observation = await self._observer.look(
            self._applied.manifest, self._applied.launches, self._loader.ports, now
        )
        await self._safe_mode.look(self._slot.state, observation, now)
        observation = self._safe_mode.restrain(observation, self._applied.manifest)
        for launch in self._observer.found_out():
            # What is being ended, or put to sleep, is on record as that.
            if launch in self._launches and not launch.stopping:
                await self._hands.record(launch)
        while self._forget:
            self._ledger.forgive(ledger_book.forgotten, self._forget.pop())
        self._ledger.measure(observation.instances, self._book.answered, now)
        for demand in observation.demands:
            if demand.wanted:  # a person asks: the next try is due now, and the first
                self._ledger.forgive(ledger_book.wished, demand.model)
        await self._ledger.flush()
        for sentence in await self._keeper.catch_up(self._store):
            await self._journal.ledger_renewed(sentence)
        await self._outlook.prewarming.look(observation, now)
        self._history.look(observation, now)
        # From here to the seal of a victim nothing is awaited: who is idle in this plan is idle when it is sealed.
        admitted = admissions(self._applied, observation.preflights)
        self._book.assign(admitted)
        observation = self._drains.spare(self._observer.used(observation), now)
        manifest = self._outlook.manifest(self._applied.manifest)
        self._underway.look(manifest, observation)
        world = self._outlook.world(manifest, observation, self._ledger.entries(), now)
        self._history.mend(manifest, world, now)
        made = told(plan(manifest, world, now), self._slot.state)
        self._rest.planned(made)
        proved = once_ready(manifest, world.ledger)
        for model, refusal in refusals(made, proved).items():
            self._book.refuse(model, refusal)
            self._book.wish_over(model)
        self._journal.waits(made, world)
        until = await self._decide(made, world, now)
        self._publisher.publish(
            self._applied,
            world,
            made,
            self._slot.state,
            self._desired.refused,
            self._hands.progress,
            self._launches,
            self._book.traffic(),
            admitted,
            self._keeper.trouble,
            self._outlook.prewarming.figures,
            self._history.regrets,
            self._safe_mode.why,
            now,
        )
        await self._logs.look(self._applied.launches, self._launches, calm=self._slot.idle)
        await self._history.write(now)
        return until

    # -- deciding and acting ---------------------------------------------------------------------------------------

    async def _decide(self, made: Plan, world: World, now: float) -> float | None:
        self._underway.review(world, now, stop_asked=self._stop_asked, late=self._rest.late)
        state = self._slot.state
        if isinstance(state, machine.Settling) and isinstance(made.head, Load):
            self._slot.enough_room()
        if self._stopping and isinstance(state, machine.Idle | machine.Settling):
            self._slot.halt("asked to stop", now)
            return None
        looks = (
            made.changes_at,
            pressure.next_look(world.observation.pressure, self._marks, now),
            now + BLOCKED_TICK if _waits_for_room(made) or self._keeper.trouble is not None else None,
            self._book.next_expiry(),
            self._drains.next_end(now),
            self._history.due(now),
            self._safe_mode.next_look(now),
        )
        decision = machine.decide(state, made, min((t for t in looks if t is not None), default=None))
        if isinstance(decision, machine.Wait):
            if self._options.once and self._slot.idle:
                self._converged(made, world, now)
            # A deadline that has passed is the business of the action it belongs to, and no reason to look at once.
            return decision.until if decision.until is None or decision.until > now else None
        if self._rest.late:
            # After a suspend every age and deadline lies: the next turn acts on what it has read itself.
            return now
        if self._observer.is_old(_started_by(decision.step), world.observation.at):
            return now  # nobody is stopped, nor anything started, on what the files said some time ago
        if isinstance(decision.step, Evict) and not self._evictor.seal(decision.step):
            return now + CROWDED_PACE
        await self._begin(made, world, now)
        return None

    async def _begin(self, made: Plan, world: World, now: float) -> None:
        specs = {m.name: m for m in self._applied.manifest.models}
        state = machine.begin(self._slot.state, made, world, specs, now)
        step = state.action
        assert self._tasks is not None, "the loop runs"
        self._underway.begun()
        self._outlook.begun(step, now)
        self._history.begun(step, now)
        if isinstance(step, Load):
            known = next(
                (p for p in world.observation.preflights if p.model == step.model), Preflight(step.model)
            )
            entry = self._ledger.entry(step.model, step.digest)
            self._ledger.update(ledger_book.begun(entry, known.build, known.weights))
            await self._safe_mode.loading(step.model, now)
        await self._journal.begun(step)
        work = partial(self._load, step) if isinstance(step, Load) else partial(self._evict, step)
        self._slot.begin(state, work, self._tasks)

    async def _load(self, step: Load) -> Done:
        model, spec = self._desired.spec(step.model), self._applied.launches[step.model]
        assert model is not None, f"a plan loads {step.model}, which the manifest does not name"
        entry = self._ledger.entry(step.model, step.digest)
        expected = entry.load_seconds if step.pid is None else None
        return await self._loader.load(step, model, spec, expected)

    async def _evict(self, step: Evict) -> Done:
        return await self._evictor.evict(step, partial(self._desired.promised, step.model))

    def _converged(self, made: Plan, world: World, now: float) -> None:
        """With `once`: halt when there is nothing to do, and nothing that would be tried again."""
        short = world.observation.pressure
        if short.since is not None and short.used is not None and not short.evident:
            return  # memory is short: soon it is known whether that lasts, and somebody has to go for it
        blocked = [v.model for v in made.verdicts if v.outcome is Outcome.BLOCKED]
        given_up = {v.model for v in made.verdicts if v.reason is Reason.GIVEN_UP}
        specs = [s for s in map(self._desired.spec, blocked) if s is not None and s.name not in given_up]
        again = [s for s in specs if 0 < self._ledger.entry(s.name, s.digest).failures < ONCE_TRIES]
        if not again:
            self.blocked = bool(blocked)
            self._slot.halt("converged", now)

    # -- small things ----------------------------------------------------------------------------------------------

    @property
    def _applied(self) -> Applied:
        return self._desired.applied

    @property
    def _marks(self) -> Watermarks | None:
        return self._applied.manifest.watermarks

    @property
    def _halted(self) -> bool:
        return isinstance(self._slot.state, machine.Halted)


def _started_by(step: Step) -> str:
    """Return the model that a step is to start in the end; "" for none."""
    if isinstance(step, Load):
        return step.model
    if step.for_model is not None:
        return step.for_model
    return step.model if step.reason in REPLACING else ""


def _waits_for_room(made: Plan) -> bool:
    """Return whether a model that is asked for, or pinned, stays out for want of memory, or a port."""
    return any(v.outcome is Outcome.BLOCKED and v.reason in _FOR_ROOM for v in made.verdicts)
