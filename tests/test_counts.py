"""Counters of a run: what they count, what becomes of models that leave, and that nothing is counted twice or lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.core.crashes import FailureKind
from reconciler.counts import MOST_MODELS, OTHER, Counts, Histogram
from reconciler.leases import Ended


def ended(model: str = "chat", outcome: str = "ok", **said: object) -> Ended:
    return Ended(model, "", 100.0, 0.0, 0.0, 104.0, outcome)._replace(**said)  # type: ignore[arg-type]


@given(st.lists(st.floats(-5, 100)))
def test_a_histogram_puts_each_value_below_the_first_bound_it_does_not_pass(values: list[float]) -> None:
    histogram = Histogram((0.5, 1.0, 10.0))
    for value in values:
        histogram.add(value)
    below = 0
    for bound, count in zip(histogram.bounds, histogram.counts, strict=False):
        below += count
        assert below == sum(value <= bound for value in values)
    assert histogram.total == len(values)
    assert histogram.sum == pytest.approx(sum(max(0.0, value) for value in values))


def test_requests_are_counted_with_their_waits_and_tokens() -> None:
    counts = Counts()
    counts.keep(("chat",))
    counts.ended(
        [
            ended(tokens=(10, 3)),
            ended(tokens=(None, 4), waited=3.0, cold=2.0),
            ended(outcome="refused:queue_full", ended=100.0),
            ended(outcome="refused:queue_timeout", waited=4.0, cold=4.0),
            ended(outcome="left"),
        ]
    )
    chat = counts.of("chat")
    assert chat.requests == {"ok": 2, "refused": 2, "left": 1, "failed": 0, "cut": 0}
    assert chat.tokens == {"prompt": 10, "output": 7}
    assert (chat.waits.total, chat.waits.sum) == (5, 7.0)
    assert (chat.cold_waits.total, chat.cold_waits.sum) == (2, 6.0)
    # Who was refused was not served.
    assert (chat.served.total, chat.served.sum) == (3, 4.0 + 1.0 + 4.0)


def test_what_happens_to_a_model_is_counted_and_shown_from_the_start() -> None:
    counts = Counts()
    counts.keep(("chat", "coder"))
    assert set(counts.models) == {"chat", "coder"}
    assert counts.of("chat").failures["OutOfMemory"] == 0
    assert set(counts.of("chat").evictions) == {"MakeRoom", "LessLikely", "OverBudget", "MemoryPressure"}
    counts.loaded("chat", 2.0)
    counts.load_ended("chat", "failed")
    counts.failed("chat", FailureKind.OUT_OF_MEMORY)
    counts.evicted("chat", "IdleExpired")
    counts.called_off("chat")
    counts.regretted("chat")
    chat = counts.of("chat")
    assert chat.loads == {"ready": 1, "failed": 1, "given-up": 0}
    assert (chat.load_seconds.total, chat.load_seconds.sum) == (1, 2.0)
    assert chat.failures["OutOfMemory"] == chat.evictions["IdleExpired"] == 1
    assert (chat.called_off, chat.regrets) == (1, 1)


def test_names_that_come_from_clients_become_nothing_of_their_own() -> None:
    counts = Counts()
    counts.keep(("chat",))
    for number in range(1000):
        counts.error(f"made-up-{number}", "model_not_found")
    counts.error("chat", "queue_full")
    assert counts.errors == {(OTHER, "model_not_found"): 1000, ("chat", "queue_full"): 1}


def test_counters_stay_bounded_however_often_models_are_renamed_and_no_count_is_lost() -> None:
    counts = Counts()
    for turn in range(30):
        names = [f"model-{turn}-{number}" for number in range(40)]
        counts.keep(names)
        for name in names:
            counts.ended([ended(name, waited=1.0)])
            counts.error(name, "queue_full")
        assert len(counts.models) <= MOST_MODELS + 1
        assert set(names) <= set(counts.models)
    assert sum(c.requests["ok"] for c in counts.models.values()) == 30 * 40
    assert sum(c.waits.sum for c in counts.models.values()) == 30 * 40
    assert sum(counts.errors.values()) == 30 * 40
    assert {model for model, _ in counts.errors} <= set(counts.models)


def test_a_larger_manifest_is_counted_by_name_as_far_as_there_is_room() -> None:
    counts = Counts()
    names = [f"model-{number:04}" for number in range(MOST_MODELS + 50)]
    counts.keep(names)
    for name in names:
        counts.loaded(name, 1.0)
    assert len(counts.models) == MOST_MODELS + 1
    assert counts.of(OTHER).loads["ready"] == 50


def test_a_copy_stays_as_it_is() -> None:
    counts = Counts()
    counts.ended([ended()])
    copied = counts.copy()
    counts.ended([ended()])
    counts.error("chat", "queue_full")
    counts.turns.add(1.0)
    assert copied.of("chat").requests["ok"] == copied.of("chat").waits.total == 1
    assert copied.turns.total == len(copied.errors) == 0
