"""The shape of a stretch of time: how the memory was, and what was done. Times are seconds since 1970, bytes integers,
null = unknown.
"""

from dataclasses import dataclass
from typing import Literal

from reconciler.render.document import Document
from reconciler.render.memory_shapes import LevelName


@dataclass(frozen=True, slots=True)
class SampleDocument(Document):
    """The memory at one moment. It was so until the next sample, as near as matters."""

    at: float
    budget: int | None
    """What models may hold together."""
    held: int | None
    """What loaded models were charged."""
    reserved: int
    """What a load in progress had reserved."""
    available: int | None
    """What the system said could be used."""
    used: float | None
    """Mean share of the machine's memory in use (0-1)."""
    level: LevelName
    """How short memory was."""
    relieving: bool
    """Models were being evicted until use would be below the target."""
    models: dict[str, int | None]
    """Bytes that the processes of each loaded model held, and only they could give back."""


@dataclass(frozen=True, slots=True)
class DoneDocument(Document):
    """One load or eviction that has ended."""

    at: float
    """When it was begun."""
    seconds: float
    """It took so long."""
    action: Literal["load", "evict", "reload"]
    """`reload`: the eviction of a process in whose place another is started, and that start."""
    model: str
    reason: str
    for_model: str | None
    """The model an eviction made room for."""
    outcome: str
    """`ready`, `failed` or `given-up`; of an eviction `gone`, `asleep` or `given-up`."""
    detail: str
    """For people: why it failed, or what it was about."""
    regretted: bool
    """An eviction one too many: nobody had asked for it, and its model was wanted again at once."""


@dataclass(frozen=True, slots=True)
class TimelineDocument(Document):
    """What GET /api/v1/timeline answers."""

    since: float
    """What was asked for."""
    from_: float
    """Samples reach back so far: they are of this run, and only so many are kept."""
    to: float
    samples: tuple[SampleDocument, ...]
    """Oldest first; the last is of now. The first may be older than `since`: it is what held then."""
    actions: tuple[DoneDocument, ...]
    """In the order in which they were begun; of more than 2000 the newest."""
