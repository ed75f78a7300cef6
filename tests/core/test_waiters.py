"""How many wait together for one load: counted by load, whatever order they end in."""

import pytest

from reconciler.core.habits import Habits
from reconciler.core.waiters import TOGETHER, Waiters


def loads(waiters: Waiters, model: str, *waits: tuple[float, ...], every: float = 600.0) -> None:
    """Note loads, each by what those waited who were served when it was over; and that a later one has begun."""
    for number, seconds in enumerate((*waits, (1.0,))):
        for n, waited in enumerate(seconds):
            waiters.waited(model, waited, number * every + 0.1 * n)


def test_nobody_known_waits_alone() -> None:
    assert Waiters().of("chat") == 1.0


def test_who_comes_late_in_a_load_counts_for_as_much_as_he_waits() -> None:
    waiters = Waiters()
    loads(waiters, "chat", *[(20.0, 10.0, 5.0)] * 50)
    assert waiters.of("chat") == pytest.approx(1.75)


def test_a_model_is_believed_to_be_like_all_until_its_own_loads_say_otherwise() -> None:
    waiters = Waiters()
    loads(waiters, "crowd", *[(8.0, 8.0, 8.0, 8.0)] * 50)
    assert waiters.of("new") == pytest.approx(4.0)
    loads(waiters, "alone", (8.0,))
    once = waiters.of("alone")
    loads(waiters, "alone", *[(8.0,)] * 50, every=601.0)
    assert 1.0 < waiters.of("alone") < once < 4.0


def test_requests_end_in_any_order() -> None:
    ordered, mixed = Waiters(), Waiters()
    told = [(12.0, 0.0), (6.0, 1.0), (3.0, 2.0), (9.0, 700.0)]
    for seconds, served in told:
        ordered.waited("chat", seconds, served)
    for seconds, served in (told[2], told[0], told[1], told[3]):
        mixed.waited("chat", seconds, served)
    assert ordered.of("chat") == mixed.of("chat") == pytest.approx(1.75)


def test_one_that_ends_long_after_its_load_was_counted_is_left_out() -> None:
    waiters = Waiters()
    loads(waiters, "chat", (10.0, 10.0))
    known = waiters.of("chat")
    waiters.waited("chat", 10.0, 600.0 - TOGETHER - 1.0)
    loads(waiters, "other", (10.0, 10.0))
    assert waiters.of("chat") == known == pytest.approx(2.0)


def test_those_who_waited_for_nothing_are_no_load() -> None:
    habits = Habits()
    habits.arrived("chat", 0.0)
    habits.ended("chat", 5.0)
    habits.waited("chat", 0.0, 0.0)
    [chance] = habits.chances(["chat"], 10.0)
    assert chance.waiters == 1.0
