"""The shape of a measurement; `schemas/measure.v1.json` is generated from it. Bytes are integers, null = unknown."""

from dataclasses import dataclass
from typing import Literal

from reconciler.render.shapes import Document


@dataclass(frozen=True, slots=True)
class ComparisonDocument(Document):
    """One kind of memory: what was estimated before, and what it really took."""

    kind: Literal["weights", "context", "compute", "steady", "peak"]
    """`steady` and `peak` are of the whole model; the others are parts of it."""
    estimated: int | None
    measured: int | None
    source: Literal["processes", "engine"]
    """Who says what it took: its processes, or the engine in its log."""
    off: int | None
    """Measured less estimated."""
    off_share: float | None
    """The same as a share of the estimate."""


@dataclass(frozen=True, slots=True)
class SuggestionDocument(Document):
    """What the manifest should say: measured, or what the engine says if that is more, and a fifth, rounded up."""

    steady: str | None
    """For `memory.steady`; null = nothing was measured."""
    peak: str | None
    """For `memory.peak`; null = loading takes no more than `steady`."""
    basis: Literal["measured", "engine"]
    """What a fifth was added to: what was measured, or the sum of what the engine says it set up."""


@dataclass(frozen=True, slots=True)
class WrittenDocument(Document):
    """What was changed in the manifest."""

    file: str
    diff: str
    """As a unified diff; empty if it said so before."""


@dataclass(frozen=True, slots=True)
class MeasureDocument(Document):
    """What `reconcile measure --json` prints."""

    model: str
    by: Literal["loop", "own"]
    """Who loaded it: the running loop, or one of our own for this measurement."""
    seconds: float
    """How long it was watched once it was ready."""
    load_seconds: float | None
    """What loading took; null when it was loaded before."""
    comparisons: tuple[ComparisonDocument, ...]
    committed: int | None
    """Of the steady size: bytes that only its processes can give back."""
    warm: int | None
    """Of the steady size: mapped weights, which the system may drop and read again."""
    device: int
    """Of `committed`: what GPU drivers hold for it."""
    fell: int | None
    """By how much the machine's available memory fell meanwhile, whoever took it."""
    stated: int | None
    """`memory.steady` of the manifest."""
    suggestion: SuggestionDocument
    written: WrittenDocument | None
    """Null unless it was asked to write."""
    notes: tuple[str, ...]
