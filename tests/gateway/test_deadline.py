"""A limit on many waits for the price of one timer."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from reconciler.gateway.deadline import Deadline


class Timer:
    """One call that is to come."""

    def __init__(self, due: float, call: Callable[[], None]) -> None:
        self.due = due
        self.call = call
        self.cancelled = False

    def when(self) -> float:
        """Return when it is due."""
        return self.due

    def cancel(self) -> None:
        """Take it back."""
        self.cancelled = True


class Clock:
    """The timers of an event loop, whose time is told."""

    def __init__(self) -> None:
        self.now = 0.0
        self._timers: list[Timer] = []

    def time(self) -> float:
        """Return what was told."""
        return self.now

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Keep a timer."""
        self._timers.append(Timer(self.now + seconds, call))
        return self._timers[-1]

    @property
    def timers(self) -> list[float]:
        """When each timer is due that was not cancelled."""
        return sorted(timer.due for timer in self._timers if not timer.cancelled)

    def go(self, to: float) -> None:
        """Let time pass and run what is due."""
        self.now = to
        for timer in list(self._timers):
            if timer.due <= to and not timer.cancelled:
                timer.cancelled = True
                timer.call()


@pytest.fixture
def clock() -> Clock:
    """Return a clock at 0."""
    return Clock()


def deadline_on(clock: Clock) -> Deadline:
    """Return a deadline of that clock."""
    return Deadline(cast("asyncio.AbstractEventLoop", clock))


def test_it_calls_what_was_set_last_and_once(clock: Clock) -> None:
    called: list[str] = []
    deadline = deadline_on(clock)
    deadline.set(10, lambda: called.append("first"))
    clock.now = 5
    deadline.set(10, lambda: called.append("second"))
    assert clock.timers == [10]  # the one that runs is used again
    clock.go(10)
    assert (called, clock.timers) == ([], [15])
    clock.go(15)
    assert (called, clock.timers) == (["second"], [])
    clock.go(100)
    assert called == ["second"]


def test_an_earlier_one_is_not_late(clock: Clock) -> None:
    called: list[float] = []
    deadline = deadline_on(clock)
    deadline.set(600, lambda: called.append(clock.now))
    deadline.set(1, lambda: called.append(clock.now))
    assert clock.timers == [1]
    clock.go(1)
    assert called == [1]


@pytest.mark.parametrize("end", [Deadline.lift, Deadline.close])
def test_what_is_lifted_is_not_called(clock: Clock, end: Any) -> None:
    called: list[str] = []
    deadline = deadline_on(clock)
    deadline.set(1, lambda: called.append("late"))
    end(deadline)
    clock.go(2)
    assert (called, clock.timers) == ([], [])


def test_closed_it_leaves_nothing_behind(clock: Clock) -> None:
    deadline = deadline_on(clock)
    deadline.set(1, lambda: None)
    deadline.close()
    assert clock.timers == []
