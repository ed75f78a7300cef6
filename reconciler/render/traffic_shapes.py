"""The parts of a document that tell who waits for what: queues, gates, leases. Durations are seconds."""

from dataclasses import dataclass
from typing import Literal

from reconciler.render.document import Document


@dataclass(frozen=True, slots=True)
class NextDocument(Document):
    """The request that is served next."""

    owner: str
    priority: int
    waits: float
    """Seconds since it came."""
    waits_for: str
    """`load`, `gate NAME`, or `place`: one of the requests that are being served has to end."""


@dataclass(frozen=True, slots=True)
class QueueDocument(Document):
    """Who may wait for a model, and how many it serves at once."""

    max: int
    """Requests that may wait."""
    timeout: float
    """Seconds each may wait."""
    concurrency: int | None
    """Requests served at once; null = any number."""
    gates: tuple[str, ...]
    """Gates its requests pass."""
    quiet: int
    """Connections that keep nothing: idle WebSockets, reads of its own paths."""
    oldest_place: int
    """Place of the request that waits longest, 1 = next; 0 when nobody waits."""
    next: NextDocument | None


@dataclass(frozen=True, slots=True)
class GateDocument(Document):
    """A gate: so many of the models that pass it compute at once."""

    name: str
    limit: int
    inside: tuple[str, ...]
    """Models that compute now."""
    waiting: int
    """Requests that wait for it."""


@dataclass(frozen=True, slots=True)
class LeaseDocument(Document):
    """A lease from outside the gateway."""

    id: str
    model: str
    owner: str
    state: Literal["waiting", "held", "ended"]
    ends_in: float
    """Seconds until it ends by itself."""
    reason: str
    """Why it was ended by somebody else than its owner."""


@dataclass(frozen=True, slots=True)
class RequestsDocument(Document):
    """Counts of this run; their difference is what is being served."""

    granted: int
    ended: int
