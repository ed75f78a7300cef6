"""The nouns. Frozen, hashable, compared by value; bytes are `int`, seconds are `float`, tuples are sorted by name.

Times (`now`, `at`, `loaded_at` ...) are readings of one monotonic clock; wall time never enters a decision.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from reconciler.core.crashes import FailureKind
from reconciler.core.memory import Basis, Estimate, MappedFile, Memory, Said, Watermarks
from reconciler.core.pressure import Pressure


class Residency(StrEnum):
    """When a model is in memory. See docs/manifest.md."""

    PINNED = "pinned"
    WARM = "warm"
    ON_DEMAND = "on_demand"
    TRANSIENT = "transient"


class MayPreempt(StrEnum):
    """Whom a model may displace: nobody, lower priorities only, or its equals too."""

    NONE = "none"
    LOWER = "lower"
    EQUAL = "equal"


class Policy(StrEnum):
    """Who gives way among models that may: see docs/scheduling.md."""

    #: Whoever costs those least who will wait for it: seconds to load it again, by the chance that it is used soon.
    COST = "cost"
    #: Whoever was not used for the longest time.
    LRU = "lru"


class Prewarm(StrEnum):
    """Whether models are loaded that nobody waits for, because they will probably be used soon."""

    OFF = "off"
    #: Only into memory that is free, below the soft mark.
    FREE = "free"
    #: Also in place of models that are less likely to be used.
    FULL = "full"


class Reason(StrEnum):
    """Why a step is taken or a model is left as it is. Specific enough to stand alone in a log."""

    # load
    PINNED = "Pinned"
    WARM = "Warm"
    DEMANDED = "Demanded"
    REQUESTED = "Requested"
    PREWARM = "Prewarm"
    # evict
    MAKE_ROOM = "MakeRoom"
    LESS_LIKELY = "LessLikely"
    OVER_BUDGET = "OverBudget"
    DRIFTED = "Drifted"
    REMOVED = "Removed"
    DUPLICATE = "Duplicate"
    IDLE_EXPIRED = "IdleExpired"
    TRANSIENT_DONE = "TransientDone"
    RESTART_DUE = "RestartDue"
    DISMISSED = "Dismissed"
    CRASHED = "Crashed"
    HUNG = "Hung"
    SHUTDOWN = "Shutdown"
    # evict, and blocked
    MEMORY_PRESSURE = "MemoryPressure"
    # keep
    IN_USE = "InUse"
    RESIDENT = "Resident"
    LOADING = "Loading"
    # blocked or cold
    NOT_WANTED = "NotWanted"
    NO_ROOM = "NoRoom"
    NO_PORT = "NoPort"
    INSUFFICIENT_MEMORY = "InsufficientMemory"
    NEVER_FITS = "NeverFits"
    SIZE_UNKNOWN = "SizeUnknown"
    MEMORY_UNKNOWN = "MemoryUnknown"
    NOT_STARTABLE = "NotStartable"
    BACKING_OFF = "BackingOff"
    GIVEN_UP = "GivenUp"
    RESTING = "Resting"
    VICTIMS_BUSY = "VictimsBusy"
    VICTIMS_KEPT = "VictimsKept"
    VICTIM_STOPPING = "VictimStopping"
    OUTRANKED = "Outranked"


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """What the manifest wants of one model, as far as deciding needs it."""

    name: str
    #: Launch digest: differs from a running instance's digest = that process must be replaced.
    digest: str
    priority: int = 500
    residency: Residency = Residency.ON_DEMAND
    #: Bytes held once loaded, when the manifest states them; None = ask the engine (`Preflight.steady`).
    steady: int | None = None
    #: Bytes needed while loading, when the manifest states them; None = as steady.
    peak: int | None = None
    #: Seconds without a request after which the model is unloaded; None = never.
    idle_ttl: float | None = None
    #: Seconds a freshly loaded model is safe from being displaced.
    min_resident: float = 0.0
    #: The same for one that is loaded again after it was displaced.
    cooldown: float = 0.0
    may_preempt: MayPreempt = MayPreempt.EQUAL
    #: Seconds its requests wait at most until a busy model is drained for them; see `core.patience`.
    patience: float = 60.0
    #: Seconds: a load without a sign of life is given up, a drain is cut (infinite = never), TERM becomes KILL.
    load_timeout: float = 120.0
    drain_timeout: float = 120.0
    stop_grace: float = 10.0
    #: Seconds after an unload during which its requests wait in line instead of starting a load.
    reload_after: float = 0.0
    #: Whether its engine can give memory back without ending, and the manifest wants it to be tried.
    sleeps: bool = False
    #: When it is replaced by a fresh process, once it is idle: seconds since its load, requests served since, and
    #: bytes above what it held when it was ready; None = never for that.
    restart_after: float | None = None
    restart_requests: int | None = None
    restart_growth: int | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """The desired state: all models, sorted by name, and the memory they may use together."""

    models: tuple[ModelSpec, ...]
    #: Count of changes of the normalised content; comments and order do not count.
    generation: int = 0
    #: Upper bound on the machine's memory in bytes; None = what the machine and its limits offer.
    memory: int | None = None
    #: Kept for the system: a fraction of the memory (float) or bytes (int).
    reserve: float | int = 0.1
    #: None = use of the whole machine is not watched.
    watermarks: Watermarks | None = None
    #: Bytes of swap in use above which a model is evicted while the machine swaps; None = never for that.
    max_swap: int | None = None
    #: Who gives way among those that may.
    policy: Policy = Policy.COST
    #: Whether models are loaded before anybody asks, and how many in an hour at most.
    prewarm: Prewarm = Prewarm.FREE
    prewarm_per_hour: int = 20

    def __post_init__(self) -> None:
        names = [m.name for m in self.models]
        if names != sorted(set(names)):
            raise ValueError("models must be sorted by name, each name once")


@dataclass(frozen=True, slots=True)
class Instance:
    """One process (tree) of ours that serves, or is about to serve, a model."""

    model: str
    digest: str
    pid: int
    #: Start time of the pid in clock ticks since boot; with the pid it names the process for good.
    started: int
    port: int
    ready: bool
    #: Bytes nobody but this process tree can give back (anonymous, shared, swapped, locked); None = unknown.
    committed: int | None
    #: Bytes of mapped weights resident now; droppable by the kernel, needed to run at speed; None = unknown.
    warm: int | None
    #: When it became ready (or was adopted), and when its last request ended; monotonic seconds.
    loaded_at: float
    last_used: float
    #: Requests served since it was loaded, woken or adopted.
    served: int = 0
    #: Requests its process served before that, and when it was begun (monotonic; None = when it was loaded).
    served_before: int = 0
    began: float | None = None
    #: Its main process died or could not be stopped: what is left only waits to be cleared away.
    broken: bool = False
    #: Bytes it was let in at; 0 = not known. What it is charged when no spec in force tells its size.
    admitted: int = 0
    #: The mapped files that `warm` is made of.
    files: tuple[MappedFile, ...] = ()
    #: Of `committed`: what drivers hold for it, which is in no process.
    device: int = 0
    #: How `warm` is known, and when it was read.
    warm_basis: Basis = Basis.MEASURED
    warm_at: float | None = None
    #: Most bytes committed so far, where the system itself remembers it.
    most: int | None = None
    #: It gave back what it could and serves nobody until it is woken; `ready` is then False.
    asleep: bool = False
    #: Fingerprint of the weights it was started with; "" = not known.
    weights: str = ""
    #: Bytes committed when it became ready; None = not known.
    committed_at_ready: int | None = None
    #: These settings were asked to sleep in this run, and gave nothing back: they are not asked again.
    sleepless: bool = False
    #: It was displaced before, in this run, and is here again.
    returned: bool = False
    #: Why it is suspected to hang, and why it is sure that it does, in words for people; "" = it is not.
    suspect: str = ""
    hung: str = ""
    #: The cause of the suspicion, in one word.
    suspected_for: str = ""


@dataclass(frozen=True, slots=True)
class Demand:
    """What clients and people want of one model right now. Level, not edge: a snapshot, never an event."""

    model: str
    #: Requests being served (leases held on the running process).
    active: int = 0
    #: Requests waiting for the model to be loaded.
    waiting: int = 0
    #: Arrival of the longest-waiting request, monotonic seconds; None if nobody waits.
    oldest: float | None = None
    #: A person asked for a load (`reconcile load`); stays until it is ready.
    wanted: bool = False
    #: A person asked for it to go (`reconcile evict`); stays until somebody asks for the model again.
    dismissed: bool = False
    #: Requests that wait although the model takes requests: for a gate, or for one of its own places.
    gated: int = 0
    #: Of each request that had the model and comes back to it, the model that first writes a summary for it; sorted.
    #: It keeps nothing that somebody else needs: that model may be the one that needs it.
    away: tuple[str, ...] = ()
    #: Leases held from outside (`reconcile hold`) that are in force; not among `active`.
    held: int = 0
    #: When it last stopped taking requests because its process went, monotonic seconds; None = not in this run.
    closed: float | None = None
    #: A drain for this reason was called off a moment ago, and is not begun again yet; None = no such thing.
    spared: Reason | None = None
    #: A busy model is being drained for it: its requests need not wait for that again.
    drains: bool = False
    #: Jobs its engine says it works on, whoever asked for them: a request may have ended long before its work does.
    jobs: int = 0
    #: When a person last asked for the load that is `wanted`, monotonic seconds; None = not known.
    wished: float | None = None

    @property
    def in_use(self) -> bool:
        """Whether somebody is served, is let wait at its door, or holds it: it is not to be stopped under them."""
        return self.active > 0 or self.gated > 0 or self.held > 0 or self.jobs > 0


@dataclass(frozen=True, slots=True)
class Preflight:
    """What the files and the engine say about starting a model, without starting it."""

    model: str
    #: Why it cannot be started now (CamelCase reason, sentence), or None.
    reason: str | None = None
    message: str = ""
    #: Estimated bytes once loaded and while loading; None = unknown, then the manifest must say.
    steady: int | None = None
    peak: int | None = None
    #: What the estimate is made of, for people and for correcting it by what the engine says.
    parts: Estimate | None = None
    #: Files it will map: what another model already holds of them is not needed again.
    files: tuple[MappedFile, ...] = ()
    #: Tokens of context of all slots together that the engine is asked for; None = its own choice.
    context_tokens: int | None = None
    #: Which build of the engine would be started: figures measured with another one do not count.
    build: str = ""
    #: Fingerprint of the weights as they are now; "" = there are none, or they cannot be read, or are being written.
    weights: str = ""
    #: Things worth saying that hinder nothing: an engine version nobody tried, a quantisation too coarse for the role.
    notes: tuple[str, ...] = ()
    #: The engine rounds its context up to a multiple of so many tokens, all slots together; 0 = not known that it does.
    context_step: int = 0
    #: Bytes that one such step less of it frees at least.
    context_step_bytes: int = 0
    #: While no port is free for it: models of ours that hold those it could have, one of which has to go before it can
    #: be started, and who holds them, for people.
    ports_of: tuple[str, ...] = ()
    ports_held: str = ""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """What is remembered of one exact launch (model + digest), also while it is not running."""

    model: str
    digest: str
    #: Highest bytes measured (committed + warm) since this launch is known; 0 = never measured.
    peak: int = 0
    #: Failures in a row; `retry_at` (monotonic) is when the next try is due.
    failures: int = 0
    retry_at: float | None = None
    last_error: str = ""
    #: Seconds the last load took from start to ready; None = never loaded.
    load_seconds: float | None = None
    #: The engine build `peak` and `said` belong to; "" = not known.
    build: str = ""
    #: What the engine's log said it took; None = nothing.
    said: Said | None = None
    #: Fingerprint of the weights `peak` and `said` belong to; "" = not known.
    weights: str = ""
    #: Why it failed last; None = never, or not known.
    kind: FailureKind | None = None
    #: Bytes it is charged at least, for it ran out of memory with less, and (monotonic) until when; 0 = it did not.
    raised: int = 0
    raised_until: float | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """One look at the machine. `seq` grows by one each look."""

    seq: int
    at: float
    memory: Memory
    instances: tuple[Instance, ...] = ()
    demands: tuple[Demand, ...] = ()
    preflights: tuple[Preflight, ...] = ()
    pressure: Pressure = field(default_factory=Pressure)
    #: Least bytes in use that nobody owned up to, of all looks so far; see `core.account`.
    least_unattributed: int | None = None


@dataclass(frozen=True, slots=True)
class Chance:
    """How soon one model is expected to be used again, from what is known of its use (`core.habits`)."""

    model: str
    #: Mean of exp(-t / 900 s) over the time t until its next use: 1 = at once, 0 = never.
    returns: float
    #: How many wait together when it has to be loaded; who comes late counts for less.
    waiters: float = 1.0


@dataclass(frozen=True, slots=True)
class Prewarms:
    """What was loaded before anybody asked, as far as the next decision needs it. Times are monotonic seconds."""

    #: When each was begun in the last hour, sorted.
    begun: tuple[float, ...] = ()
    #: Models not loaded in advance before then, because it was in vain; sorted by name.
    until: tuple[tuple[str, float], ...] = ()
    #: How often in a row that was so; sorted by name.
    vain: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Swap:
    """One model that lately made room for another (`core.swaps`)."""

    victim: str
    for_model: str
    #: Monotonic seconds.
    at: float


@dataclass(frozen=True, slots=True)
class World:
    """Everything a decision may look at besides the manifest and the time."""

    observation: Observation
    ledger: tuple[LedgerEntry, ...] = ()
    #: Of each model of which something is known, sorted by name.
    chances: tuple[Chance, ...] = ()
    prewarms: Prewarms = field(default_factory=Prewarms)
    #: Who made room for whom lately, in order of time: the model the last one went for comes first, and advice asks.
    swaps: tuple[Swap, ...] = ()


class Outcome(StrEnum):
    """What the plan says of a model. The value is the symbol that people see."""

    LOAD = "+"
    EVICT = "-"
    RELOAD = "-/+"
    KEEP = "="
    BLOCKED = "!"
    COLD = "."


@dataclass(frozen=True, slots=True)
class Load:
    """Start a model, or wake it. `needs` bytes are reserved until it is ready."""

    model: str
    digest: str
    needs: int
    reason: Reason
    detail: str = ""
    #: Planned free bytes after this step.
    free: int = 0
    #: Bytes it is charged once it is loaded.
    size: int = 0
    #: The process that is woken for it, and the bytes that one holds already; None = a new one is started.
    pid: int | None = None
    started: int | None = None
    holds: int = 0


@dataclass(frozen=True, slots=True)
class Evict:
    """Stop one process, named by (pid, started)."""

    model: str
    pid: int
    started: int
    frees: int
    reason: Reason
    #: For MakeRoom: the model that displaced it.
    for_model: str | None = None
    #: It has requests in flight: they get until the drain deadline.
    drain: bool = False
    #: It is asked to give its memory back and keep its process; should that free nothing, it is stopped.
    sleep: bool = False
    #: When its last request ended, as the plan saw it.
    last_used: float = 0.0
    detail: str = ""
    free: int = 0


Step = Load | Evict


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of one model and why. Every model of the manifest and of the observation has one."""

    model: str
    outcome: Outcome
    reason: Reason
    #: Bytes it holds or would need; None = unknown.
    size: int | None = None
    detail: str = ""
    #: Seconds from now until a blocked model is tried again by itself; None = when something changes.
    retry_in: float | None = None


@dataclass(frozen=True, slots=True)
class Account:
    """The memory line of a plan, in bytes. None = unknown."""

    #: What models may hold together.
    budget: int | None = None
    #: What loaded models are charged.
    held: int | None = None
    #: What a load in progress has reserved.
    reserved: int = 0
    #: What could be loaded now without evicting anyone (never more than `budget - held - reserved`).
    free: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Ordered steps, of which only the head is ever performed, and a verdict for every model."""

    #: Generation and observation this plan was made from.
    generation: int
    seq: int
    account: Account
    steps: tuple[Step, ...] = ()
    verdicts: tuple[Verdict, ...] = field(default=())
    #: The earliest future time at which the same world may be planned differently; None = never.
    changes_at: float | None = None

    @property
    def head(self) -> Step | None:
        """The only step that may be performed before the world is observed again."""
        return self.steps[0] if self.steps else None

    def verdict(self, model: str) -> Verdict | None:
        """The verdict of one model, or None if nobody knows it."""
        return next((v for v in self.verdicts if v.model == model), None)
