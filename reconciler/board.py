"""Where loop and gateway meet: the loop publishes snapshots here, the gateway reads them. Neither imports the other."""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import anyio

from reconciler.core.machine import Halted, State
from reconciler.core.status import Condition
from reconciler.core.types import Plan, World
from reconciler.counts import Counts
from reconciler.leases import Admission, Traffic
from reconciler.manifest.applied import Applied, OnExit
from reconciler.samples import Sample, Samples, sample

if TYPE_CHECKING:
    from reconciler.store import Store

T = TypeVar("T")

#: What requests in flight get at most when reconcile itself is stopped, in seconds.
STOP_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the action in flight is; for people."""

    model: str
    #: "loading", "draining", "saving" (its state), "stopping" or "settling".
    doing: str
    since: float
    #: Seconds it is expected to take, from earlier loads, or at most where that is stated; None = not known yet.
    expected: float | None = None


@dataclass(frozen=True, slots=True)
class SavedState:
    """What is kept of a model's state while it is not in memory; for people."""

    #: None = it does not count in tokens, or nothing is kept.
    tokens: int | None = None
    #: On disk; 0 = nothing is kept.
    bytes: int = 0
    #: When it was saved, by the snapshot's clock (it may be before the clock began); None = nothing is kept.
    at: float | None = None
    #: What became of it last: saved, restored, or why not.
    note: str = ""


@dataclass(frozen=True, slots=True)
class PrewarmCount:
    """What became of the loads of one model that were begun before anybody asked for it, in this run; for people."""

    model: str
    begun: int = 0
    #: Somebody asked for the model while it was in memory for that.
    used: int = 0
    #: It went, or failed, before anybody asked.
    in_vain: int = 0
    #: Ended while it loaded: somebody asked for another model, or it was not wanted any more.
    broken_off: int = 0


@dataclass(frozen=True, slots=True)
class PrewarmFigures:
    """How good it was, in this run, to load models before anybody asked; for people."""

    #: Of each model of which a load was begun so, sorted by name.
    models: tuple[PrewarmCount, ...] = ()
    #: Loads that were finished for somebody who waited.
    waited_for: int = 0

    @property
    def precision(self) -> float | None:
        """Share of the loads begun in advance that were used, of those of which it is known; None = of none is."""
        used, in_vain = sum(m.used for m in self.models), sum(m.in_vain for m in self.models)
        return used / (used + in_vain) if used + in_vain else None

    @property
    def recall(self) -> float | None:
        """Share of the loads that somebody wanted that were begun in advance; None = there were none."""
        used = sum(m.used for m in self.models)
        return used / (used + self.waited_for) if used + self.waited_for else None


@dataclass(frozen=True, slots=True)
class Health:
    """What is known of whether a model that is ready still answers; for people."""

    #: Whether it is asked, and restarted if it does not answer; else it is only watched.
    probed: bool = True
    #: Why it is suspected to hang, or why it is sure that it does; "" = it is not.
    suspect: str = ""
    hung: str = ""
    #: Whether a request of ours waits for its answer now; when one was answered last (by the snapshot's clock; None =
    #: none was), what that took in seconds, and what was wrong with it ("" = nothing).
    asking: bool = False
    asked_at: float | None = None
    took: float = 0.0
    wrong: str = ""
    #: Requests in a row that its server failed, and how it failed the last one.
    faults: int = 0
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything the loop knows at the end of one pass. Times are monotonic seconds."""

    at: float
    applied: Applied
    world: World
    plan: Plan
    state: State
    #: Conditions of the manifest itself ("ManifestValid", "Ready" ...), and of each model by name.
    manifest_conditions: tuple[Condition, ...]
    model_conditions: Mapping[str, tuple[Condition, ...]]
    progress: Progress | None = None
    #: Diagnostics of a newer manifest that was refused, one rendered line each; empty = the newest is in force.
    refused: tuple[str, ...] = ()
    #: Identity of this run, for `status` and for telling two managers apart.
    pid: int = 0
    version: str = ""
    log_paths: Mapping[str, str] = field(default_factory=dict)
    #: Queues, gates and leases at the end of the pass; None = nobody keeps a book.
    traffic: Traffic | None = None
    #: What requests of each model need besides a model that takes them.
    admissions: Mapping[str, Admission] = field(default_factory=dict)
    #: Of each model whose state is to be kept.
    states: Mapping[str, SavedState] = field(default_factory=dict)
    prewarmed: PrewarmFigures = field(default_factory=PrewarmFigures)
    #: Of each model that is ready.
    health: Mapping[str, Health] = field(default_factory=dict)

    def sample(self, at: float) -> Sample:
        """Return what is kept of it for charts; `at` is in seconds since 1970."""
        return sample(self.plan.account, self.world.observation, at)


class Ask(Protocol):
    """Has a question answered from the ledger in a worker thread. Raises StoreError when it cannot be read."""

    async def __call__(self, question: "Callable[[Store], T]") -> T: ...


class Board:
    """The newest snapshot, what people may ask of the loop that is not about one model, and the way to the ledger."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self.snapshot: Snapshot | None = None
        #: How the memory was in this run.
        self.samples = Samples()
        self._wall = wall
        self._published = anyio.Event()
        #: Set by the loop's owner: has the loop look at the world soon. None = no loop turns.
        self.wake: Callable[[], None] | None = None
        #: Set by the loop's owner; called by POST /api/v1/stop, with what is to become of the models, if that is said.
        self.request_stop: Callable[[OnExit | None], None] = lambda on_exit: None
        #: Set by the loop's owner: whether the models stay when it ends.
        self.leaves: Callable[[], bool] = lambda: False
        #: Set by the loop's owner; called with a model's name by POST /api/v1/models/NAME/forget.
        self.forget: Callable[[str], None] = lambda model: None
        #: Set by the loop's owner; called by POST /api/v1/resume.
        self.resume: Callable[[], None] = lambda: None
        #: Set by the loop's owner: reads the ledger. None = there is none to read.
        self.ask: Ask | None = None
        #: Set by the loop's owner: has what came of the use until now written to the ledger.
        self.write_down: Callable[[], Awaitable[None]] | None = None
        #: No loop turns any more: whoever follows the events has seen the last.
        self.over = False
        #: What happened in this run; loop and gateway count on one event loop.
        self.counts = Counts()
        self._noted = anyio.Event()

    def noted(self) -> None:
        """Say that an event was written to the ledger."""
        self._noted.set()
        self._noted = anyio.Event()

    @property
    def news(self) -> anyio.Event:
        """What is set when the next event is written. To be taken before one looks, so that none is missed."""
        return self._noted

    def end(self) -> None:
        """Have those who follow the events read the last of them and leave."""
        self.over = True
        self.noted()

    def publish(self, snapshot: Snapshot) -> None:
        """Replace the snapshot; readers always see a whole one."""
        self.snapshot = snapshot
        self.samples.note(snapshot.sample(self._wall()), snapshot.world.observation.memory.total)
        self._published.set()
        self._published = anyio.Event()

    async def published(self) -> None:
        """Return when the next snapshot is there."""
        await self._published.wait()

    async def first(self, timeout: float) -> Snapshot | None:
        """Return the newest snapshot, waiting up to `timeout` seconds for the first one; None = there is none yet."""
        if self.snapshot is None:
            published = self._published
            with anyio.move_on_after(timeout):
                await published.wait()
        return self.snapshot

    async def fresh(self, timeout: float = 1.0) -> Snapshot | None:
        """Have the loop look, and return what it then publishes; after `timeout` seconds the newest there is.

        Between two turns of a calm loop lie seconds; whoever asks wants to know how it is now.
        """
        if self.wake is None or (self.snapshot is not None and isinstance(self.snapshot.state, Halted)):
            return self.snapshot  # nobody will look again
        published = self._published
        self.wake()
        with anyio.move_on_after(timeout):
            await published.wait()
        return self.snapshot

    def resolve(self, model_id: str) -> str | None:
        """Return the model that serves `model_id` (a name or an alias), or None if nobody does."""
        return self.snapshot.applied.routes.get(model_id) if self.snapshot else None
