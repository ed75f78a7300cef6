"""Conditions: what is true of the manifest and of each model, derived once, at the end of a pass, from facts."""

from dataclasses import dataclass
from enum import StrEnum


class Truth(StrEnum):
    """The three values a condition can have."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class Condition:
    """One statement about one thing. `changed_at` (monotonic seconds) moves only when `status` really changes."""

    type: str
    status: Truth
    reason: str
    message: str
    generation: int
    changed_at: float
