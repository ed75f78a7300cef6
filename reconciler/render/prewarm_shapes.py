"""The parts of the status document that tell what was loaded before anybody asked. Durations are seconds."""

from dataclasses import dataclass
from typing import Literal

from reconciler.render.document import Document


@dataclass(frozen=True, slots=True)
class PrewarmDocument(Document):
    """Whether models are loaded before anybody asks for them, and how good that was in this run."""

    mode: Literal["off", "free", "full"]
    """Never; into free memory only; also in place of models less likely to be used."""
    per_hour: int
    """Begun in an hour at most."""
    last_hour: int
    """Begun in the last hour."""
    begun: int
    """Begun in this run."""
    used: int
    """Somebody asked for the model while it was in memory for that."""
    in_vain: int
    """It went, or failed, before anybody asked."""
    broken_off: int
    """Ended while it loaded: somebody asked for another model, or it was not wanted any more."""
    precision: float | None
    """Share that was used, of those of which it is known; null = of none is."""
    recall: float | None
    """Share of the loads that somebody wanted that were begun in advance; null = there were none."""


@dataclass(frozen=True, slots=True)
class ModelPrewarmDocument(Document):
    """What became of the loads of one model that were begun before anybody asked for it, in this run."""

    begun: int
    used: int
    in_vain: int
    broken_off: int
    again_in: float | None
    """Seconds during which it is not loaded in advance, because that was in vain; null = it may be."""
