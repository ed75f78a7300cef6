"""What those who wait are told of a load that failed, and what is held against its model."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lease_clients import Client, settle
from reconciler.core.crashes import BACKOFF_FIRST, GIVE_UP_AFTER, FailureKind
from reconciler.core.machine import Failed, Loading
from reconciler.core.types import Load, Reason
from reconciler.leases import LeaseBook, QueueLimits
from reconciler.loop.hands import Outcome
from reconciler.loop.journal import Journal
from reconciler.loop.keeper import Keeper
from reconciler.loop.launches import Launches
from reconciler.loop.ledger import Ledger
from reconciler.loop.outcomes import Outcomes
from reconciler.store import AsyncStore, Store
from reconciler.store.mirror import Mirror

pytestmark = pytest.mark.anyio
NOW = 100.0
ERROR = "the process ended while its state was restored: killed by SIGKILL (9)"


class Desk:
    """A model that one request waits for."""

    def __init__(self, folder: Path) -> None:
        file = Store(folder / "ledger.db")
        self.store, keeper = AsyncStore(file, Mirror(file)), Keeper()
        self.ledger = Ledger(self.store, keeper)
        self.book = LeaseBook(lambda: None, lambda: NOW)
        self.book.configure({"m": QueueLimits()})
        self.client = Client(self.book, "m").start()
        history: Any = SimpleNamespace(loaded=lambda *_: None)
        journal = Journal(self.store, keeper, self.ledger)
        self.outcomes = Outcomes(journal, self.book, Launches(), history)

    async def fails(self, *, afresh: bool, pid: int | None = None) -> float:
        """Have a load fail; return the seconds until the next try."""
        await settle()
        step = Load("m", "d", 1, Reason.DEMANDED, pid=pid)
        done = Outcome(Failed(None), 1.0, ERROR, None, FailureKind.KILLED, afresh=afresh)
        await self.outcomes.close(Loading(step, NOW, NOW + 9), done, None, "", NOW)
        await settle()
        return (self.ledger.entry("m", "d").retry_at or NOW) - NOW

    async def events(self) -> list[tuple[str, str]]:
        return [(e.kind, e.message) for e in await self.store.ask(lambda store: store.events())]

    @property
    def waits(self) -> bool:
        return any(demand.waiting for demand in self.book.demands())


@pytest.fixture
async def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


async def test_an_ordinary_failure_is_told_to_who_waits(desk: Desk) -> None:
    assert await desk.fails(afresh=False) == BACKOFF_FIRST
    assert not desk.waits
    assert await desk.events() == [("load-failed", ERROR)]


@pytest.mark.parametrize(
    ("pid", "kind", "next_one"),
    [
        (None, "restore-failed", "it is loaded anew, without the state"),
        (7, "wake-failed", "it is loaded anew"),
    ],
)
async def test_who_waits_goes_on_waiting_for_a_process_that_begins_anew(
    desk: Desk, pid: int | None, kind: str, next_one: str
) -> None:
    assert await desk.fails(afresh=pid is None, pid=pid) == 0
    assert desk.waits
    assert await desk.events() == [(kind, f"{ERROR}; {next_one}")]


async def test_it_counts_as_a_failure_that_a_process_had_to_begin_anew(desk: Desk) -> None:
    waits = [await desk.fails(afresh=True) for _ in range(GIVE_UP_AFTER)]
    assert waits[:3] == [0, 4, 8]
    assert waits[-1] == 3600
    assert desk.waits, "the plan says whether that is worth waiting for"
