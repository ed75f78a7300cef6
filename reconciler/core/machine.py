"""The state machine: at most one action in flight, written so that two cannot be expressed."""

from dataclasses import dataclass
from typing import Final

from reconciler.core.types import Evict, Load

#: Share of the expected bytes that must be seen back before memory counts as recovered, and how long to wait for it.
RECOVERED_SHARE: Final = 0.8
SETTLE_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing is being done."""


@dataclass(frozen=True, slots=True)
class Evicting:
    """One process is being drained and stopped."""

    action: Evict
    since: float
    deadline: float


@dataclass(frozen=True, slots=True)
class Settling:
    """A process is gone; its memory is not yet seen to be back."""

    model: str
    #: Available bytes that count as recovered; None = it was not known before, so only the deadline ends the wait.
    expect: int | None
    since: float
    deadline: float


@dataclass(frozen=True, slots=True)
class Loading:
    """One process is being started; its reservation is `action.needs`."""

    action: Load
    since: float
    deadline: float


@dataclass(frozen=True, slots=True)
class Halted:
    """The loop is stopping; nothing more is begun."""

    reason: str


State = Idle | Evicting | Settling | Loading | Halted
