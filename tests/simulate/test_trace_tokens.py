"""Tokens that a trace does not tell are assumed to be what is usual for the model, and that is said."""

from array import array
from dataclasses import replace
from math import nan

from reconciler.simulate.trace import UNKNOWN, Trace
from reconciler.simulate.trace_tokens import assumed, assumption


def made(*rows: tuple[str, int, int, float]) -> Trace:
    """Return a trace of (model, tokens of the prompt, of the answer, seconds)."""
    models = sorted({model for model, *_ in rows})
    trace = Trace(models=models, clients=[""])
    for at, (model, prompt, output, seconds) in enumerate(rows):
        trace.add(float(at), models.index(model), 0, prompt, output, seconds=seconds)
    return trace


def test_a_trace_that_tells_all_stays_as_it_is() -> None:
    trace = made(("a", 0, 0, nan), ("a", 5, 7, nan))
    assert assumed(trace) is trace
    assert assumption(trace) is None


def test_what_is_not_told_is_usual_for_the_model() -> None:
    trace = made(
        ("a", 10, 1, 1.0),
        ("a", UNKNOWN, UNKNOWN, nan),
        ("a", 30, 3, 1.0),
        ("a", 20, 2, 1.0),
        ("b", 900, UNKNOWN, nan),
        ("b", 700, 70, nan),
    )
    before = replace(trace)
    full = assumed(trace)
    assert full.prompt_tokens == array("I", [10, 20, 30, 20, 900, 700])
    assert full.output_tokens == array("I", [1, 2, 3, 2, 70, 70])
    assert trace == before
    assert assumption(trace) == (
        "the tokens of 2 of 6 requests are not known: assumed to be the median of those of the same model"
    )


def test_a_model_of_which_nothing_is_told_takes_none_and_that_is_said() -> None:
    trace = made(("a", UNKNOWN, UNKNOWN, nan), ("b", 4, 2, nan))
    assert assumed(trace).prompt_tokens == array("I", [0, 4])
    said = assumption(trace)
    assert said is not None
    assert said.endswith("median of those of the same model, and none for a, of which none are known")
    trace = made(("a", UNKNOWN, UNKNOWN, nan), ("b", UNKNOWN, UNKNOWN, nan))
    assert assumption(trace) == "the tokens of no request are known: assumed to be none"


def test_of_a_trace_without_one_of_the_two_columns_only_that_one_is_said_to_be_assumed() -> None:
    trace = made(("a", 10, UNKNOWN, nan), ("b", 30, UNKNOWN, nan))
    assert assumed(trace).prompt_tokens == array("I", [10, 30])
    assert assumed(trace).output_tokens == array("I", [0, 0])
    assert assumption(trace) == "the tokens of no answer are known: assumed to be none"
    trace = made(("a", UNKNOWN, 10, nan), ("b", UNKNOWN, 30, nan))
    assert assumption(trace) == "the tokens of no prompt are known: assumed to be none"


def test_what_each_column_tells_of_a_model_is_enough_although_no_request_tells_both() -> None:
    trace = made(("a", 10, UNKNOWN, nan), ("a", UNKNOWN, 3, nan))
    assert (assumed(trace).prompt_tokens, assumed(trace).output_tokens) == (
        array("I", [10, 10]),
        array("I", [3, 3]),
    )
    assert assumption(trace) == (
        "the tokens of 2 of 2 requests are not known: assumed to be the median of those of the same model"
    )


def test_nothing_is_said_of_requests_whose_seconds_are_known() -> None:
    trace = made(("a", UNKNOWN, UNKNOWN, 2.5), ("a", 4, 2, nan))
    assert assumption(trace) is None
    assert assumed(trace).output_tokens == array("I", [2, 2])
