"""Runs a trace through the core on a virtual clock: the same plan, the same state machine, the same queues."""

from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Final, cast

from reconciler.core import machine, prewarm
from reconciler.core.habits import Habits
from reconciler.core.plan import plan
from reconciler.core.types import Evict, Load, Manifest, Plan, Reason, Residency, Verdict, World
from reconciler.leases import Lease, Refusal
from reconciler.leases.page import Page
from reconciler.loop.drains import Drains
from reconciler.loop.refusals import once_ready, refusals
from reconciler.loop.rest import CROWDED_PACE, FOR_REST
from reconciler.simulate.clock import CALL, COME, END, Clock
from reconciler.simulate.crowd import Crowd
from reconciler.simulate.desk import Desk
from reconciler.simulate.doors import Doors
from reconciler.simulate.layout import Layout
from reconciler.simulate.log import Log
from reconciler.simulate.result import Result
from reconciler.simulate.tally import tally
from reconciler.simulate.trace import Trace

#: What decides; benchmarks put others here to compare with.
Planner = Callable[[Manifest, World, float], Plan]
#: Events between two reports of how far it is.
REPORT: Final = 5000
#: Reasons not to load a model that lie in the manifest and the machine, and not in what else is going on.
LASTING: Final = frozenset(
    {
        Reason.NOT_STARTABLE,
        Reason.SIZE_UNKNOWN,
        Reason.MEMORY_UNKNOWN,
        Reason.NEVER_FITS,
        Reason.INSUFFICIENT_MEMORY,
    }
)


def run(
    layout: Layout,
    trace: Trace,
    *,
    progress: Callable[[float], None] | None = None,
    planner: Planner = plan,
    habits: Habits | None = None,
) -> Result:
    """Return what a layout would have made of a trace; the machine begins with no model loaded.

    `progress` is told the share of the requests that is done. `habits` is what is known before; it is added to.
    Raises ValueError for an empty trace.
    """
    if not len(trace):
        raise ValueError("the trace has no requests")
    return Simulation(layout, trace, planner, habits or Habits()).run(progress)


class Simulation:
    """One run."""

    def __init__(self, layout: Layout, trace: Trace, planner: Planner, habits: Habits) -> None:
        self._layout, self._trace, self._planner, self._habits = layout, trace, planner, habits
        self._clock = Clock(trace.at[0])
        self._doors = Doors(self._wake, self._clock)
        specs = {spec.name: replace(spec, sleeps=False) for spec in layout.manifest.models}
        self._specs = specs
        self._manifest = replace(layout.manifest, models=tuple(specs.values()))
        self._doors.configure(
            {name: layout.limits[name] for name in sorted(specs)},
            tell_idle=frozenset(s.name for s in specs.values() if s.residency is Residency.TRANSIENT),
            gates=layout.gates,
        )
        self._doors.assign(layout.admissions)
        self._crowd = Crowd(layout, trace, self._doors, self._clock, habits)
        self._desk = Desk(layout, self._clock.now)
        #: What the ledger says stays as it is: in a simulation every load succeeds that is begun.
        self._proved = once_ready(self._manifest, self._desk.ledger)
        self._log = Log(self._clock)
        self._crowd.on_arrival = self._log.came
        self._drains = Drains()
        self._state: machine.State = machine.Idle()
        self._woken = True
        #: When the plan may change by itself, and the time before which nobody looks again.
        self._look_at, self._not_before = -inf, -inf
        #: What a drain in flight goes on to once its model is idle.
        self._draining: Page | None = None
        #: What was said last of each model that was not to be loaded, for a reason that lies in how things are.
        self._barred: dict[str, Verdict] = {}
        #: Models that no waiting will bring, by the last plan: who comes for one need not wait for the slot.
        self._hopeless: dict[str, Refusal] = {}

    def _wake(self) -> None:
        self._woken = True

    # -- time ----------------------------------------------------------------------------------------------------

    def run(self, progress: Callable[[float], None] | None) -> Result:
        """Go through the whole trace."""
        at, opens, events, crowd = self._trace.at, self._crowd.opens, self._clock.events, self._crowd
        clock, count, place, steps = self._clock, len(self._crowd.opens), 0, 0
        while crowd.left:
            due = at[opens[place]] if place < count else inf
            first = events[0][0] if events else inf
            look = max(self._not_before, clock.now) if self._woken else self._look_at
            if look <= due and look <= first:
                clock.now = max(clock.now, look)
                self._turn()
            elif due <= first:
                clock.now = max(clock.now, due)
                crowd.come(opens[place])
                place += 1
            else:
                self._happens()
            steps += 1
            if progress is not None and steps % REPORT == 0:
                progress(1.0 - crowd.left / len(self._trace))
        return tally(self._layout, self._trace, self._crowd, self._desk, self._log, self._barred)

    def _happens(self) -> None:
        _, _, kind, what = self._clock.pop()
        if kind == END:
            self._crowd.done(*cast(tuple[int, Page, Lease], what))
        elif kind == COME:
            self._crowd.come(cast(int, what))
        else:
            assert kind == CALL, f"an event of kind {kind}"
            cast(Callable[[], None], what)()

    # -- turns ---------------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        """Look, plan, and begin at most one step, as the loop does."""
        now = self._clock.now
        self._woken, self._look_at = False, inf
        if isinstance(self._state, machine.Loading):
            self._refuse(self._hopeless)
            self._review_load(self._state)
            return
        if isinstance(self._state, machine.Evicting):
            self._refuse(self._hopeless)
            self._review_drain(self._state, now)
            return
        world = self._world(now)
        made = self._planner(self._manifest, world, now)
        self._barred.update((v.model, v) for v in made.verdicts if v.reason in LASTING)
        refused = refusals(made, self._proved)
        self._hopeless = {model: why for model, why in refused.items() if why.retry_after is None}
        self._refuse(refused)
        if any(v.reason in FOR_REST for v in made.verdicts):
            self._not_before = now + CROWDED_PACE
        looks = (
            made.changes_at,
            self._drains.next_end(now),
        )
        decision = machine.decide(self._state, made, min((t for t in looks if t is not None), default=None))
        if isinstance(decision, machine.Wait):
            self._look_at = inf if decision.until is None else decision.until
            return
        if isinstance(decision.step, Evict) and not self._doors.seal(
            decision.step.model, drain=decision.step.drain
        ):
            self._look_at = now + CROWDED_PACE
            return
        self._state = machine.begin(self._state, made, world, self._specs, now)
        self._log.begins(decision.step, world.observation.demands)
        self._begin(decision.step, now)

    def _refuse(self, refused: dict[str, Refusal]) -> None:
        for model, refusal in refused.items():
            self._doors.refuse(model, refusal)

    def _world(self, now: float) -> World:
        seen = self._drains.spare(self._desk.look(self._doors, now), now)
        prewarms = self._log.prewarms(now)
        # Of models that are not in memory only a load in advance asks how likely they are.
        ahead = prewarm.due(self._manifest, seen, prewarms, now)
        asked = self._specs if ahead else [i.model for i in seen.instances]
        chances = self._habits.chances(asked, now)
        return World(seen, self._desk.ledger, chances, prewarms, self._log.swaps(now))

    def _begin(self, step: Load | Evict, now: float) -> None:
        if isinstance(step, Load):
            self._desk.begin(step, now)
            seconds = self._layout.speeds[step.model].load
            state = self._state
            self._clock.at(now + seconds, lambda: self._loaded(state, step))
        elif step.drain:
            self._draining = self._doors.page(step.model)
            self._look_at = now
            limit = self._specs[step.model].drain_timeout
            if limit < inf:
                state = self._state
                self._clock.at(now + limit, lambda: self._drain_over(state, step))
        else:
            self._stop(step, now)

    def _stop(self, step: Evict, now: float) -> None:
        self._draining = None
        self._clock.at(now + self._layout.speeds[step.model].evict, lambda: self._gone(step))

    def _review_load(self, state: machine.Loading) -> None:
        """Break a load in advance off when somebody waits for another model."""
        if state.action.reason is not Reason.PREWARM:
            return
        if prewarm.broken_off(state.action, World(self._desk.look(self._doors, self._clock.now))):
            self._desk.end(state.action.model, self._clock.now)
            self._log.ends(aborted=True)
            self._settle(machine.Failed(None))

    def _review_drain(self, state: machine.Evicting, now: float) -> None:
        page = self._draining
        if page is None:
            return
        if not page.busy:
            self._stop(state.action, now)
            return
        limit = self._specs[state.action.model].drain_timeout
        if self._drains.judge(state, limit, self._manifest, self._world(now), now):
            self._draining = None
            self._log.ends(aborted=True)
            self._state = machine.advance(state, machine.Aborted(), now)
            self._doors.unseal(state.action.model)
            self._woken = True
        else:
            self._look_at = now + 1.0

    def _drain_over(self, state: machine.State, step: Evict) -> None:
        if self._state is state and self._draining is not None:
            self._doors.cut(step.model)
            self._stop(step, self._clock.now)

    def _loaded(self, state: machine.State, step: Load) -> None:
        if self._state is not state:
            return  # it was broken off
        now = self._clock.now
        self._desk.ready(step.model, now)
        self._log.ends()
        self._state = machine.advance(self._state, machine.Ready(), now)
        self._doors.open(self._desk.endpoint(step.model), now)
        self._not_before = max(self._not_before, now + self._layout.speeds[step.model].after)
        self._woken = True

    def _gone(self, step: Evict) -> None:
        self._doors.close(step.model)
        self._desk.end(step.model, self._clock.now, displaced=step.reason)
        self._log.ends()
        self._settle(machine.Exited(None))

    def _settle(self, event: machine.Exited | machine.Failed) -> None:
        """End a step; memory is back at once."""
        now = self._clock.now
        self._state = machine.advance(machine.advance(self._state, event, now), machine.Recovered(), now)
        self._woken = True
