"""The shapes of advice in the JSON documents."""

from dataclasses import dataclass
from typing import Literal

from reconciler.render.document import Document
from reconciler.render.verdict_shapes import VerdictDocument

ChangeName = Literal[
    "wait",
    "ask",
    "may_preempt",
    "priority",
    "memory",
    "context",
    "release",
    "reserve",
    "hard_mark",
    "unpin",
    "others",
]


@dataclass(frozen=True, slots=True)
class ChangeDocument(Document):
    """One single change that would be enough. Which fields are set depends on the kind."""

    kind: ChangeName
    model: str | None
    """Whom it is about; null = the machine."""
    bytes: int
    """Less context or reserve, more memory, or given back by other programs; 0 where bytes are not the matter."""
    tokens: int | None
    """What these bytes are in tokens of context; null = not known."""
    tokens_left: int | None
    """Tokens of context that are left then, all slots together."""
    priority: int | None
    may_preempt: str | None
    mark: float | None
    """Share of the machine's memory, 0-1."""
    seconds: float | None
    at_once: bool
    """A request that came now would have it loaded then; false = it could be loaded then, once others make room."""
    text: str
    """For people: goes on from `it would be loaded`."""


@dataclass(frozen=True, slots=True)
class WorthDocument(Document):
    """What a model in memory spares those who use it."""

    seconds: float
    """Seconds of waiting it is expected to spare: `return_seconds` by `returns` by `waiters`."""
    return_seconds: float
    """Seconds it takes to come back: `load_seconds`, and what that costs besides (another model has to go for it)."""
    load_seconds: float
    """Seconds to load it, as measured, else worked out from its size."""
    decides: bool
    """Anything depends on `seconds`: who makes way (`policy: cost`, `prewarm: full`), or what is loaded in advance."""
    returns: float | None
    """Mean of exp(-t / 900 s) over the time t until its next use: 1 = at once, 0 = never; null = nothing is known."""
    learned: bool
    """`returns` is known from its use, and not taken from how long it has been idle alone."""
    waiters: float
    """How many are expected to wait together for it, late ones counted for less; 1 for one that is not in memory."""
    soon: float | None
    """Probability that it is used within 15 minutes, worked out from `returns`."""
    rank: int | None
    """Its place among those that may have to give way, from 1 = the first to go; null = it is not among them."""
    of: int
    """How many these are."""


@dataclass(frozen=True, slots=True)
class GoingDocument(Document):
    """A process that would go first."""

    model: str
    pid: int
    bytes: int
    """Bytes expected back."""
    reason: str
    for_model: str | None
    detail: str
    """The reason in numbers; for people."""
    drain: bool
    """Requests are in flight: they get until the drain deadline."""
    sleeps: bool
    """It is asked to give its memory back and keep its process."""


@dataclass(frozen=True, slots=True)
class RivalryDocument(Document):
    """Models that are used at once and can never stand in memory together."""

    models: tuple[str, ...]
    short: int
    """Bytes that they lack together."""
    changes: tuple[ChangeDocument, ...]
    """Each of these alone would let them stand together, what asks least of people first."""
    together: tuple[ChangeDocument, ...]
    """Less context of several, which only together is enough; where that of one alone is not."""
    text: str
    """For people."""


@dataclass(frozen=True, slots=True)
class HintDocument(Document):
    """One line of advice."""

    about: Literal["rivals", "blocked"]
    models: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class AdviceDocument(Document):
    """What GET /api/v1/models/NAME/advice answers."""

    model: str
    verdict: VerdictDocument
    worth: WorthDocument | None
    """Null for a model the manifest no longer names."""
    fits: bool
    """It is in memory, or would be loaded if a request came now."""
    goes: tuple[GoingDocument, ...]
    """Who would go first, in order."""
    changes: tuple[ChangeDocument, ...]
    """Each of these alone would make it fit, what asks least of people first; empty where it fits."""
    rivalries: tuple[RivalryDocument, ...]
    """Whom it takes turns with and can never stand together with."""
