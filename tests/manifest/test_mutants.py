"""Whatever a manifest is made to: it is understood or refused in words with a place, and never a traceback."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manifest_mutants import Tally, judged, misplaced, mutant, mutants, seeds
from reconciler.manifest import Applied

TEXTS = seeds()


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_changed_is_sound_before(text: str) -> None:
    """Else all the mutants are refused for the same reason."""
    assert isinstance(judged(text.encode()), Applied)


@given(draw=st.randoms(use_true_random=False), text=st.sampled_from(TEXTS))
def test_a_mutant_is_understood_or_refused_in_words(draw: random.Random, text: str) -> None:
    data = mutant(draw, text)
    result = judged(data)
    if not isinstance(result, Applied):
        assert misplaced(data, result) == []


def test_most_mutants_are_really_broken() -> None:
    """`PYTHONPATH=tests python -m manifest_mutants` makes 10,000 of them."""
    tally = Tally()
    for data in mutants(seed=3, count=100):
        tally.add(data)
    assert tally.wrong == []
    assert tally.refused > 60
    assert len(tally.codes) > 10


@pytest.mark.parametrize("text", TEXTS)
def test_a_slip_is_found_at_its_very_place(text: str) -> None:
    """A key that nobody knows, put before any line that can have one beside it."""
    lines, places = text.splitlines(keepends=True), []
    for number, line in enumerate(lines):
        key = line.lstrip(" ").partition(":")[0]
        if not key.isidentifier() or line.lstrip(" ").startswith("#") or number == 0:
            continue
        indent = len(line) - len(line.lstrip(" "))
        wrong = [*lines[:number], " " * indent + "oddkey_: 1\n", *lines[number:]]
        found = judged("".join(wrong).encode())
        if isinstance(found, Applied):  # where keys are the user's own: variables
            continue
        there = [one for one in found if one.line == number + 1]
        assert there, "".join(wrong)
        # Where keys are names of models, it is what stands behind that is wrong.
        assert all(one.col == indent + 1 or one.code != "unknown-key" for one in there)
        places.append(there[0].code)
    assert places.count("unknown-key") >= 3, places
