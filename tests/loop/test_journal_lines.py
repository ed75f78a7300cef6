"""Lines of a model's life have the same fields for programs, whatever happened: model, reason, seconds, bytes."""

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from reconciler.core.crashes import FailureKind
from reconciler.core.types import Evict, Load, Reason
from reconciler.counts import Counts
from reconciler.loop.failures import Failure
from reconciler.loop.journal import Journal
from reconciler.loop.keeper import Keeper
from reconciler.loop.ledger import Ledger
from reconciler.store import AsyncStore

pytestmark = pytest.mark.anyio

LOAD = Load("chat", "d", 500, Reason.DEMANDED, "1 request waiting", free=100, size=400)
EVICT = Evict("chat", 10, 20, 400, Reason.MAKE_ROOM, for_model="coder", free=900)
Line = dict[str, Any]


@pytest.fixture
def counts() -> Counts:
    return Counts()


@pytest.fixture
async def journal(tmp_path: Path, counts: Counts) -> Journal:
    store, keeper = await AsyncStore.open(tmp_path / "ledger.db"), Keeper()
    return Journal(store, keeper, Ledger(store, keeper), counts=counts)


def flat(lines: list[Any]) -> list[Line]:
    """Return the lines as they are written in JSON."""
    return [{k: v for k, v in line.items() if k != "data"} | line.get("data", {}) for line in lines]


async def test_loads_and_evictions(journal: Journal) -> None:
    with capture_logs() as lines:
        await journal.begun(LOAD)
        await journal.loaded(LOAD, 2.5, None)
        await journal.begun(EVICT)
        await journal.evicted(EVICT, 0.3)
        await journal.asleep(EVICT, 0.4, None)
        await journal.given_up(LOAD, "nobody waits any more", 1.0)
    told = [(x["event"], x["model"], x["reason"], x.get("seconds"), x.get("bytes")) for x in flat(lines)]
    assert told == [
        ("load", "chat", "Demanded", None, 500),
        ("loaded", "chat", "Demanded", 2.5, None),
        ("evict", "chat", "MakeRoom", None, 400),
        ("evicted", "chat", "MakeRoom", 0.3, 400),
        ("sleeps", "chat", "MakeRoom", 0.4, None),
        ("given up", "chat", "Demanded", 1.0, None),
    ]
    assert flat(lines)[3]["for_model"] == "coder"


async def test_failures(journal: Journal) -> None:
    failure = Failure("exit 1: no such file", FailureKind.BAD_FILE)
    with capture_logs() as lines:
        await journal.load_failed(LOAD, failure, None, 4.0, 100.0)
        await journal.begins_anew(LOAD, failure, None, 5.0, 100.0)
    failed, woke = flat(lines)
    assert (failed["event"], failed["reason"], failed["kind"], failed["seconds"], failed["bytes"]) == (
        "load failed",
        "Demanded",
        "BadFile",
        4.0,
        None,
    )
    assert (woke["reason"], woke["seconds"]) == ("Demanded", 5.0)


async def test_what_is_told_is_counted(journal: Journal, counts: Counts) -> None:
    await journal.loaded(LOAD, 2.5, None)
    await journal.load_failed(LOAD, Failure("", FailureKind.OUT_OF_MEMORY), None, 4.0, 100.0)
    await journal.given_up(LOAD, "", 1.0)
    await journal.evicted(EVICT, 0.3)
    await journal.given_up(EVICT, "", 0.3)
    chat = counts.of("chat")
    assert chat.loads == {"ready": 1, "failed": 1, "given-up": 1}
    assert (chat.evictions["MakeRoom"], chat.called_off) == (1, 1)
    assert chat.failures["OutOfMemory"] == 1
