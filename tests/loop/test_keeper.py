"""A ledger that cannot be written: told once, and nothing stops for it."""

import pytest
from structlog.testing import capture_logs

from reconciler.core.types import LedgerEntry
from reconciler.loop.keeper import Keeper
from reconciler.loop.ledger import Ledger
from reconciler.store import StoreError

pytestmark = pytest.mark.anyio


class Full:
    """A store whose disk is full until told otherwise."""

    def __init__(self) -> None:
        self.full = True
        self.written: list[LedgerEntry] = []

    async def put_entry(self, entry: LedgerEntry) -> None:
        if self.full:
            raise StoreError("the ledger cannot be written: disk is full")
        self.written.append(entry)


async def test_what_could_not_be_written_is_written_once_there_is_room() -> None:
    store, keeper = Full(), Keeper()
    ledger = Ledger(store, keeper)  # type: ignore[arg-type]
    entry = LedgerEntry("a", "d", failures=1)
    ledger.update(entry)
    with capture_logs() as logs:
        for _ in range(3):
            await ledger.flush()
        assert "disk is full" in str(keeper.trouble)
        store.full = False
        await ledger.flush()
    assert store.written == [entry]
    assert not keeper.trouble
    assert [line["event"] for line in logs] == [
        "the ledger cannot be written: the models serve on",
        "the ledger can be written again",
    ]
