"""Rates out of served requests: `seconds = fixed + prompt / p + output / o`."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.simulate.speeds_fit import INSTANT, Rates, Served, fit

GUESS = Rates(prompt=1000.0, output=50.0, fixed=0.1)


def requests(rates: Rates, count: int, seed: int = 1, noise: float = 0.0) -> list[Served]:
    dice = random.Random(seed)
    drawn = [Served(0.0, dice.randint(20, 4000), dice.randint(5, 800)) for _ in range(count)]
    return [Served(rates.seconds(s) * (1 + dice.uniform(-noise, noise)), s.prompt, s.output) for s in drawn]


def shown(rates: Rates | None) -> tuple[float, float, float]:
    assert rates is not None
    return rates.prompt, rates.output, rates.fixed


@given(
    prompt=st.floats(10, 20_000),
    output=st.floats(0.5, 300),
    fixed=st.floats(0.0, 5.0),
    seed=st.integers(0, 999),
)
def test_what_the_requests_were_made_of_is_found(
    prompt: float, output: float, fixed: float, seed: int
) -> None:
    truth = Rates(prompt, output, fixed)
    found = fit(requests(truth, 40, seed), GUESS)
    assert shown(found) == pytest.approx(shown(truth), rel=0.01, abs=0.01)


def test_a_few_odd_requests_change_little() -> None:
    """A prompt that was in the cache, a machine that was asleep: one request in ten."""
    truth = Rates(prompt=400.0, output=25.0, fixed=0.2)
    seen = requests(truth, 100, noise=0.03)
    for i in range(0, 100, 10):
        seen[i] = Served(seen[i].seconds * 20, seen[i].prompt, seen[i].output)
    found = fit(seen, GUESS)
    assert found is not None
    assert found.output == pytest.approx(25, rel=0.03)
    assert found.prompt == pytest.approx(400, rel=0.2)


@given(
    st.lists(
        st.builds(Served, st.floats(0.001, 500), st.integers(0, 5000), st.integers(0, 2000)),
        min_size=8,
        max_size=40,
    )
)
def test_nothing_is_ever_negative_or_without_end(samples: list[Served]) -> None:
    found = fit(samples, GUESS)
    assert found is not None
    assert 0 < found.prompt <= INSTANT
    assert 0 < found.output <= INSTANT
    assert 0 <= found.fixed < 501


def test_what_cannot_be_told_apart_is_not_made_up() -> None:
    """Prompts of one length: whether the prompt or something else takes the time is not known, the sum is."""
    seen = [Served(2.0 + output / 20, 100, output) for output in range(10, 200, 10)]
    found = fit(seen, GUESS)
    assert found is not None
    assert found.output == pytest.approx(20)
    assert found.seconds(Served(0, 100, 0)) == pytest.approx(2)


def test_a_few_requests_scale_what_was_believed() -> None:
    seen = requests(Rates(prompt=500.0, output=25.0, fixed=0.2), 3)
    assert shown(fit(seen, GUESS)) == pytest.approx((500, 25, 0.2))


def test_no_requests_say_nothing() -> None:
    assert fit([], GUESS) is None
