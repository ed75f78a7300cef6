"""Safe mode as the loop keeps it: what is risked is on record while it is, and it ends with the time or a word."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from reconciler.core import machine
from reconciler.core.pressure import Level, Pressure
from reconciler.core.safe_mode import CALM_SECONDS, SAFE_SECONDS
from reconciler.core.types import Preflight, Residency
from reconciler.loop.journal import Journal
from reconciler.loop.keeper import Keeper
from reconciler.loop.safe_mode import SafeMode
from reconciler.store import AsyncStore, RunRecord
from worlds import manifest, model, world

pytestmark = pytest.mark.anyio
IDLE = machine.Idle()
CALM = world().observation
SHORT = replace(CALM, pressure=Pressure(level=Level.HARD))


class Boot:
    """One boot of a machine with a ledger; each `run` is one manager. Times are of one clock that goes on."""

    def __init__(self, store: AsyncStore, boot: str) -> None:
        self.store = store
        self.boot = boot
        self.told: list[str] = []
        self.mode = self._made()

    def _made(self) -> SafeMode:
        async def tell(reason: str, why: str) -> None:
            self.told.append(reason)

        journal = cast("Journal", SimpleNamespace(safe_mode=tell))
        return SafeMode(self.store, Keeper(), journal, boot=lambda: self.boot, wall=lambda: 5.0)

    async def run(self, now: float) -> SafeMode:
        """Begin another manager, of which nobody knows how the last one ended."""
        self.mode = self._made()
        await self.mode.start(now)
        return self.mode

    async def last(self) -> RunRecord:
        """Return what is on record of the newest run."""
        return (await self.store.ask(lambda store: store.runs()))[-1]


@pytest.fixture
async def boots(tmp_path: Path) -> AsyncIterator["Boots"]:
    made = Boots(tmp_path / "ledger.db")
    yield made
    for boot in made.all:
        await boot.store.close()


class Boots:
    """Boots of one machine, one after the other."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.all: list[Boot] = []

    async def next(self) -> Boot:
        """Begin the next boot."""
        boot = f"boot-{len(self.all)}"
        self.all.append(Boot(await AsyncStore.open(self.path, boot_id=boot), boot))
        return self.all[-1]

    async def dies_loading(self, times: int) -> None:
        """Let the machine go down so often while it loads a model."""
        for _ in range(times):
            mode = await (await self.next()).run(0.0)
            await mode.loading("chat", 1.0)


async def test_what_is_risked_is_on_record_until_it_was_calm(boots: Boots) -> None:
    boot = await boots.next()
    mode = await boot.run(0.0)
    assert (await boot.last()) == RunRecord(1, 5.0, "boot-0", "", ended=False, left_safe_mode=False)
    await mode.loading("chat", 10.0)
    assert (await boot.last()).risk == "loading chat"
    await mode.look(IDLE, CALM, 10.0 + CALM_SECONDS - 1)
    assert (await boot.last()).risk == "loading chat"
    await mode.look(IDLE, CALM, 10.0 + CALM_SECONDS)
    assert (await boot.last()).risk == ""
    await mode.look(IDLE, SHORT, 100.0)
    assert (await boot.last()).risk == "memory was short"
    await mode.end()
    assert (await boot.last()) == RunRecord(1, 5.0, "boot-0", "", ended=True, left_safe_mode=False)


async def test_three_ends_of_the_machine_lead_there_and_ten_calm_minutes_lead_out(boots: Boots) -> None:
    await boots.dies_loading(2)
    assert (await (await boots.next()).run(0.0)).why == ""
    await boots.all[-1].mode.loading("chat", 1.0)
    boot = await boots.next()
    mode = await boot.run(1000.0)
    assert "3 times in a row" in mode.why
    assert boot.told == ["Entered"]
    seen = replace(CALM, preflights=(Preflight("base"), Preflight("chat")))
    wanted = manifest(model("base", residency=Residency.PINNED), model("chat"))
    assert [p.reason for p in mode.restrain(seen, wanted).preflights] == [None, "NotStartable"]
    # A pinned model is loaded: the time counts from then.
    await mode.loading("base", 1100.0)
    assert mode.next_look(1100.0) == 1100.0 + SAFE_SECONDS
    await mode.look(IDLE, CALM, 1100.0 + SAFE_SECONDS - 1)
    assert mode.why
    await mode.look(IDLE, CALM, 1100.0 + SAFE_SECONDS)
    assert (mode.why, boot.told, mode.next_look(2000.0)) == ("", ["Entered", "Left"], None)
    assert mode.restrain(seen, wanted) is seen
    assert (await boot.run(3000.0)).why == "", "a crash of the manager in this boot does not bring it back"
    # Once more, and the next boot begins there.
    await boot.mode.loading("chat", 3001.0)
    assert "4 times in a row" in (await (await boots.next()).run(0.0)).why


async def test_a_person_ends_it_and_what_led_to_it_is_forgotten(boots: Boots) -> None:
    await boots.dies_loading(3)
    boot = await boots.next()
    mode = await boot.run(0.0)
    mode.leave()
    await mode.look(IDLE, CALM, 1.0)
    assert (mode.why, boot.told) == ("", ["Entered", "Left"])
    await mode.loading("chat", 2.0)
    assert (await (await boots.next()).run(0.0)).why == "", "the count begins anew"


async def test_to_say_so_before_it_is_needed_ends_nothing_later(boots: Boots) -> None:
    boot = await boots.next()
    mode = await boot.run(0.0)
    mode.leave()
    await mode.look(IDLE, CALM, 1.0)
    assert boot.told == []
