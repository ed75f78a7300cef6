"""The state machine: at most one action in flight, written so that two cannot be expressed."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, assert_never

from reconciler.core.types import Evict, Instance, Load, ModelSpec, Plan, Reason, Residency, Step, World

#: Share of the expected bytes that must be seen back before memory counts as recovered, and how long to wait for it.
RECOVERED_SHARE: Final = 0.8
SETTLE_SECONDS: Final = 10.0
SETTLE_SLACK: Final = 64 << 20
#: On top of a model's own grace: what TERM again, KILL and reaping may take.
STOP_MARGIN: Final = 10.0
#: What giving memory back may take of a server that is asked to sleep: weights may have to be copied to the host first.
SLEEP_SECONDS: Final = 30.0
#: However much a load goes on doing, after so many times its patience it is given up.
LOAD_CAP: Final = 10


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing is being done."""


@dataclass(frozen=True, slots=True)
class Evicting:
    """One process is being drained and stopped."""

    action: Evict
    since: float
    deadline: float


@dataclass(frozen=True, slots=True)
class Settling:
    """A process is gone; its memory is not yet seen to be back."""

    model: str
    #: Available bytes that count as recovered; None = it was not known before, so only the deadline ends the wait.
    expect: int | None
    since: float
    deadline: float


@dataclass(frozen=True, slots=True)
class Loading:
    """One process is being started; its reservation is `action.needs`."""

    action: Load
    since: float
    #: When it is given up, unless it is seen to go on until then.
    deadline: float


@dataclass(frozen=True, slots=True)
class Halted:
    """The loop is stopping; nothing more is begun."""

    reason: str


State = Idle | Evicting | Settling | Loading | Halted


# -- events ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Exited:
    """The evicted process is gone. `expect` is what available memory should reach; None = not known."""

    expect: int | None = None


@dataclass(frozen=True, slots=True)
class Aborted:
    """The eviction was given up before anything was stopped: a lease won the race, or nobody needs it any more."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """The memory was seen to be back."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """The state's own deadline has passed."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The loaded model answers."""


@dataclass(frozen=True, slots=True)
class Progressed:
    """A load was seen to go on at `at`; without more of that it is given up `patience` seconds later."""

    at: float
    patience: float


@dataclass(frozen=True, slots=True)
class Limits:
    """What an eviction may take, in seconds, was edited while it is in progress."""

    drain: float
    grace: float


@dataclass(frozen=True, slots=True)
class Failed:
    """The action did not succeed; whatever it had started is stopped, or could not be."""

    expect: int | None = None


@dataclass(frozen=True, slots=True)
class Halt:
    """The loop is to stop."""

    reason: str


Event = Exited | Aborted | Recovered | Deadline | Ready | Progressed | Limits | Failed | Halt


class IllegalTransition(Exception):
    """This event cannot happen in this state: a bug in the caller, never the user's fault."""


class CannotBegin(Exception):
    """The action may not be begun: another is in flight, or the world it was planned for has moved on."""


# -- transitions -------------------------------------------------------------------------------------------------------


def begin(
    state: State, plan: Plan, world: World, specs: Mapping[str, ModelSpec], now: float
) -> Evicting | Loading:
    """Return the state in which the head of `plan` is performed.

    Raises CannotBegin if something is in flight, the plan is empty or older than `world`, a load does not fit by the
    plan's own figures, or an eviction would hit a pinned model whose process is what the manifest asks for.
    """
    if not isinstance(state, Idle):
        raise CannotBegin(f"{type(state).__name__} is in flight")
    action = plan.head
    if action is None:
        raise CannotBegin("the plan is empty")
    if plan.seq != world.observation.seq:
        raise CannotBegin(f"the plan was made from look {plan.seq}, the newest is {world.observation.seq}")
    spec = specs.get(action.model)
    if isinstance(action, Load):
        free = plan.account.free
        if spec is None or free is None or action.needs > free:
            raise CannotBegin(f"{action.model} needs {action.needs} bytes, {free} are free")
        return Loading(action, now, now + spec.load_timeout)
    return _begin_evict(action, spec, world, now)


def _begin_evict(action: Evict, spec: ModelSpec | None, world: World, now: float) -> Evicting:
    instance = next(
        (i for i in world.observation.instances if (i.pid, i.started) == (action.pid, action.started)), None
    )
    if instance is None:
        raise CannotBegin(f"{action.model} (pid {action.pid}) does not run any more")
    if spec is not None and spec.residency is Residency.PINNED and not _may_leave(action, spec, instance):
        raise CannotBegin(f"{action.model} is pinned")
    limits = spec or ModelSpec(action.model, instance.digest)
    return Evicting(action, now, _evict_deadline(action, now, limits.drain_timeout, limits.stop_grace))


def _may_leave(action: Evict, spec: ModelSpec, instance: Instance) -> bool:
    """Whether a process of a pinned model is what may be stopped: no use to anybody, or replaced at once."""
    if action.reason is Reason.DRIFTED:
        return instance.digest != spec.digest or bool(instance.weights) or instance.asleep
    pointless = action.reason in (Reason.DUPLICATE, Reason.CRASHED) or bool(instance.hung)
    return pointless or action.reason is Reason.RESTART_DUE or instance.digest != spec.digest


def advance(state: State, event: Event, now: float) -> State:
    """Return the state after `event`. Raises IllegalTransition for a pair that cannot happen."""
    match state, event:
        case Halted(), Halt():
            return state
        case _, Halt(reason):
            return Halted(reason)
        case (
            (Evicting(), Aborted())
            | (Loading(), Ready())
            | (Settling(), Recovered())
            | (Settling(), Deadline())
        ):
            return Idle()
        case Evicting(), Limits(drain, grace):
            return replace(state, deadline=_evict_deadline(state.action, state.since, drain, grace))
        case Evicting(action=Evict(model=model)), Exited(expect) | Failed(expect):
            return _settle(model, expect, now)
        case Loading(), Progressed(at, patience):
            return replace(state, deadline=load_deadline(state.since, at, patience))
        case Loading(action=Load(model=model)), Failed(expect):
            return _settle(model, expect, now)
        case Loading(action=Load(model=model)), Deadline():
            return _settle(model, None, now)
        case _:
            raise IllegalTransition(f"{type(event).__name__} in {type(state).__name__}")


def load_deadline(since: float, progressed_at: float, patience: float) -> float:
    """Return when a load is given up that began at `since` and was last seen to go on at `progressed_at`."""
    return min(progressed_at + patience, since + LOAD_CAP * patience)


def _evict_deadline(action: Evict, since: float, drain: float, grace: float) -> float:
    """TERM, then TERM and KILL each get a moment of their own on top of the grace."""
    asked = (drain if action.drain else 0.0) + (SLEEP_SECONDS if action.sleep else 0.0)
    return since + asked + grace + STOP_MARGIN


def _settle(model: str, expect: int | None, now: float) -> Settling:
    return Settling(model, expect, now, now + SETTLE_SECONDS)


def expected(available: int | None, held: int) -> int | None:
    """Return the available bytes at which the memory of a process counts as back, from what was available before.

    A share of what it held is enough, and memory comes and goes on any machine: up to the slack it is not missed.
    """
    return None if available is None else available + int(held * RECOVERED_SHARE) - SETTLE_SLACK


def recovered(expect: int | None, available: int | None) -> bool:
    """Return whether the memory waited for is seen to be back. Unknown is not back; the deadline ends the wait."""
    return expect is not None and available is not None and available >= expect


# -- what to do now ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Act:
    """Perform this step, and nothing else, now."""

    step: Step


@dataclass(frozen=True, slots=True)
class Wait:
    """Do nothing until `until` (monotonic; None = until something changes). `why` is for people."""

    until: float | None
    why: str


def decide(state: State, plan: Plan, wake_at: float | None) -> Act | Wait:
    """Return the one thing to do. The loop and the simulator both ask exactly this.

    `wake_at` is when the plan would change by itself (`Plan.changes_at`).
    """
    match state:
        case Halted(reason):
            return Wait(None, f"halted: {reason}")
        case Evicting(action=action, deadline=deadline):
            return Wait(deadline, f"evicting {action.model}")
        case Loading(action=action, deadline=deadline):
            return Wait(deadline, f"loading {action.model}")
        case Settling(model=model, deadline=deadline):
            return Wait(deadline, f"waiting for the memory of {model}")
        case Idle():
            return Act(plan.head) if plan.head is not None else Wait(wake_at, "nothing to do")
        case _:
            assert_never(state)
