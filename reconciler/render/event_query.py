"""What is asked of the events of the ledger."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reconciler.store import EventRecord


@dataclass(frozen=True, slots=True)
class EventQuery:
    """Which events are meant."""

    #: Those with a greater id, the oldest of them; None = the newest there are.
    after: int | None = None
    limit: int = 200
    #: None = of all models, of all kinds.
    model: str | None = None
    kind: str | None = None
    #: Wall-clock seconds: those that happened then or later.
    since: float = 0.0

    def wants(self, event: "EventRecord") -> bool:
        """Return whether an event is meant, wherever it stands."""
        return (
            (self.model is None or event.model == self.model)
            and (self.kind is None or event.kind == self.kind)
            and event.at >= self.since
        )
