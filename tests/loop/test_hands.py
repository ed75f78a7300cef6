"""What a launch is written down as, and when it is not any more."""

from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest

from reconciler.core.launch import LaunchSpec
from reconciler.host import Process
from reconciler.loop.hands import Hands
from reconciler.loop.launches import Launch, Launches
from reconciler.store.records import LaunchRecord

pytestmark = pytest.mark.anyio


class Ledger:
    """Remembers what is written."""

    def __init__(self) -> None:
        self.written: list[str] = []

    async def put_launch(self, record: LaunchRecord) -> None:
        self.written.append(record.launch_id)

    async def keep(self, call: Coroutine[Any, Any, None]) -> bool:
        await call
        return True


async def test_one_that_died_while_it_was_admitted_is_not_written_down_again() -> None:
    ledger, launches = Ledger(), Launches()
    launch = Launch("id", "m", "d", LaunchSpec("m", "fake"), Process(1, 1), 9, 0.0)
    hands = cast(Hands, SimpleNamespace(launches=launches, store=ledger, keeper=ledger))
    launches.add(launch)
    assert await Hands.record(hands, launch)
    launches.drop(launch)  # its death was noted, and its record removed
    assert await Hands.record(hands, launch)
    assert ledger.written == ["id"]
