"""The shape of a verdict in the JSON documents."""

from dataclasses import dataclass
from typing import Literal

from reconciler.render.document import Document

OutcomeName = Literal["load", "evict", "reload", "keep", "blocked", "cold"]


@dataclass(frozen=True, slots=True)
class VerdictDocument(Document):
    """What becomes of one model and why."""

    model: str
    outcome: OutcomeName
    reason: str
    detail: str
    """The reason in numbers; for people."""
    size: int | None
    """Bytes it holds or would need."""
    retry_in: float | None
    """Seconds until it is tried again by itself; null = when something changes."""
