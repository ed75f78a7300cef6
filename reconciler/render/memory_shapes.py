"""The parts of a document that tell who holds memory. All bytes; null = unknown, which is never the same as 0."""

from dataclasses import dataclass
from typing import Literal

from reconciler.render.document import Document

LevelName = Literal["calm", "soft", "hard", "critical"]
BasisName = Literal["measured", "estimated", "stale"]


@dataclass(frozen=True, slots=True)
class BreakdownDocument(Document):
    """The machine's memory in use, by who holds it. Mapped weights count as available: the system may drop them."""

    total: int
    available: int
    models: int
    """Held by our models, drivers' pages for them included."""
    warm: int
    """Mapped weights of our models, each file once; part of `available`."""
    others: int
    """Held by all other programs."""
    kernel: int
    pools: int
    """Set aside as huge pages."""
    unattributed: int
    """In use and owned up to by nobody: GPU drivers, balloons."""


@dataclass(frozen=True, slots=True)
class PressureDocument(Document):
    """Whether the machine is short of memory, judged over some seconds."""

    level: LevelName
    used: float | None
    """Mean share of the memory in use (0-1), mapped weights of our models included."""
    relieving: bool
    """Models are being evicted until use is below the target."""
    cause: str


@dataclass(frozen=True, slots=True)
class MarksDocument(Document):
    """The watermarks: shares of the machine's memory in use (0-1)."""

    soft: float
    """Above it only what somebody waits for is loaded."""
    hard: float
    """Above it models are evicted, and no load may lead there."""
    critical: float
    """Above it models in use are evicted too."""
    target: float
    """Below it evicting for the hard mark ends."""


@dataclass(frozen=True, slots=True)
class EstimateDocument(Document):
    """What a model will hold, by kind, before it is loaded."""

    weights: int | None
    context: int | None
    """KV cache and recurrent state of all slots at full length."""
    compute: int | None
    cache: int
    """Prompt cache it may grow to."""
    overhead: int
    loading: int
    """On top while it loads."""
    steady: int | None
    peak: int | None


@dataclass(frozen=True, slots=True)
class SaidDocument(Document):
    """What the engine's own log says the model took."""

    weights: int | None
    context: int | None
    compute: int | None
    context_tokens: int | None


@dataclass(frozen=True, slots=True)
class ModelMemoryDocument(Document):
    """One model's part of the account."""

    committed: int | None
    """Measured: only its processes can give these bytes back. 0 when not loaded."""
    warm: int | None
    """Resident mapped weights, which the system may drop and read again."""
    warm_basis: BasisName
    warm_age: float | None
    """Seconds since `warm` was read."""
    device: int
    """Of `committed`: held by drivers for it."""
    releasable: int | None
    """What would come back if it went: a file that another model maps too stays."""
    reserved: int
    """What it is promised and does not hold yet."""
    peak: int
    """Most it was ever measured to hold with these settings and this build of its engine; 0 = never measured."""
    estimate: EstimateDocument | None
    said: SaidDocument | None
