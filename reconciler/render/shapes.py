"""The shapes of the JSON documents the program prints; `schemas/*.json` are generated from them.

Bytes are integers, durations are seconds, null means unknown or absent. No argv, environment or key appears.
"""

from dataclasses import dataclass
from typing import Final, Literal

from reconciler.render.advice_shapes import HintDocument
from reconciler.render.document import Document as Document
from reconciler.render.memory_shapes import (
    BreakdownDocument,
    MarksDocument,
    ModelMemoryDocument,
    PressureDocument,
)
from reconciler.render.prewarm_shapes import ModelPrewarmDocument, PrewarmDocument
from reconciler.render.traffic_shapes import GateDocument, LeaseDocument, QueueDocument, RequestsDocument
from reconciler.render.verdict_shapes import OutcomeName as OutcomeName
from reconciler.render.verdict_shapes import VerdictDocument

#: Grows only when a reader of the old shape would be misled; added fields keep it.
FORMAT_VERSION: Final = 1

ModelState = Literal["ready", "loading", "evicting", "asleep", "cold", "failing", "blocked"]
Doing = Literal["loading", "draining", "saving", "stopping", "settling"]


@dataclass(frozen=True, slots=True)
class GitDocument(Document):
    """The repository the manifest lies in."""

    commit: str
    """Short commit the files belong to."""
    dirty: bool
    """The files differ from that commit."""


@dataclass(frozen=True, slots=True)
class OriginDocument(Document):
    """The manifest a plan was made for."""

    path: str
    """Directory or file it was read from."""
    generation: int
    """Count of changes of its content; comments and order do not count."""
    git: GitDocument | None


@dataclass(frozen=True, slots=True)
class AccountDocument(Document):
    """The memory account, in bytes."""

    budget: int | None
    """What models may hold together."""
    held: int | None
    """What loaded models are charged."""
    reserved: int
    """What a load in progress has reserved."""
    free: int | None
    """What could be loaded now without evicting anyone."""


@dataclass(frozen=True, slots=True)
class StepDocument(Document):
    """One step of a plan. Only the first is performed before the world is observed again."""

    number: int
    """Place in the plan, from 1."""
    action: Literal["load", "evict"]
    model: str
    bytes: int
    """Bytes reserved by a load, or expected back from an evict."""
    free: int
    """Planned free bytes after this step."""
    reason: str
    for_model: str | None
    """The model that is to have the room."""
    detail: str
    """The reason in numbers; for people."""
    drain: bool
    """Requests are in flight: they get until the drain deadline."""
    sleeps: bool
    """It is asked to give its memory back and keep its process; should that free nothing, it is stopped."""
    pid: int | None
    """The process an evict is about, or that a load wakes; null where a load starts a new one."""


@dataclass(frozen=True, slots=True)
class SummaryDocument(Document):
    """How many models have each outcome."""

    load: int
    evict: int
    reload: int
    keep: int
    blocked: int
    cold: int


@dataclass(frozen=True, slots=True)
class PlanDocument(Document):
    """What `reconcile --dry-run --json` prints and GET /api/v1/plan answers."""

    manifest: OriginDocument
    observation: int
    """Number of the look at the machine that this plan is made from."""
    account: AccountDocument
    steps: tuple[StepDocument, ...]
    verdicts: tuple[VerdictDocument, ...]
    summary: SummaryDocument
    changes: bool
    """There is at least one step."""
    advice: tuple[HintDocument, ...]
    """What would help those that wait in vain, or take turns; three at most."""


@dataclass(frozen=True, slots=True)
class ConditionDocument(Document):
    """One statement about the manifest or a model."""

    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str
    generation: int
    """Generation of the manifest it was derived from."""
    age: float
    """Seconds since `status` last changed."""


@dataclass(frozen=True, slots=True)
class ManifestDocument(Document):
    """The manifest in force, and what is wrong with a newer one."""

    path: str
    """Directory or file it was read from."""
    files: tuple[str, ...]
    generation: int
    """Count of changes of its content; comments and order do not count."""
    digest: str
    git: GitDocument | None
    valid: bool
    """False: the newest text was refused and this older one is in force."""
    refused: tuple[str, ...]
    """Diagnostics of the newest text, `file:line:col` first; empty when it is in force."""
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MemoryDocument(Document):
    """The memory account and what was read of the machine, in bytes."""

    budget: int | None
    """What models may hold together."""
    held: int | None
    """What loaded models are charged."""
    reserved: int
    """What a load in progress has reserved."""
    free: int | None
    """What could be loaded now without evicting anyone."""
    total: int | None
    """Of the machine or the tightest limit above this program."""
    available: int | None
    """What the system says could be used now."""
    source: str
    """Where the readings come from, or why they are missing."""
    age: float
    """Seconds since all this was read."""
    swap_used: int | None
    gpu_ceiling: int | None
    """Most of the memory that a GPU sharing it may use, where there is such a limit."""
    breakdown: BreakdownDocument | None
    """Who holds the memory; null where the system does not say enough."""
    pressure: PressureDocument
    reserve: int | None
    """Kept for the system."""
    marks: MarksDocument | None
    """Null for a manifest without watermarks."""


@dataclass(frozen=True, slots=True)
class ActionDocument(Document):
    """The one action in flight."""

    doing: Doing
    model: str
    elapsed: float
    """Seconds since it began."""
    expected: float | None
    """Seconds it is expected to take, from earlier loads."""
    deadline_in: float | None
    """Seconds until it is given up or forced; null when it never is."""


@dataclass(frozen=True, slots=True)
class SavedStateDocument(Document):
    """What is kept of a model's conversations while it is not in memory."""

    tokens: int | None
    """Tokens of context in it; null if nothing is kept, or it is not counted in tokens."""
    bytes: int
    """On disk; 0 = nothing is kept."""
    age: float | None
    """Seconds since it was saved; null if nothing is kept."""
    note: str
    """What became of it last: saved, restored, or why not."""


@dataclass(frozen=True, slots=True)
class HealthDocument(Document):
    """Whether a model that is ready still answers."""

    liveness: Literal["auto", "off"]
    """Whether it is asked when it may hang, and restarted when it does; or only watched."""
    suspect: str
    """Why it may hang; empty when nothing is suspected."""
    hung: str
    """Why it is sure that it hangs; empty when it is not."""
    faults: int
    """Requests in a row that its server failed."""
    fault: str
    """How it failed the last one."""
    probing: bool
    """A small request of reconcile's own waits for its answer."""
    probed: float | None
    """Seconds since such a request was last answered; null if there was none."""
    probe_seconds: float | None
    """Seconds that answer took."""
    probe_error: str
    """What was wrong with it; empty when it was right."""


@dataclass(frozen=True, slots=True)
class ModelDocument(Document):
    """One model: what it is, what it holds, and why it is as it is."""

    name: str
    state: ModelState
    residency: str | None
    """Null for a model the manifest no longer names."""
    priority: int | None
    aliases: tuple[str, ...]
    role: str | None
    engine: str | None
    pid: int | None
    port: int | None
    held: int | None
    """Bytes in memory now, mapped weights included; 0 when not loaded."""
    warm: int | None
    """Of these, mapped weights, which the system may drop and read again."""
    size: int | None
    """Bytes it is charged, or would need."""
    memory: ModelMemoryDocument
    active: int
    """Requests being served."""
    waiting: int
    """Requests, and leases from outside, waiting for it to be loaded."""
    gated: int
    """Requests waiting although it is loaded: for a gate, or for one of its own places."""
    jobs: int
    """Jobs its engine works on, or has in line; 0 for engines that answer when they are done."""
    leases: int
    """Leases from outside the gateway that keep it in memory."""
    queue: QueueDocument | None
    """Null for a model the manifest no longer names."""
    wanted: bool
    """A person asked for a load that is not done yet."""
    dismissed: bool
    """A person asked for it to go, and nobody has asked for it since."""
    oldest_wait: float | None
    """Seconds the longest-waiting request waits."""
    idle: float | None
    """Seconds since its last request ended; null when not loaded."""
    served: int
    """Requests served since it was loaded."""
    verdict: VerdictDocument | None
    conditions: tuple[ConditionDocument, ...]
    notes: tuple[str, ...]
    """What is worth knowing of its settings here and hinders nothing, one sentence each."""
    load_seconds: float | None
    """Seconds its last load took."""
    failures: int
    """Failed starts in a row."""
    failure: str | None
    """What kind of failure the last one was, like `OutOfMemory`; null if there was none."""
    last_error: str
    retry_in: float | None
    """Seconds until it is tried again after a failure."""
    log: str | None
    """Path of its log file."""
    saved: SavedStateDocument | None
    """Null for a model whose state is not to be kept."""
    prewarm: ModelPrewarmDocument | None
    """Null for a model that was never loaded in advance."""
    health: HealthDocument | None
    """Null for a model that is not ready."""


@dataclass(frozen=True, slots=True)
class VirtualDocument(Document):
    """A name behind which several models stand: clients may ask for it, and a rule chooses."""

    name: str
    models: tuple[str, ...]
    """In the order of its rules."""


@dataclass(frozen=True, slots=True)
class StatusDocument(Document):
    """What `reconcile status --json` prints and GET /api/v1/status answers."""

    version: str
    """Version of the running program."""
    pid: int
    url: str
    """Where clients connect."""
    halted: str | None
    """Why the loop begins nothing more, or null while it runs."""
    observation: int
    """Number of the look at the machine that this document is made from."""
    manifest: ManifestDocument
    memory: MemoryDocument
    action: ActionDocument | None
    conditions: tuple[ConditionDocument, ...]
    """Of the manifest as a whole."""
    models: tuple[ModelDocument, ...]
    """Sorted by name."""
    virtual: tuple[VirtualDocument, ...]
    """Sorted by name."""
    gates: tuple[GateDocument, ...]
    """Sorted by name."""
    leases: tuple[LeaseDocument, ...]
    """Leases from outside the gateway, in order of their beginning; those that ended lately among them."""
    advice: tuple[HintDocument, ...]
    """What would help those that wait in vain, or take turns; three at most."""
    requests: RequestsDocument
    policy: Literal["cost", "lru"]
    """Who gives way among models that may."""
    prewarm: PrewarmDocument
