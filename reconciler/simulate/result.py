"""What came of a simulation: waits, actions, memory. Seconds and bytes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.core.regrets import rued
from reconciler.core.types import Reason, Verdict


@dataclass(frozen=True, slots=True)
class Waits:
    """Requests of one model, one client, or all, and how they waited."""

    requests: int = 0
    #: Requests that were answered.
    served: int = 0
    #: Refused: by reason ("queue_full", "queue_timeout", "never_fits", "unknown_model", "cut" ...), and how many.
    refused: Mapping[str, int] = field(default_factory=dict)
    #: Requests that came while their model took none, and the seconds they waited for it together. Those of models
    #: that can never be loaded were refused instead, and are not among them.
    cold: int = 0
    cold_seconds: float = 0.0
    #: Seconds from the arrival until a place at the model was granted, of all that were granted one.
    wait_seconds: float = 0.0
    p50: float = 0.0
    p95: float = 0.0
    longest: float = 0.0
    #: Seconds of service.
    busy_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Action:
    """One action of the single slot, for the timeline. Times are those of the trace."""

    kind: str  # "load" or "evict"
    model: str
    reason: Reason
    began: float
    ended: float
    #: For whom a model gave way; "" = for nobody in particular.
    for_model: str = ""
    #: Of an eviction: seconds from its begin until its model was wanted again; None = it was not.
    wanted_after: float | None = None
    #: Of a load in advance: seconds until it was used; None = it was not.
    used_after: float | None = None
    #: It was broken off.
    aborted: bool = False

    @property
    def regretted(self) -> bool:
        """Whether it was an eviction too many, by the rule that the live loop goes by."""
        return self.kind == "evict" and not self.aborted and rued(self.reason, self.wanted_after)


@dataclass(frozen=True, slots=True)
class Result:
    """One run of one layout over one trace."""

    name: str
    #: First and last second.
    began: float
    ended: float
    total: Waits
    models: Mapping[str, Waits]
    clients: Mapping[str, Waits]
    actions: tuple[Action, ...]
    #: When each model was in memory: (from, until) pairs, in order.
    residency: Mapping[str, tuple[tuple[float, float], ...]]
    #: What models could hold beside all else in memory, and held on average over the time; bytes.
    budget: int
    held_mean: float
    held_most: int
    #: Bytes each model is charged once loaded; None = unknown.
    sizes: Mapping[str, int | None]
    #: Seconds the slot was busy with loads, and with evictions.
    load_seconds: float
    evict_seconds: float
    #: Stretches of time in which requests waited for a model that took none: (from, until, most that waited at once).
    waiting: Mapping[str, tuple[tuple[float, float, int], ...]] = field(default_factory=dict)
    #: Models that were asked for, or are pinned, and were never loaded, since they never could be: the last verdict.
    barred: Mapping[str, Verdict] = field(default_factory=dict)

    @property
    def loads(self) -> int:
        """Loads that were finished."""
        return sum(a.kind == "load" and not a.aborted for a in self.actions)

    @property
    def regrets(self) -> int:
        """Evictions that were one too many."""
        return sum(a.regretted for a in self.actions)
