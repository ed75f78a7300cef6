"""What was counted since the program began."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from reconciler.counts import OTHER, Counts, ModelCounts
from reconciler.gateway.errors import CODES
from reconciler.gateway.metrics.exposition import Page, labels
from reconciler.gateway.metrics.family import Family, counter, histogram

#: What stands for a model that is not counted by name. No model's name begins with a dot.
OTHER_LABEL: Final = ".other"
UNKNOWN_CODE: Final = ".other"

REQUESTS = counter(
    "requests",
    "Requests that reached a model's queue and are over, by outcome: ok, failed (its server failed), cut (it had"
    " to go), left (the client went), refused.",
    "model",
    "outcome",
)
WAITS = histogram(
    "request_wait_seconds",
    "Seconds that requests waited for their place, for loads, gates and others.",
    "model",
)
COLD = histogram(
    "request_cold_wait_seconds",
    "Seconds in which the model took no requests, of the requests that had to wait for that.",
    "model",
)
SERVED = histogram("request_serve_seconds", "Seconds that requests were served, from place to end.", "model")
TOKENS = counter(
    "tokens", "Tokens of prompts and answers, of requests whose engine tells them.", "model", "kind"
)
LOADS = counter(
    "loads", "Loads, and wakes of models that slept, by outcome: ready, failed, given-up.", "model", "outcome"
)
LOAD_SECONDS = histogram("load_seconds", "Seconds that loads took which ended well.", "model")
EVICTIONS = counter("evictions", "Evictions that were finished, by reason.", "model", "reason")
CALLED_OFF = counter("evictions_called_off", "Evictions that were begun and called off.", "model")
REGRETS = counter(
    "regrets",
    "Evictions to make room whose model was wanted again within a minute: the budget is too small, or an estimate too"
    " large.",
    "model",
)
FAILURES = counter("failures", "Launches that failed, died or hung, by kind.", "model", "kind")
ERRORS = counter("gateway_errors", "Errors that the gateway itself answered with, by code.", "model", "code")
FAMILIES: Final = (
    REQUESTS,
    WAITS,
    COLD,
    SERVED,
    TOKENS,
    LOADS,
    LOAD_SECONDS,
    EVICTIONS,
    CALLED_OFF,
    REGRETS,
    FAILURES,
    ERRORS,
)


def write(page: Page, counts: Counts) -> None:
    """Write all counters; models that left the manifest stay among them while there is room."""
    for model, counted in sorted(counts.models.items()):
        _model(page, counted, labels(model=model if model != OTHER else OTHER_LABEL))
    errors: Counter[str] = Counter()
    for (model, code), count in sorted(counts.errors.items()):
        known = labels(model=model if model != OTHER else OTHER_LABEL)
        errors[f'{known},code="{code if code in CODES else UNKNOWN_CODE}"'] += count
    for known, count in errors.items():
        page.add(ERRORS, count, known)


def _model(page: Page, counted: ModelCounts, known: str) -> None:
    _told_apart(page, REQUESTS, "outcome", counted.requests, known)
    page.spread(WAITS, counted.waits, known)
    page.spread(COLD, counted.cold_waits, known)
    page.spread(SERVED, counted.served, known)
    _told_apart(page, TOKENS, "kind", counted.tokens, known)
    _told_apart(page, LOADS, "outcome", counted.loads, known)
    page.spread(LOAD_SECONDS, counted.load_seconds, known)
    _told_apart(page, EVICTIONS, "reason", counted.evictions, known)
    page.add(CALLED_OFF, counted.called_off, known)
    page.add(REGRETS, counted.regrets, known)
    _told_apart(page, FAILURES, "kind", counted.failures, known)


def _told_apart(page: Page, family: Family, label: str, counts: Mapping[str, int], known: str) -> None:
    for key, count in sorted(counts.items()):
        page.add(family, count, f'{known},{label}="{key}"')
