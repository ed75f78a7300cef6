"""The action slot: one action, its outcome, and the wait for memory behind it."""

from dataclasses import dataclass, field

import anyio
import pytest

from reconciler.core import machine
from reconciler.core.types import Evict, Load, Reason
from reconciler.loop.hands import Outcome
from reconciler.loop.slot import Slot
from support import wait_for_async

pytestmark = pytest.mark.anyio
LOADING = machine.Loading(Load("a", "d", 1, Reason.DEMANDED), 0.0, 1.0)
EVICTING = machine.Evicting(Evict("b", 7, 1, 100, Reason.MAKE_ROOM, "a"), 0.0, 1.0)


@dataclass
class Meter:
    """A machine whose available memory the test sets."""

    available: int | None = 0
    reads: int = 0
    wakes: list[int] = field(default_factory=list)

    async def read(self) -> int | None:
        self.reads += 1
        return self.available


@pytest.fixture
def meter() -> Meter:
    return Meter()


def taken(slot: Slot) -> list[str]:
    return [f"{type(ended).__name__}+{type(o.event).__name__}" for ended, o in slot.take(0.0)]


async def test_after_a_stop_the_slot_is_free_only_when_the_memory_is_seen_to_be_back(meter: Meter) -> None:
    slot = Slot(lambda: meter.wakes.append(1), meter.read)

    async def stop() -> Outcome:
        return Outcome(machine.Exited(500), 0.1)

    async with anyio.create_task_group() as tasks:
        slot.begin(EVICTING, stop, tasks)
        await wait_for_async(lambda: meter.reads > 2, 5, "the memory is watched")
        assert taken(slot) == ["Evicting+Exited"]
        assert isinstance(slot.state, machine.Settling)
        meter.available = 499
        seen = meter.reads
        await wait_for_async(lambda: meter.reads > seen + 2, 5, "it is watched on")
        assert taken(slot) == []
        meter.available = 500
        await wait_for_async(lambda: taken(slot) == ["Settling+Recovered"], 5, "the memory is back")
    assert slot.idle
    assert meter.wakes


async def test_room_for_what_comes_next_ends_the_wait(meter: Meter) -> None:
    slot = Slot(lambda: None, meter.read)

    async def stop() -> Outcome:
        return Outcome(machine.Exited(500), 0.1)

    async with anyio.create_task_group() as tasks:
        slot.begin(EVICTING, stop, tasks)
        await wait_for_async(lambda: meter.reads > 0, 5, "the memory is watched")
        slot.enough_room()
    assert taken(slot) == ["Evicting+Exited", "Settling+Recovered"]


async def test_unknown_memory_ends_by_the_deadline(meter: Meter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "SETTLE_SECONDS", 0.1)
    meter.available = None
    slot = Slot(lambda: None, meter.read)

    async def stop() -> Outcome:
        return Outcome(machine.Exited(500), 0.1)

    async with anyio.create_task_group() as tasks:
        slot.begin(EVICTING, stop, tasks)
    assert taken(slot) == ["Evicting+Exited", "Settling+Deadline"]


async def test_a_load_given_up_leaves_a_failure(meter: Meter) -> None:
    slot = Slot(lambda: None, meter.read)
    entered = anyio.Event()

    async def load() -> Outcome:
        entered.set()
        await anyio.sleep_forever()
        raise AssertionError("not reached")

    async with anyio.create_task_group() as tasks:
        slot.begin(LOADING, load, tasks)
        await entered.wait()
        slot.cancel_load()
    assert taken(slot) == ["Loading+Failed", "Settling+Deadline"]
    assert slot.idle


async def test_an_eviction_is_not_given_up_with_a_load(meter: Meter) -> None:
    slot = Slot(lambda: None, meter.read)
    go = anyio.Event()

    async def stop() -> Outcome:
        await go.wait()
        return Outcome(machine.Aborted(), 0.0)

    async with anyio.create_task_group() as tasks:
        slot.begin(EVICTING, stop, tasks)
        await anyio.lowlevel.checkpoint()
        slot.cancel_load()
        go.set()
    assert taken(slot) == ["Evicting+Aborted"]
