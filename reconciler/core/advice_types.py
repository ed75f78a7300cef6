"""The nouns of advice: what would make a model fit, what that asks of people, and who cannot stand together."""

from dataclasses import dataclass
from enum import StrEnum

from reconciler.core.types import Evict, MayPreempt, Verdict


class ChangeKind(StrEnum):
    """One way to make a model fit. The order is that of what it asks of people, the least first."""

    #: Let some seconds pass, and nothing happens meanwhile but that.
    WAIT = "wait"
    #: `reconcile load`: what backs off or rests is due at once.
    ASK = "ask"
    MAY_PREEMPT = "may_preempt"
    PRIORITY = "priority"
    #: Let the models have more of the memory that is there.
    MEMORY = "memory"
    #: Less context, of this model or of another one; where it is not known, less of whatever it holds.
    CONTEXT = "context"
    #: `reconcile release`: nobody holds the model any more.
    RELEASE = "release"
    RESERVE = "reserve"
    HARD_MARK = "hard_mark"
    UNPIN = "unpin"
    #: Programs that are no models give memory back.
    OTHERS = "others"


@dataclass(frozen=True, slots=True)
class Change:
    """One single change. Which fields are set depends on the kind."""

    kind: ChangeKind
    #: Whom it is about; None = the machine.
    model: str | None = None
    #: Less context or reserve, more memory, or given back by others: bytes.
    bytes: int = 0
    #: What `bytes` are in tokens of context, and what is left of them, all slots together; None = not known.
    tokens: int | None = None
    tokens_left: int | None = None
    priority: int | None = None
    may_preempt: MayPreempt | None = None
    #: Share of the machine's memory, 0-1.
    mark: float | None = None
    seconds: float | None = None
    #: For people: what makes the difference then.
    why: str = ""
    #: Whether a request that came now would have it loaded then. False = it could be loaded then, which it could not
    #: before, but not as long as all is in use that is in use now.
    at_once: bool = True


@dataclass(frozen=True, slots=True)
class Worth:
    """What a model in memory spares those who use it, and its place among those that may have to give way."""

    #: Seconds of waiting it is expected to spare: those that it takes to come back, by the chance that it is used, and
    #: for one in memory by those that wait together.
    seconds: float
    return_seconds: float
    #: Of the latter those that a load takes; the others are what a return costs besides.
    load_seconds: float
    #: Whether anything depends on it: who makes way, or what is loaded in advance.
    decides: bool
    #: That chance, as in `Chance.returns`; None = nothing is known of its use.
    returns: float | None
    #: Whether it is known from its use, and not taken from how long it has been idle alone.
    learned: bool
    #: How many are expected to wait together for it; 1 for one that is not in memory, where it decides nothing.
    waiters: float = 1.0
    #: From 1 = the first to go for a model that may displace all of them; None = it is not among them.
    rank: int | None = None
    of: int = 0


@dataclass(frozen=True, slots=True)
class Rivalry:
    """Models that are used at once and can never stand in memory together, beside the pinned ones."""

    models: tuple[str, ...]
    #: Bytes that they lack together.
    short: int
    #: Each of these alone would let them stand together, what asks least of people first; empty = none would.
    changes: tuple[Change, ...] = ()
    #: Less context of several, which only together is enough; where that of one is not.
    together: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True)
class Advice:
    """Why a model is loaded or not, what a request for it would lead to now, and what would help."""

    model: str
    verdict: Verdict
    #: None for a model that the manifest does not name.
    worth: Worth | None
    #: Whether it is in memory, or would be loaded if a request came now.
    fits: bool
    #: Who would go first, in order.
    goes: tuple[Evict, ...] = ()
    #: Each of these alone would make it fit, what asks least of people first; empty also where it fits.
    changes: tuple[Change, ...] = ()
    rivalries: tuple[Rivalry, ...] = ()
