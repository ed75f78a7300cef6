"""The shape of a simulation; `schemas/simulate.v1.json` is generated from it. Bytes are integers, durations seconds."""

from dataclasses import dataclass
from typing import Literal

from reconciler.render.advice_shapes import ChangeDocument
from reconciler.render.document import Document


@dataclass(frozen=True, slots=True)
class UnknownDocument(Document):
    """A name of the trace that no model of the manifests has."""

    name: str
    requests: int
    nearest: str | None
    """The name it is most like; null = it is like none."""


@dataclass(frozen=True, slots=True)
class TraceDocument(Document):
    """The requests that were replayed."""

    source: str
    """File they were read from, or `history`: those this machine served."""
    requests: int
    models: int
    """Different names of models in it."""
    clients: int
    timed: int
    """Requests of which the trace says how long they take; that of the others is worked out from the speeds."""
    began: float
    """Arrival of the first and of the last request, counted from a local midnight."""
    ended: float
    unknown: tuple[UnknownDocument, ...]
    """Requests for these were refused in every run; most requests first."""


@dataclass(frozen=True, slots=True)
class WaitsDocument(Document):
    """Requests, and how they waited."""

    requests: int
    served: int
    refused: dict[str, int]
    """Why, and how many."""
    cold: int
    """Requests that came while their model took none. One that can never be loaded is no part of it."""
    cold_share: float
    """The same as a share of all requests."""
    cold_seconds: float
    """What they waited until it did, together."""
    wait_seconds: float
    """From each arrival until it was let in at the model, together; also what was waited for a free place or a gate."""
    p50: float
    """Half of all that were let in waited no longer."""
    p95: float
    longest: float
    busy_seconds: float
    """What serving them took."""


@dataclass(frozen=True, slots=True)
class PrewarmsDocument(Document):
    """Loads that nobody waited for."""

    begun: int
    used: int
    """A request came for the model before it went again."""
    in_vain: int
    aborted: int
    """Broken off, since somebody came who needed another model."""
    precision: float | None
    """Used, as a share of those that were not broken off; null = there were none."""
    recall: float | None
    """Used, as a share of them and of the loads that somebody waited for; null = there was neither."""


@dataclass(frozen=True, slots=True)
class FigureDocument(Document):
    """A figure that a simulation reckons with."""

    value: float
    origin: Literal["stated", "measured", "assumed"]
    """Written in the description of the machine; measured on this machine with these settings; or worked out from the
    model's size."""


@dataclass(frozen=True, slots=True)
class SpeedDocument(Document):
    """How long things take with one model; the keys are those of `speeds` in the description of a machine."""

    load: FigureDocument
    """Seconds."""
    evict: FigureDocument
    prompt: FigureDocument
    """Tokens a second."""
    output: FigureDocument
    fixed: FigureDocument
    """Seconds of every request besides."""


@dataclass(frozen=True, slots=True)
class ModelRunDocument(Document):
    """One model in one run."""

    name: str
    size: int | None
    """Bytes it is charged once loaded; null = unknown."""
    speed: SpeedDocument | None
    waits: WaitsDocument
    loads: int
    load_seconds: float
    evictions: int
    regrets: int
    """Evictions after which it was wanted again within a minute."""
    prewarms: int
    resident_seconds: float
    resident_share: float
    """The same as a share of the simulated time."""


@dataclass(frozen=True, slots=True)
class ClientRunDocument(Document):
    """One client in one run."""

    name: str
    waits: WaitsDocument


@dataclass(frozen=True, slots=True)
class RivalsDocument(Document):
    """Two models that were used at once and can never stand together: no choice of a victim helps them."""

    models: tuple[str, str]
    swaps: int
    """How often one gave way to the other and was wanted again within ten minutes."""
    short: int
    """Bytes that are lacking beside the pinned models."""
    changes: tuple[ChangeDocument, ...]
    """Each of these alone would let them stand together, what asks least of people first; each was tried."""
    together: tuple[ChangeDocument, ...]
    """Less context of both, which only together is enough; where that of one alone is not."""
    text: str
    """For people."""


@dataclass(frozen=True, slots=True)
class NotLoadedDocument(Document):
    """A model that was asked for, or is pinned, and was never loaded: it could not be."""

    model: str
    requests: int
    """Requests for it; none of them was served."""
    reason: str
    """As in a plan: NotStartable, SizeUnknown, MemoryUnknown, NeverFits, InsufficientMemory."""
    detail: str
    """The same for people."""
    fix: str | None
    """What would have it loaded, for people; null = nothing that was tried, or `detail` says it."""


@dataclass(frozen=True, slots=True)
class AgainstDocument(Document):
    """Figures as multiples of the first run's; null = the first run's is zero."""

    cold_seconds: float | None
    cold: float | None
    p50: float | None
    p95: float | None
    longest: float | None
    loads: float | None
    load_seconds: float | None
    regrets: float | None


@dataclass(frozen=True, slots=True)
class RunDocument(Document):
    """One manifest, with one policy, on the trace."""

    name: str
    """What tells it from the other runs; of a single run, the manifest."""
    manifest: str
    policy: Literal["cost", "lru"]
    prewarm: Literal["off", "free", "full"]
    began: float
    """First and last second of the simulated time, which ends when the last request is done."""
    ended: float
    budget: int
    """Bytes that models could hold together, beside what else is in memory."""
    held_mean: float
    held_most: int
    waits: WaitsDocument
    loads: int
    """Loads that were finished."""
    load_seconds: float
    evict_seconds: float
    slot_share: float
    """Share of the time in which something was being loaded or evicted; there is one such action at a time."""
    evictions: dict[str, int]
    """By reason."""
    not_loaded: tuple[NotLoadedDocument, ...]
    """The command exits with 1 if there is any."""
    regrets: int
    """Evictions whose model was wanted again within a minute."""
    prewarms: PrewarmsDocument
    rivals: tuple[RivalsDocument, ...]
    """Those that swapped most first."""
    models: tuple[ModelRunDocument, ...]
    clients: tuple[ClientRunDocument, ...] | None
    """Null unless they were asked for."""
    against: AgainstDocument | None
    """Null for the first run."""


@dataclass(frozen=True, slots=True)
class SimulateDocument(Document):
    """What `reconcile simulate --json` prints."""

    trace: TraceDocument
    machine: str | None
    """The file that describes it; null = this machine."""
    runs: tuple[RunDocument, ...]
