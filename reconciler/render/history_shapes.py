"""The shapes of what was: events, single requests, and each model's history. Times are seconds since 1970 (`at`,
`since`, `until`), durations seconds, bytes integers, null = unknown; `schemas/` is generated from them.
"""

from dataclasses import dataclass

from reconciler.render.document import Document


@dataclass(frozen=True, slots=True)
class EventDocument(Document):
    """One thing that happened."""

    id: int
    """Grows from one to the next; not all are there, and none comes twice."""
    at: float
    kind: str
    """Like `load`, `loaded`, `evict`, `evicted`, `load-failed`, `crashed`, `manifest`."""
    model: str | None
    """Null for what is about no single model."""
    reason: str
    message: str
    """For people."""


@dataclass(frozen=True, slots=True)
class EventsDocument(Document):
    """What `reconcile events --json` prints and GET /api/v1/events answers; a stream has one event each in its data."""

    events: tuple[EventDocument, ...]
    """Oldest first."""
    last: int
    """Asked for with `after` next time, it leads on."""
    more: bool
    """There are later ones that match."""


@dataclass(frozen=True, slots=True)
class RequestDocument(Document):
    """One request that has ended."""

    id: int
    at: float
    """When it came."""
    model: str
    client: str
    """Name of its API key, or what else is known of who asked; never a key."""
    waited: float
    """From its arrival until it was served."""
    cold: float
    """Of that, while its model took no requests."""
    seconds: float
    """It was served so long; 0 = never."""
    prompt_tokens: int | None
    output_tokens: int | None
    outcome: str
    """`ok`, `failed`, `cut`, `left` (its client went while it waited), or `refused:CODE`."""


@dataclass(frozen=True, slots=True)
class RequestListDocument(Document):
    """What GET /api/v1/requests answers."""

    requests: tuple[RequestDocument, ...]
    """In the order in which they ended."""
    last: int
    """Asked for with `after` next time, it leads on."""
    more: bool
    """There are later ones that match."""


@dataclass(frozen=True, slots=True)
class StartsDocument(Document):
    """Loads that started a process and made it ready, and what they took."""

    count: int
    last: float | None
    """Seconds the newest took."""
    median: float | None
    p95: float | None
    seconds: float
    """All of them together."""
    peak: int | None
    """Most bytes any of them is known to have held."""


@dataclass(frozen=True, slots=True)
class DigestDocument(Document):
    """Starts with the same settings."""

    digest: str
    """Launch digest: changes with the settings the process is started with."""
    last_at: float
    starts: StartsDocument


@dataclass(frozen=True, slots=True)
class LoadDocument(Document):
    """One load."""

    at: float
    """When it was begun."""
    digest: str
    reason: str
    seconds: float
    peak: int | None
    outcome: str
    """`ready`, `failed` or `given-up`."""
    waiting: int
    """Requests that waited for it when it was begun."""
    kind: str
    """`load` for a new process, `wake` for one that slept."""
    error: str
    failure: str | None
    """What kind of failure it was, like `OutOfMemory`; null if it was none, or that is not known."""


@dataclass(frozen=True, slots=True)
class LoadsDocument(Document):
    """The loads of one model."""

    starts: StartsDocument
    digests: tuple[DigestDocument, ...]
    """The one that was used last comes first."""
    wakes: int
    """Processes that slept and were woken."""
    failed: int
    given_up: int
    newest: tuple[LoadDocument, ...]
    """Oldest first; 20 at most."""


@dataclass(frozen=True, slots=True)
class EvictionDocument(Document):
    """One eviction."""

    at: float
    """When it was begun."""
    reason: str
    for_model: str | None
    """The model it made room for."""
    frees: int
    """Bytes it was to give back."""
    used: float | None
    """Share of the machine's memory in use when it was begun."""
    pressure: str
    """Level of the pressure then."""
    seconds: float
    """It took so long."""
    resident: float
    """Seconds the model had been in memory."""
    idle: float
    """Seconds nobody had used it."""
    wanted_after: float | None
    """Seconds from its begin until the model was wanted again; null = it was not."""
    regretted: bool
    """Nobody had asked for it, and the model was wanted again within `regret` seconds."""
    outcome: str
    """`gone`, `asleep` (its process stays) or `given-up`."""


@dataclass(frozen=True, slots=True)
class ReasonDocument(Document):
    """Evictions for the same reason."""

    reason: str
    count: int
    regretted: int


@dataclass(frozen=True, slots=True)
class EvictionsDocument(Document):
    """The evictions of one model."""

    count: int
    """Those that were not given up."""
    regretted: int
    given_up: int
    reasons: tuple[ReasonDocument, ...]
    """The most frequent first."""
    newest: tuple[EvictionDocument, ...]
    """Oldest first; 50 at most."""


@dataclass(frozen=True, slots=True)
class PrewarmsDocument(Document):
    """Loads nobody had asked for yet."""

    count: int
    """Those that made the model ready."""
    used: int
    """Somebody used the model before it was evicted again."""
    in_vain: int
    """Nobody did."""
    undecided: int
    """Nobody has so far, and it is still there."""
    aborted: int
    """Given up or failed."""
    precision: float | None
    """Used, as a share of those used and those in vain."""
    recall: float | None
    """Used, as a share of these and the loads somebody waited for."""
    spared: float
    """Seconds of loading of those that were used: nobody waited for them."""


@dataclass(frozen=True, slots=True)
class HourDocument(Document):
    """Requests that came in one hour of the day, by local time, of all days."""

    hour: int
    requests: int
    cold: int


@dataclass(frozen=True, slots=True)
class ArrivalsDocument(Document):
    """The requests for one model."""

    requests: int
    cold: int
    """Those that came while the model took no requests."""
    cold_seconds: float
    """What these waited for it, together."""
    median: float | None
    """Of the cold waits among the single requests that are kept."""
    p95: float | None
    longest: float | None
    hours: tuple[HourDocument, ...]
    """All 24, from midnight."""


@dataclass(frozen=True, slots=True)
class ModelHistoryDocument(Document):
    """The history of one model."""

    model: str
    loads: LoadsDocument
    evictions: EvictionsDocument
    prewarms: PrewarmsDocument
    arrivals: ArrivalsDocument


@dataclass(frozen=True, slots=True)
class HistoryDocument(Document):
    """What `reconcile history --json` prints and GET /api/v1/history answers."""

    since: float
    until: float
    regret: float
    """An eviction for room or memory is regretted if its model is wanted again within so many seconds."""
    models: tuple[ModelHistoryDocument, ...]
    """Sorted by name; those of which nothing is kept are missing."""
