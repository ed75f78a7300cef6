"""A deadline is later by as much as the program stood still."""

import time

import anyio
import pytest

from reconciler.loop import standstill
from reconciler.loop.standstill import Deadline

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of a second is a standstill."""
    monkeypatch.setattr(standstill, "STANDSTILL", 0.1)
    monkeypatch.setattr(standstill, "PACE", 0.02)


async def test_without_a_standstill_it_is_over_in_time() -> None:
    scope = anyio.CancelScope()
    stood: list[float] = []
    began = anyio.current_time()
    deadline = Deadline(scope, began + 0.06, stood.append)
    with scope:
        await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert anyio.current_time() >= deadline.at == began + 0.06
    assert stood == []


@pytest.mark.parametrize("stands", [0.2, 0.5], ids=["before its end", "past its end"])
async def test_time_that_the_program_stood_still_does_not_count(stands: float) -> None:
    scope = anyio.CancelScope()
    stood: list[float] = []
    began = anyio.current_time()
    deadline = Deadline(scope, began + 0.3, stood.append)
    with scope:
        time.sleep(stands)  # noqa: ASYNC251 - nothing else stops an event loop
        await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert sum(stood) == pytest.approx(stands, abs=0.08)
    assert anyio.current_time() - began >= 0.3 + sum(stood)
    assert deadline.at == pytest.approx(began + 0.3 + sum(stood))


async def test_it_can_be_moved_and_given_up() -> None:
    scope = anyio.CancelScope()
    deadline = Deadline(scope, float("inf"))
    deadline.at = anyio.current_time() + 0.03
    with scope:
        await anyio.sleep_forever()
    assert scope.cancelled_caught
    other = anyio.CancelScope()
    given_up = Deadline(other, anyio.current_time() + 0.03)
    given_up.close()
    with anyio.move_on_after(0.1), other:
        await anyio.sleep_forever()
    assert not other.cancelled_caught
