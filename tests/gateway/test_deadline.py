"""A limit on many waits for the price of one timer."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from reconciler.awake import PACE, Awake
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
        """When each timer is due that was not cancelled, but for the looks at the clock."""
        shown = [
            timer for timer in self._timers if not isinstance(getattr(timer.call, "__self__", None), Awake)
        ]
        return sorted(timer.due for timer in shown if not timer.cancelled)

    def go(self, to: float) -> None:
        """Let time pass, and run what is due when it is."""
        while self.now < to:
            self.stand_still(min(to - self.now, PACE))

    def stand_still(self, seconds: float) -> None:
        """Let time pass, and only then run what is due."""
        self.now += seconds
        for timer in sorted(self._timers, key=lambda timer: timer.due):
            if timer.due <= self.now and not timer.cancelled:
                timer.cancelled = True
                timer.call()


@pytest.fixture
def clock() -> Clock:
    """Return a clock at 0."""
    return Clock()


def deadline_on(clock: Clock) -> Deadline:
    """Return a deadline of that clock."""
    return Deadline(Awake(cast("asyncio.AbstractEventLoop", clock)))


def test_it_calls_what_was_set_last_and_once(clock: Clock) -> None:
    called: list[str] = []
    deadline = deadline_on(clock)
    deadline.set(10, lambda: called.append("first"))
    clock.go(5)
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


@pytest.mark.parametrize("before", [0.1, 0.3, 5.0, 9.9])
def test_what_the_program_stood_still_is_no_time(clock: Clock, before: float) -> None:
    called: list[float] = []
    deadline = deadline_on(clock)
    deadline.set(10, lambda: called.append(clock.now))
    clock.go(before)
    clock.stand_still(60)
    assert called == []
    deadline.set(10, lambda: called.append(clock.now))
    clock.go(clock.now + 1)
    clock.stand_still(30)
    assert called == []
    clock.go(clock.now + 8.5)
    assert called == []
    clock.go(clock.now + 1.5)
    assert called == [pytest.approx(before + 60 + 30 + 10, abs=2 * PACE)]


def test_a_busy_machine_is_no_standstill(clock: Clock) -> None:
    called: list[float] = []
    deadline_on(clock).set(2, lambda: called.append(clock.now))
    clock.stand_still(1.9)
    clock.stand_still(0.5)
    assert called == [2.4]


def test_with_nothing_timed_the_clock_is_not_looked_at(clock: Clock) -> None:
    deadline = deadline_on(clock)
    deadline.set(1, lambda: None)
    clock.go(3)
    assert [timer for timer in clock._timers if not timer.cancelled] == []
    clock.stand_still(60)
    called: list[float] = []
    deadline.set(1, lambda: called.append(clock.now))
    clock.go(clock.now + 1.1)
    assert called, "what was stood still before is no matter of a new one"
