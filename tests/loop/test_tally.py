"""Requests on their way into the store: all of them, in order, a piece at a time."""

from pathlib import Path
from unittest.mock import patch

import pytest

from reconciler.leases import Arrival, Ended
from reconciler.loop.keeper import Keeper
from reconciler.loop.tally import BATCH, Tally
from reconciler.store import AsyncStore, StoreError

pytestmark = pytest.mark.anyio

WALL = 1_700_000_000.0
COUNT = 2 * BATCH + BATCH // 2


def requests() -> list[Ended]:
    return [Ended("chat", "desk", at, 0.0, 0.0, at + 0.5, "ok") for at in map(float, range(COUNT))]


async def test_what_comes_while_a_write_fails_is_counted_too(tmp_path: Path) -> None:
    store = await AsyncStore.open(tmp_path / "ledger.db")
    tally = Tally(store, Keeper())

    async def full(batch: object) -> None:
        tally.add([Arrival("chat", 4.0), Arrival("coder", 5.0)], [], lambda at: at + WALL)
        raise StoreError("the disk is full")

    tally.add([Arrival("chat", 1.0)], [], lambda at: at + WALL)
    with patch.object(store, "bump_arrivals", full):
        await tally.write(lambda at: at + WALL, 100.0)
    await tally.write(lambda at: at + WALL, 200.0)
    found = await store.ask(lambda s: s.arrivals())
    assert [(b.model, b.requests) for b in found] == [("chat", 2), ("coder", 1)]


@pytest.mark.parametrize("failing", [None, 0, 1, 2])
async def test_what_was_written_is_not_written_again_and_the_rest_is_tried_later(
    tmp_path: Path, failing: int | None
) -> None:
    store = await AsyncStore.open(tmp_path / "ledger.db")
    tally, pieces, write = Tally(store, Keeper()), list[int](), store.add_requests

    async def add(records: object) -> int:
        batch = list(records)  # type: ignore[call-overload]
        pieces.append(len(batch))
        if len(pieces) - 1 == failing:
            raise StoreError("the disk is full")
        return await write(batch)

    tally.add([], requests(), lambda at: at + WALL)
    with patch.object(store, "add_requests", add):
        await tally.write(lambda at: at + WALL, 100.0)
        assert max(pieces) == BATCH
        await tally.write(lambda at: at + WALL, 200.0, last=True)
    written = await store.ask(lambda s: s.requests(limit=2 * COUNT))
    assert [r.at for r in written] == [WALL + at for at in range(COUNT)]
