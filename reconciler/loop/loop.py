"""The shell around the core: it turns, and at each turn begins at most the head of the plan.

Everything mutable here is owned by the one task that runs `Loop.run`. Others only leave a value (a manifest, an exit,
an outcome) and wake it; a wake carries no content, and a turn looks at the whole world anew.
"""

import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final

import anyio
import anyio.abc
import anyio.to_thread
import structlog

from reconciler.board import Board
from reconciler.core import book as ledger_book
from reconciler.core import machine
from reconciler.core.plan import next_change, plan
from reconciler.core.types import Evict, Load, ModelSpec, Outcome, Plan, Reason, Residency, Step, World
from reconciler.engines import registry
from reconciler.host import Host, Ports
from reconciler.leases import Endpoint, LeaseBook, Refusal
from reconciler.loop.actions import Actions
from reconciler.loop.actions import Outcome as Done
from reconciler.loop.adopt import adopt
from reconciler.loop.failures import describe
from reconciler.loop.journal import Journal
from reconciler.loop.launches import Launch, Launches
from reconciler.loop.ledger import Ledger
from reconciler.loop.observe import Observer
from reconciler.loop.publish import Publisher
from reconciler.loop.refusals import refusals
from reconciler.manifest import Applied, ManifestError
from reconciler.memory.host import read_memory
from reconciler.store import AsyncStore

#: Seconds between turns when nothing happens, and while something is being done.
CALM_TICK: Final = 10.0
BUSY_TICK: Final = 0.5
#: A turn that comes this much later than it should (the machine slept, we were stopped) only looks.
LATE: Final = 5.0
SETTLE_POLL: Final = 0.02
#: With `once`: how often a model that fails to load is tried before that is the result.
ONCE_TRIES: Final = 2

log = structlog.get_logger("reconciler.loop")


@dataclass(frozen=True, slots=True)
class Options:
    """How one run behaves."""

    #: Return as soon as nothing more can be done, and leave the models running.
    once: bool = False


class Loop:
    """The control loop of one state directory."""

    def __init__(
        self,
        applied: Applied,
        *,
        host: Host,
        store: AsyncStore,
        book: LeaseBook,
        board: Board,
        close_upstream: Callable[[str], Awaitable[None]],
        options: Options | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host, self._store, self._book = host, store, book
        self._options, self._clock = options or Options(), clock
        self._applied = applied
        self._incoming: Applied | ManifestError | None = None
        self._refused: tuple[str, ...] = ()
        self._launches = Launches()
        self._observer = Observer(host, self._launches, book)
        self._ledger = Ledger(store)
        self._journal = Journal(store, self._ledger)
        self._publisher = Publisher(board, host.logs)
        self._actions = Actions(
            host=host,
            store=store,
            book=book,
            launches=self._launches,
            observer=self._observer,
            close_upstream=close_upstream,
            clock=clock,
            changed=self.wake,
            started=self._watch_soon,
        )
        self._state: machine.State = machine.Idle()
        self._done: deque[Done] = deque()
        self._action_scope: anyio.CancelScope | None = None
        self._tasks: anyio.abc.TaskGroup | None = None
        self._wake = anyio.Event()
        self._late = False
        #: While settling: the plan, made from what is free now, goes on with a load.
        self._room = False
        self._stopping = False
        #: Whether something the manifest wants could not be done; the result of a run with `once`.
        self.blocked = False

    # -- what others may call --------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Have the loop look soon."""
        self._wake.set()

    def manifest(self, reading: Applied | ManifestError) -> None:
        """Leave a new reading of the manifest."""
        self._incoming = reading
        self.wake()

    def request_stop(self) -> None:
        """Begin nothing more, end what is loaded, and return. A second call hurries: drains end at once."""
        if self._stopping:
            self._actions.hurry.set()
        self._stopping = True
        self.wake()

    # -- the story -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Turn until stopped, or, with `once`, until nothing more can be done."""
        try:
            async with anyio.create_task_group() as self._tasks:
                await self._start()
                while not isinstance(self._state, machine.Halted):
                    until = await self._turn()
                    if not isinstance(self._state, machine.Halted):
                        await self._sleep(until)
                if not self._options.once or self._stopping:
                    await self._end_all()
                self._tasks.cancel_scope.cancel()
        finally:
            await self._actions.aclose()

    async def _start(self) -> None:
        await self._ledger.load()
        await self._apply(self._applied)
        specs = self._applied.launches
        for launch in await adopt(self._host, self._store, specs, self._actions.http, self._clock()):
            self._launches.add(launch)
            self._watch_soon(launch)
            spec = specs.get(launch.model)
            if launch.ready and spec is not None and self._launches.serving(launch.model) is None:
                self._launches.serve(launch)
                upstream = registry.get(spec.engine).upstream_model(spec)
                self._book.open(Endpoint(launch.model, launch.base_url, upstream), self._clock())

    async def _turn(self) -> float | None:
        """Look, plan, begin at most one step, publish. Return when to look again at the latest."""
        now = self._clock()
        self._wake = anyio.Event()
        await self._take_manifest()
        await self._take_done(now)
        await self._take_exits(now)
        observation = await self._observer.look(self._applied.launches, now)
        self._ledger.measure(observation.instances, now)
        for demand in observation.demands:
            if demand.wanted:  # a person asks: the next try is due now
                self._ledger.forgive(ledger_book.wished, demand.model)
        await self._ledger.flush()
        world = World(observation, self._ledger.entries())
        made = plan(self._applied.manifest, world, now)
        for model, refusal in refusals(made).items():
            self._book.refuse(model, refusal)
        until = await self._decide(made, world, now)
        self._publisher.publish(
            self._applied,
            world,
            made,
            self._state,
            self._refused,
            self._actions.progress,
            self._launches,
            now,
        )
        await anyio.to_thread.run_sync(self._trim_logs)
        return until

    async def _sleep(self, until: float | None) -> None:
        now = self._clock()
        tick = now + (CALM_TICK if isinstance(self._state, machine.Idle) else BUSY_TICK)
        wake_at = max(now, tick if until is None else min(tick, until))
        with anyio.move_on_after(wake_at - now):
            await self._wake.wait()
        self._late = self._clock() - wake_at > LATE
        if self._late:
            log.warning("this turn comes late and only looks", seconds=self._clock() - wake_at)

    # -- deciding and acting ---------------------------------------------------------------------------------------

    async def _decide(self, made: Plan, world: World, now: float) -> float | None:
        self._give_up_load()
        if isinstance(self._state, machine.Settling) and isinstance(made.head, Load):
            # What is free now is enough for what comes next, even if other programs took some of what came back.
            self._room = True
        if self._stopping and isinstance(self._state, machine.Idle | machine.Settling):
            self._state = machine.advance(self._state, machine.Halt("asked to stop"), now)
            return None
        decision = machine.decide(self._state, made, next_change(self._applied.manifest, world, now))
        if isinstance(decision, machine.Wait):
            if self._options.once and isinstance(self._state, machine.Idle):
                self._converged(made, now)
            return min(
                (t for t in (decision.until, self._end_of_use(world, now)) if t is not None), default=None
            )
        if self._late:
            # After a suspend every age and deadline lies: the next turn acts on what it has read itself.
            return now
        await self._begin(made, world, now)
        return None

    def _end_of_use(self, world: World, now: float) -> float | None:
        """Return when to look whether models in use have come to rest: the end of a request wakes nobody.

        Looking once in each idle time is enough to be in time for its end.
        """
        used = {d.model for d in world.observation.demands if d.active > 0}
        times = [
            m.idle_ttl for m in self._applied.manifest.models if m.name in used and m.idle_ttl is not None
        ]
        return now + max(min(times), BUSY_TICK) if times else None

    async def _begin(self, made: Plan, world: World, now: float) -> None:
        specs = {m.name: m for m in self._applied.manifest.models}
        self._state = machine.begin(self._state, made, world, specs, now)
        assert self._tasks is not None, "the loop runs"
        await self._journal.begun(self._state.action)
        self._tasks.start_soon(self._perform, self._state.action)

    async def _perform(self, step: Step) -> None:
        """The one action task: do the step and leave its outcome, then see the memory back and leave that."""
        done = Done(machine.Failed(None), 0.0)
        with anyio.CancelScope() as self._action_scope:
            done = await (self._load(step) if isinstance(step, Load) else self._evict(step))
        self._action_scope = None
        self._leave(done)
        if isinstance(done.event, machine.Exited | machine.Failed):
            self._leave(Done(await self._settle(done.event.expect), 0.0))

    def _leave(self, done: Done) -> None:
        self._done.append(done)
        self.wake()

    async def _load(self, step: Load) -> Done:
        model, spec = self._spec(step.model), self._applied.launches[step.model]
        assert model is not None, f"a plan loads {step.model}, which the manifest does not name"
        entry = self._ledger.entry(step.model, step.digest)
        return await self._actions.load(step, model, spec, entry.load_seconds)

    async def _evict(self, step: Evict) -> Done:
        model = self._spec(step.model) or ModelSpec(step.model, "")
        return await self._actions.evict(step, model.drain_timeout, model.stop_grace)

    async def _settle(self, expect: int | None) -> machine.Event:
        """Wait until the memory of what was stopped is seen to be back, or the time for that is over."""
        if expect is None:
            return machine.Deadline()
        self._room = False
        with anyio.move_on_after(machine.SETTLE_SECONDS):
            while not self._room:
                available = (await anyio.to_thread.run_sync(read_memory)).available
                if available is not None and available >= expect:
                    return machine.Recovered()
                await anyio.sleep(SETTLE_POLL)
            return machine.Recovered()
        log.warning("memory did not come back in time", seconds=machine.SETTLE_SECONDS)
        return machine.Deadline()

    def _give_up_load(self) -> None:
        """Cancel a load whose model was removed or changed meanwhile, and any load when we are to stop."""
        if not isinstance(self._state, machine.Loading) or self._action_scope is None:
            return
        spec = self._spec(self._state.action.model)
        if self._stopping or spec is None or spec.digest != self._state.action.digest:
            self._action_scope.cancel()

    def _converged(self, made: Plan, now: float) -> None:
        """With `once`: halt when there is nothing to do, and nothing that would be tried again."""
        blocked = [v.model for v in made.verdicts if v.outcome is Outcome.BLOCKED]
        specs = [s for s in map(self._spec, blocked) if s is not None]
        again = [s for s in specs if 0 < self._ledger.entry(s.name, s.digest).failures < ONCE_TRIES]
        if not again:
            self.blocked = bool(blocked)
            self._state = machine.advance(self._state, machine.Halt("converged"), now)

    async def _end_all(self) -> None:
        """Stop every model, one after the other. Who still waits is told so."""
        for name in sorted(self._applied.launches):
            self._book.refuse(name, Refusal(503, "model_stopped", "reconcile is stopping", retry_after=10.0))
        for launch in self._launches:
            model = self._spec(launch.model) or ModelSpec(launch.model, launch.digest)
            process = launch.process
            step = Evict(launch.model, process.pid, process.started, 0, Reason.SHUTDOWN, drain=True)
            await self._journal.begun(step)
            done = await self._actions.evict(step, model.drain_timeout, model.stop_grace)
            await self._journal.evicted(step, done.seconds)

    # -- taking in what others left --------------------------------------------------------------------------------

    async def _take_manifest(self) -> None:
        reading, self._incoming = self._incoming, None
        if isinstance(reading, ManifestError):
            self._refused = tuple(str(d) for d in reading.diagnostics)
            await self._journal.refused(reading, self._applied.manifest.generation)
        elif reading is not None:
            self._refused = ()
            await self._apply(reading)

    async def _apply(self, applied: Applied) -> None:
        generation = await self._store.generation(applied.digest)
        changed = generation != self._applied.manifest.generation
        self._applied = replace(applied, manifest=replace(applied.manifest, generation=generation))
        if (self._actions.ports.first, self._actions.ports.last) != applied.ports:
            self._actions.ports = Ports(*applied.ports)
        transient = [m.name for m in applied.manifest.models if m.residency is Residency.TRANSIENT]
        limits = {name: limit.queue for name, limit in applied.limits.items()}
        self._book.configure(limits, tell_idle=frozenset(transient))
        if changed:
            await self._journal.applied(self._applied)

    async def _take_done(self, now: float) -> None:
        """Advance the state by what the action task has left, and keep the books."""
        while self._done:
            done = self._done.popleft()
            state = self._state
            self._state = machine.advance(state, done.event, now)
            if isinstance(state, machine.Loading):
                await self._after_load(state.action, done, now)
            elif isinstance(state, machine.Evicting):
                await self._after_evict(state.action, done)

    async def _after_load(self, step: Load, done: Done, now: float) -> None:
        if isinstance(done.event, machine.Ready):
            await self._journal.loaded(step, done.seconds, done.launch)
        elif not done.error:
            await self._journal.given_up(step, "it is not wanted any more")
        else:
            wait = await self._journal.load_failed(step, done.error, now)
            self._book.wish_over(step.model)
            text = f"model {step.model!r} could not be loaded: {done.error}"
            self._book.refuse(step.model, Refusal(502, "load_failed", text, retry_after=wait))

    async def _after_evict(self, step: Evict, done: Done) -> None:
        if isinstance(done.event, machine.Aborted):
            await self._journal.given_up(step, "a request came first")
        elif isinstance(done.event, machine.Exited):
            await self._journal.evicted(step, done.seconds)

    async def _take_exits(self, now: float) -> None:
        """Take models that died by themselves out of service; what they left behind is the plan's business."""
        for launch in self._launches:
            if launch.exit is None or launch.stopping or not launch.ready or launch.broken:
                continue
            launch.ready = False
            if self._launches.serving(launch.model) is launch:
                self._book.close(launch.model)
                self._launches.unserve(launch)
            error, rest = await anyio.to_thread.run_sync(self._autopsy, launch)
            await self._journal.crashed(launch, error, now)
            if rest:
                launch.broken = True
            else:
                self._launches.drop(launch)
                await self._store.drop_launch(launch.id)

    def _autopsy(self, launch: Launch) -> tuple[str, tuple[int, ...]]:
        error = describe(launch.spec, launch.exit, self._host.logs, launch.model, "it died")
        return error, self._host.tree(launch.process, launch.id, thorough=True)

    # -- small things ----------------------------------------------------------------------------------------------

    def _watch_soon(self, launch: Launch) -> None:
        assert self._tasks is not None, "the loop runs"
        self._tasks.start_soon(self._watch, launch)

    async def _watch(self, launch: Launch) -> None:
        launch.exit = await self._host.wait_exit(launch.process)
        launch.exited.set()
        self.wake()

    def _trim_logs(self) -> None:
        for model in sorted({x.model for x in self._launches}):
            self._host.logs.trim(model)

    def _spec(self, model: str) -> ModelSpec | None:
        return next((m for m in self._applied.manifest.models if m.name == model), None)
