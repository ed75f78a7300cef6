"""What becomes of everybody: who leaves, who comes, who is blocked and why. Bytes are `int`."""

from dataclasses import dataclass, field

from reconciler.core.diff import Row
from reconciler.core.shares import Files
from reconciler.core.types import Instance, Reason


@dataclass(slots=True, eq=False)
class Going:
    """One process that leaves. `row` is None for a process no model of the manifest accounts for."""

    instance: Instance
    #: Bytes that come back: its own, and once it has left those of the files that nobody else maps.
    charge: int
    reason: Reason
    files: Files = ()
    row: Row | None = None
    claimant: Row | None = None
    busy: bool = False


@dataclass(slots=True, eq=False)
class Coming:
    """One model that is loaded, after those that leave just before it."""

    row: Row
    #: Bytes that must be free before it is begun, and bytes of them it is charged once it is loaded. What a process
    #: holds that is woken is not among them.
    need: int
    keeps: int
    reason: Reason
    before: list[Going] = field(default_factory=list)
    #: Its process that sleeps and is woken for it; None = a new one is started.
    wakes: Instance | None = None


@dataclass(frozen=True, slots=True)
class Stay:
    """The last to go of those for whom a model waits that lacks room, and from when on it may."""

    victim: Row
    #: Monotonic seconds; None = it was loaded after a person asked for the model that waits, and none since.
    until: float | None


@dataclass(slots=True, eq=False)
class Block:
    """Why a wanted model is not loaded. `short` is how many bytes it lacks, where bytes are the trouble."""

    reason: Reason
    short: int | None = None
    #: Models in the way that stay until whoever holds them lets go.
    held: tuple[str, ...] = ()
    #: Who lets it in once enough time has passed, if time alone does.
    stay: Stay | None = None
    #: Some models that are being loaded, or come first in this plan, and how many more there are.
    behind: tuple[str, ...] = ()
    further: int = 0
    #: Whether the room that all of these take would be enough.
    enough: bool = False


@dataclass(slots=True, eq=False)
class Selection:
    """What becomes of everybody. A model in none of these keeps what it has, or stays cold."""

    relief: list[Going] = field(default_factory=list)
    coming: list[Coming] = field(default_factory=list)
    leftovers: list[Going] = field(default_factory=list)
    blocked: dict[str, Block] = field(default_factory=dict)
    #: Models nobody wants now that could not be loaded if somebody did.
    hopeless: dict[str, Block] = field(default_factory=dict)
    #: The largest models that stay, as people would name them.
    holders: str = ""
    #: What all models may be charged now, and what of it is left before the first step; None = unknown.
    capacity: int | None = None
    free: int | None = None
    #: What models that are ready, and one that is being loaded, are charged, each mapped file once; None = unknown.
    held: int | None = None
    reserved: int = 0
    #: Why memory is short, for people; "" = it is not.
    shortage: str = ""
