"""A ledger that cannot be written: told once, and nothing stops for it."""

import pytest
from structlog.testing import capture_logs

from reconciler.core.types import LedgerEntry
from reconciler.loop.keeper import CALM_SECONDS, Keeper
from reconciler.loop.ledger import Ledger
from reconciler.store import StoreError

pytestmark = pytest.mark.anyio


CANNOT = "the ledger cannot be written: the models serve on"
CAN = "the ledger can be written again"


class Full:
    """A store whose disk is full until told otherwise."""

    def __init__(self) -> None:
        self.full = True
        self.written: list[LedgerEntry] = []

    async def put_entry(self, entry: LedgerEntry) -> None:
        if self.full:
            raise StoreError("the ledger cannot be written: disk is full")
        self.written.append(entry)


class Clock:
    """A clock that the test sets."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_what_could_not_be_written_is_written_once_there_is_room() -> None:
    store, clock = Full(), Clock()
    keeper = Keeper(clock)
    ledger = Ledger(store, keeper)  # type: ignore[arg-type]
    entry = LedgerEntry("a", "d", failures=1)
    ledger.update(entry)
    with capture_logs() as logs:
        for _ in range(3):
            await ledger.flush()
        assert "disk is full" in str(keeper.trouble)
        store.full = False
        clock.now += CALM_SECONDS
        await ledger.flush()
    assert store.written == [entry]
    assert not keeper.trouble
    assert [line["event"] for line in logs] == [CANNOT, CAN]


async def test_trouble_that_stops_for_a_moment_is_one_trouble_and_its_end_is_said_when_it_lasts() -> None:
    store, clock = Full(), Clock()
    keeper = Keeper(clock)

    async def write(*, full: bool, after: float) -> list[str]:
        store.full, clock.now = full, clock.now + after
        with capture_logs() as logs:
            assert await keeper.keep(store.put_entry(LedgerEntry("a", "d"))) is not full
        told.append(keeper.trouble is not None)
        return [line["event"] for line in logs]

    told: list[bool] = []

    assert await write(full=True, after=0) == [CANNOT]
    for _ in range(3):
        assert await write(full=False, after=CALM_SECONDS / 2) == []
        assert await write(full=True, after=1) == []
    assert await write(full=False, after=CALM_SECONDS - 1) == []
    assert await write(full=False, after=1) == [CAN]
    assert await write(full=False, after=1) == []
    assert await write(full=True, after=1) == [CANNOT], "that is another one"
    assert told == [True] * 8 + [False, False, True], "the status does not flap either"
