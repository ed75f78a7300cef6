"""Counters of one run: they only grow, and cost nothing on the way of a request.

Requests are counted where their rows are taken out of the lease book, a batch a second; everything else happens
seldom. All of it is written and read by the one event loop that serves both the gateway and the loop.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from reconciler.core.crashes import FailureKind
from reconciler.core.regrets import CHOSEN
from reconciler.counts.histogram import Histogram
from reconciler.leases import Ended
from reconciler.leases.record import CUT, FAILED, LEFT, OK, REFUSED

#: Models that are counted by name; those that left the manifest give their places up when there are more.
MOST_MODELS: Final = 200
#: What is counted of all others together, and of requests that name no model of the manifest. No model has this name.
OTHER: Final = ""
#: Upper bounds in seconds. Of waits and answers; of loads; of turns.
REQUEST_BOUNDS: Final = (0.01, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
LOAD_BOUNDS: Final = (0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0)
TURN_BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
#: How a request can end; one that was refused is told apart by its code among the errors.
REFUSED_CLASS: Final = REFUSED.rstrip(":")
OUTCOMES: Final = (OK, FAILED, CUT, LEFT, REFUSED_CLASS)
#: How a load can end, be it of a new process or of one that slept.
READY: Final = "ready"
LOAD_FAILED: Final = "failed"
GIVEN_UP: Final = "given-up"
LOAD_OUTCOMES: Final = (READY, LOAD_FAILED, GIVEN_UP)
PROMPT: Final = "prompt"
OUTPUT: Final = "output"


def _requests() -> Histogram:
    return Histogram(REQUEST_BOUNDS)


def _zeros(*keys: str) -> Counter[str]:
    """Return a counter that shows its keys from the start: the first event of a kind is a growth, too."""
    return Counter(dict.fromkeys(keys, 0))


@dataclass(slots=True)
class ModelCounts:
    """What is counted of one model."""

    requests: Counter[str] = field(default_factory=lambda: _zeros(*OUTCOMES))
    #: Seconds from a request's arrival to its place; of these, seconds in which the model took no requests, of the
    #: requests that met such; and seconds each was served.
    waits: Histogram = field(default_factory=_requests)
    cold_waits: Histogram = field(default_factory=_requests)
    served: Histogram = field(default_factory=_requests)
    #: Tokens that engines told, by `prompt` and `output`.
    tokens: Counter[str] = field(default_factory=lambda: _zeros(PROMPT, OUTPUT))
    loads: Counter[str] = field(default_factory=lambda: _zeros(*LOAD_OUTCOMES))
    load_seconds: Histogram = field(default_factory=lambda: Histogram(LOAD_BOUNDS))
    #: Evictions by reason, and those that were called off.
    evictions: Counter[str] = field(default_factory=lambda: _zeros(*sorted(CHOSEN)))
    called_off: int = 0
    #: Evictions that were chosen, and whose model was wanted again within a minute.
    regrets: int = 0
    failures: Counter[str] = field(default_factory=lambda: _zeros(*FailureKind))

    def copy(self) -> "ModelCounts":
        """Return what was counted until now."""
        return ModelCounts(
            self.requests.copy(),
            self.waits.copy(),
            self.cold_waits.copy(),
            self.served.copy(),
            self.tokens.copy(),
            self.loads.copy(),
            self.load_seconds.copy(),
            self.evictions.copy(),
            self.called_off,
            self.regrets,
            self.failures.copy(),
        )

    def merge(self, other: "ModelCounts") -> None:
        """Count everything that `other` counted, too."""
        for mine, theirs in (
            (self.waits, other.waits),
            (self.cold_waits, other.cold_waits),
            (self.served, other.served),
            (self.load_seconds, other.load_seconds),
        ):
            mine.merge(theirs)
        for counted, more in (
            (self.requests, other.requests),
            (self.tokens, other.tokens),
            (self.loads, other.loads),
            (self.evictions, other.evictions),
            (self.failures, other.failures),
        ):
            counted.update(more)
        self.called_off += other.called_off
        self.regrets += other.regrets


class Counts:
    """All counters of one run. `models` has the manifest's from its first application on."""

    def __init__(self) -> None:
        self.models: dict[str, ModelCounts] = {}
        #: Turns of the loop, by the seconds they took.
        self.turns = Histogram(TURN_BOUNDS)
        #: Errors that the gateway answered with, by model and code.
        self.errors: Counter[tuple[str, str]] = Counter()

    def copy(self) -> "Counts":
        """Return what was counted until now, for a thread that reads it while more is counted."""
        made = Counts()
        made.models = {model: counts.copy() for model, counts in self.models.items()}
        made.turns, made.errors = self.turns.copy(), self.errors.copy()
        return made

    def keep(self, names: Iterable[str]) -> None:
        """Count the models of a manifest by name; of those that left it, as many as there is room for."""
        wanted = sorted(names)[:MOST_MODELS]
        room = MOST_MODELS - len(wanted)
        gone = sorted(self.models.keys() - {*wanted, OTHER})
        for name in gone[room:]:
            self._fold(name)
        for name in wanted:
            self.models.setdefault(name, ModelCounts())

    def _fold(self, name: str) -> None:
        """Add what was counted of a model to what was counted of all others."""
        self.models.setdefault(OTHER, ModelCounts()).merge(self.models.pop(name))
        for key in [key for key in self.errors if key[0] == name]:
            self.errors[OTHER, key[1]] += self.errors.pop(key)

    def of(self, model: str) -> ModelCounts:
        """Return what is counted of a model, or of all others if there is no room for one more."""
        found = self.models.get(model)
        if found is None:
            known = len(self.models) - (OTHER in self.models)
            name = model if known < MOST_MODELS else OTHER
            found = self.models.setdefault(name, ModelCounts())
        return found

    def ended(self, requests: Iterable[Ended]) -> None:
        """Count requests that are over. One that left the queue without having been served has a wait, too."""
        for one in requests:
            counts = self.of(one.model)
            outcome = one.outcome if one.outcome in counts.requests else REFUSED_CLASS  # refused:CODE
            counts.requests[outcome] += 1
            counts.waits.add(one.waited)
            if one.cold > 0:
                counts.cold_waits.add(one.cold)
            if (seconds := one.seconds) > 0:
                counts.served.add(seconds)
            if one.tokens is not None:
                prompt, output = one.tokens
                counts.tokens[PROMPT] += prompt or 0
                counts.tokens[OUTPUT] += output or 0

    def loaded(self, model: str, seconds: float) -> None:
        """Count a load that ended with a model that answers, after so many seconds."""
        counts = self.of(model)
        counts.loads[READY] += 1
        counts.load_seconds.add(seconds)

    def load_ended(self, model: str, outcome: str) -> None:
        """Count a load that did not: `failed` or `given-up`."""
        self.of(model).loads[outcome] += 1

    def evicted(self, model: str, reason: str) -> None:
        """Count an eviction that ended the process, or had it give its memory back."""
        self.of(model).evictions[reason] += 1

    def called_off(self, model: str) -> None:
        """Count an eviction that was begun and not finished."""
        self.of(model).called_off += 1

    def regretted(self, model: str) -> None:
        """Count an eviction whose model was wanted again at once."""
        self.of(model).regrets += 1

    def failed(self, model: str, kind: FailureKind) -> None:
        """Count a launch that failed, died, or hung."""
        self.of(model).failures[kind] += 1

    def error(self, model: str, code: str) -> None:
        """Count an error that a client was answered with; `model` is one of the manifest's, or OTHER."""
        self.errors[model if model in self.models else OTHER, code] += 1
