"""Small random layouts and traces, and simulations whose every request can be asked about afterwards."""

from dataclasses import dataclass, field
from math import nan

from hypothesis import strategies as st

from reconciler.core.habits import Habits
from reconciler.core.memory import Memory
from reconciler.core.plan import plan
from reconciler.core.types import (
    Manifest,
    MayPreempt,
    ModelSpec,
    Plan,
    Policy,
    Prewarm,
    Residency,
    World,
)
from reconciler.leases import Admission, QueueLimits
from reconciler.simulate.crowd import PENDING, SERVED, Crowd
from reconciler.simulate.engine import Simulation
from reconciler.simulate.layout import Layout, Speed
from reconciler.simulate.result import Result
from reconciler.simulate.trace import Trace

GIB = 1 << 30
NAMES = "abcdefg"
CLIENTS = ["anna", "ben", "carl"]
MORNING = 8 * 3600.0
SPEED = Speed(load=4.0)
LIMITS = QueueLimits()


@dataclass(frozen=True)
class Request:
    """What became of one request. Seconds."""

    row: int
    model: str
    came: float
    waited: float
    #: nan = its model took requests when it came, and as long as it waited.
    cold: float
    served: float
    outcome: str

    @property
    def begins(self) -> float:
        """When its wait was over."""
        return self.came + self.waited

    @property
    def ends(self) -> float:
        """When all was over."""
        return self.begins + self.served

    @property
    def was_served(self) -> bool:
        """Whether it had a place, were it only until it was cut."""
        return self.outcome in ("served", "cut")


@dataclass(frozen=True)
class Run:
    """One simulation, what it was of, and what came of it."""

    layout: Layout
    trace: Trace = field(repr=False)
    result: Result = field(repr=False)
    requests: tuple[Request, ...] = field(repr=False)
    #: Every plan that was made while nothing was in flight, with the world it was made from.
    plans: tuple[tuple[World, Plan], ...] = field(repr=False)
    #: How often each request was said to be over.
    over: dict[int, int] = field(repr=False)

    @property
    def specs(self) -> dict[str, ModelSpec]:
        """The models by name."""
        return {spec.name: spec for spec in self.layout.manifest.models}


class Watched(Crowd):
    """A crowd that counts how often each request ends."""

    over: dict[int, int]

    def _go_on(self, row: int) -> None:
        self.over[row] = self.over.get(row, 0) + 1
        super()._go_on(row)


def simulate(layout: Layout, trace: Trace, habits: Habits | None = None) -> Run:
    """Run a trace and keep all that was decided."""
    plans: list[tuple[World, Plan]] = []

    def planner(manifest: Manifest, world: World, now: float) -> Plan:
        made = plan(manifest, world, now)
        assert world.observation.at == now
        plans.append((world, made))
        return made

    simulation = Simulation(layout, trace, planner, habits or Habits())
    crowd = simulation._crowd
    crowd.__class__ = Watched
    assert isinstance(crowd, Watched)
    crowd.over = {}
    result = simulation.run(None)
    return Run(layout, trace, result, tuple(_requests(layout, trace, crowd)), tuple(plans), crowd.over)


def _requests(layout: Layout, trace: Trace, crowd: Crowd) -> list[Request]:
    names = [layout.routes.get(name, name) for name in trace.models]
    made = []
    for row in range(len(trace)):
        outcome = crowd.outcome[row]
        assert outcome != PENDING
        what = "served" if outcome == SERVED else crowd.outcomes[outcome]
        facts = (crowd.came[row], crowd.waited[row], crowd.cold[row], crowd.served[row])
        made.append(Request(row, names[trace.model[row]], *facts, what))
    return made


# -- by hand -----------------------------------------------------------------------------------------------------------


def layout_of(
    *specs: ModelSpec,
    gib: int = 10,
    speeds: Speed | dict[str, Speed] = SPEED,
    limits: QueueLimits | dict[str, QueueLimits] = LIMITS,
    policy: Policy = Policy.COST,
    prewarm: Prewarm = Prewarm.OFF,
    **fields: object,
) -> Layout:
    """Return a layout of a machine with so many GiB for models."""
    names = [spec.name for spec in specs]
    return Layout(
        name="desk",
        manifest=Manifest(
            tuple(sorted(specs, key=lambda s: s.name)), reserve=0, policy=policy, prewarm=prewarm
        ),
        memory=Memory(total=gib * GIB, available=gib * GIB),
        speeds=speeds if isinstance(speeds, dict) else dict.fromkeys(names, speeds),
        limits=limits if isinstance(limits, dict) else dict.fromkeys(names, limits),
        **fields,  # type: ignore[arg-type]
    )


def spec(name: str, gib: int = 4, **fields: object) -> ModelSpec:
    """Return a model of so many GiB."""
    return ModelSpec(name, f"{name}-1", steady=gib * GIB, **fields)  # type: ignore[arg-type]


def trace_of(*rows: tuple[float, str, float], client: str = "anna") -> Trace:
    """Return requests (at, model, seconds of service) that come at their own time."""
    models = sorted({model for _, model, _ in rows})
    trace = Trace(models=models, clients=[client])
    for at, model, seconds in rows:
        trace.add(at, models.index(model), 0, seconds=seconds)
    return trace


# -- at random ---------------------------------------------------------------------------------------------------------


@st.composite
def specs(draw: st.DrawFn, name: str) -> ModelSpec:
    """A model that is mostly on demand."""
    size = draw(st.integers(1, 6))
    return spec(
        name,
        size,
        peak=draw(st.sampled_from([None, None, None, (size + 1) * GIB])),
        priority=draw(st.sampled_from([250, 500, 500, 500, 750])),
        residency=draw(st.sampled_from([Residency.ON_DEMAND] * 6 + list(Residency))),
        idle_ttl=draw(st.sampled_from([None, None, None, 5.0, 60.0])),
        min_resident=draw(st.sampled_from([0.0, 0.0, 0.0, 20.0])),
        cooldown=draw(st.sampled_from([0.0, 0.0, 0.0, 40.0])),
        reload_after=draw(st.sampled_from([0.0, 0.0, 0.0, 5.0])),
        may_preempt=draw(st.sampled_from([MayPreempt.EQUAL] * 3 + [MayPreempt.LOWER, MayPreempt.NONE])),
        patience=draw(st.sampled_from([10.0, 30.0])),
        drain_timeout=draw(st.sampled_from([2.0, 15.0, 120.0, float("inf")])),
    )


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Three to seven models on a machine that seldom has room for all."""
    models = tuple(draw(specs(name)) for name in NAMES[: draw(st.integers(3, 7))])
    names = [model.name for model in models]
    return layout_of(
        *models,
        gib=draw(st.sampled_from([6, 8, 8, 12])),
        speeds={
            name: Speed(
                load=draw(st.sampled_from([0.5, 3.0, 8.0, 30.0])),
                evict=draw(st.sampled_from([0.2, 1.0])),
                after=draw(st.sampled_from([0.0, 0.0, 0.25])),
            )
            for name in names
        },
        limits={
            name: QueueLimits(draw(st.sampled_from([1, 3, 64])), draw(st.sampled_from([15.0, 60.0, 120.0])))
            for name in names
        },
        policy=draw(st.sampled_from(list(Policy))),
        prewarm=draw(st.sampled_from(list(Prewarm))),
        admissions={
            name: Admission(
                draw(st.sampled_from([None, None, 1, 2])), draw(st.sampled_from([(), (), ("g",)]))
            )
            for name in names
        },
        gates={"g": draw(st.integers(1, 2))},
        urgency={name: draw(st.sampled_from([250, 500, 750])) for name in names},
        routes={"alias": "a"},
    )


@st.composite
def traces(draw: st.DrawFn, layout: Layout) -> Trace:
    """Bursts and pauses; some requests are those of sessions that wait for their answers."""
    models = [*(spec.name for spec in layout.manifest.models), "alias", "stranger"]
    weights = [*range(len(models) - 2)] * 6 + [len(models) - 2, len(models) - 1]
    trace = Trace(models=models, clients=CLIENTS)
    pause = st.sampled_from([0.0, 0.0, 0.1, 1.0, 3.0, 10.0, 61.0, 400.0])
    thought = st.sampled_from([nan, nan, 0.0, 2.0, 30.0])
    length = st.sampled_from([0.0, 0.5, 2.0, 10.0, 45.0])
    row = st.tuples(pause, st.sampled_from(weights), st.integers(0, 2), thought, length)
    at = MORNING
    for gap, model, client, think, seconds in draw(
        st.lists(row, min_size=draw(st.sampled_from([30, 15, 1])), max_size=40)
    ):
        at += gap
        trace.add(at, model, client, think=think, seconds=seconds)
    return trace


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """A layout, a trace, and what came of them."""
    layout = draw(layouts())
    return simulate(layout, draw(traces(layout)))
