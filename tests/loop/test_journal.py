"""What is worth a line in the log: each wait of a model once, however often it is planned anew."""

from collections.abc import Iterable
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from reconciler.core.types import Account, Demand, Outcome, Plan, Reason, Verdict, World
from reconciler.loop.journal import WAIT_SECONDS, Journal
from worlds import world

BUSY, SHORT = Reason.VICTIMS_BUSY, Reason.INSUFFICIENT_MEMORY
#: Seconds, whether somebody waits for the model, and why it is blocked; None = it is not.
Look = tuple[float, bool, Reason | None]


def told(looks: Iterable[Look]) -> list[str]:
    """Return the reasons that are logged of a model that is looked at so."""
    journal = Journal(None, None, None)  # type: ignore[arg-type]
    with capture_logs() as lines:
        for at, asked, reason in looks:
            verdict = Verdict("a", Outcome.BLOCKED if reason else Outcome.LOAD, reason or Reason.DEMANDED)
            journal.waits(Plan(1, 1, Account(), (), (verdict,)), seen(at, asked))
    return [line["reason"] for line in lines if line["event"] == "waiting"]


def seen(at: float, asked: bool) -> World:
    made = world(demands=[Demand("a", waiting=1, oldest=0.0)] if asked else [])
    return replace(made, observation=replace(made.observation, at=at))


@pytest.mark.parametrize(
    ("looks", "lines"),
    [
        ([(0, True, BUSY), (1, True, BUSY), (99, True, BUSY)], [BUSY]),
        # Models that take turns: blocked, planned, blocked again, for whatever reason.
        ([(0, True, BUSY), (1, True, None), (2, True, BUSY), (3, True, SHORT), (4, True, BUSY)], [BUSY]),
        # Another reason that lasts is news, its first one again too.
        ([(0, True, BUSY), (1, True, SHORT), (WAIT_SECONDS, True, SHORT)], [BUSY, SHORT]),
        ([(0, True, BUSY), (30, True, SHORT), (60, True, SHORT), (90, True, BUSY)], [BUSY, SHORT, BUSY]),
        # Another wait.
        ([(0, True, BUSY), (1, False, None), (2, True, BUSY)], [BUSY, BUSY]),
        ([(0, False, BUSY), (1, False, BUSY)], []),
    ],
)
def test_each_wait_is_told_once(looks: list[Look], lines: list[Reason]) -> None:
    assert told(looks) == [str(reason) for reason in lines]
