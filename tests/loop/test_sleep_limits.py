"""What going to sleep and waking may do at worst: take too long, be cut short, or be a lie."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import anyio
import httpx
import pytest

from reconciler.core.launch import LaunchSpec
from reconciler.core.machine import Exited
from reconciler.engines import registry
from reconciler.engines.adapter import Adapter
from reconciler.engines.base import EngineError, Server, Sleeper
from reconciler.host import Exit, Process
from reconciler.loop import sleeping
from reconciler.loop.hands import Hands
from reconciler.loop.launches import Launch, Launches
from reconciler.loop.sleeping import Sleeping
from reconciler.memory.probe import Held

pytestmark = pytest.mark.anyio

MIB = 1 << 20
SPEC = LaunchSpec("m", "sleepy")


class Desk(Sleeper):
    """One launch that holds 1000 MiB, and all that is done with it, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.launch = Launch("id", "m", "d", SPEC, Process(1, 1), 9, 0.0, ready=True)
        self.launch.held = Held(1000 * MIB, 0)
        self.done: list[str] = []
        self.writes = True
        #: Set once it is asked to sleep; it sleeps when the other one is set.
        self.asked, self.may_sleep = anyio.Event(), anyio.Event()
        self.launches = Launches()
        observer = SimpleNamespace(available=self._available, measure=self._nothing, evicted=lambda: None)
        hands = SimpleNamespace(
            clock=anyio.current_time, observer=observer, record=self._record, launches=self.launches
        )
        self.sleeping = Sleeping(cast("Hands", hands), cast("httpx.AsyncClient", None))
        engine = Adapter()
        engine.name = "sleepy"
        monkeypatch.setattr(engine, "sleeper", lambda spec: self)
        monkeypatch.setattr(registry, "get", lambda name: engine)

    async def sleep(self, server: Server) -> None:
        self.done.append("sleep")
        self.asked.set()
        await self.may_sleep.wait()
        self.launch.held = Held(100 * MIB, 0)

    async def wake(self, server: Server) -> None:
        """Do nothing: that is the lie."""

    async def _record(self, launch: Launch, stage: str = "") -> bool:
        self.done.append(stage or ("asleep" if launch.asleep else "awake"))
        return self.writes

    async def _available(self) -> int:
        return 0

    async def _nothing(self, *_: object) -> None: ...

    async def while_asked(self, meanwhile: Callable[[], None]) -> Exited | None:
        """Ask it to sleep, do something while it makes no move, and return what came of it."""
        slept: Exited | None = None
        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:

                async def ask() -> None:
                    nonlocal slept
                    slept = await self.sleeping.sleep(self.launch)

                tasks.start_soon(ask)
                await self.asked.wait()
                meanwhile()
        return slept

    @property
    def sleepless(self) -> bool:
        """Whether it is not asked again."""
        self.launches.add(self.launch)
        return self.launch.sleepless


@pytest.fixture
async def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(monkeypatch)


async def test_that_it_goes_to_sleep_is_on_record_before_it_is_asked(desk: Desk) -> None:
    desk.may_sleep.set()
    assert isinstance(await desk.sleeping.sleep(desk.launch), Exited)
    assert desk.done == ["sleeping", "sleep", "asleep"]


async def test_one_whose_sleep_cannot_be_recorded_is_stopped_instead(desk: Desk) -> None:
    desk.writes = False
    assert await desk.sleeping.sleep(desk.launch) is None
    assert (desk.done, desk.sleepless) == (["sleeping"], False)


async def test_a_sleep_is_given_up_at_once_and_not_held_against_the_model(desk: Desk) -> None:
    assert await desk.while_asked(desk.sleeping.give_up) is None
    assert not desk.sleepless
    assert not desk.launch.asleep


@pytest.mark.parametrize(
    ("ended", "sleepless"),
    [
        (Exit(signal=9), False),
        (Exit(code=143), False),
        (Exit(), False),  # of an earlier run: nobody knows
        (Exit(code=1), True),
        (Exit(signal=11), True),
        (None, True),
    ],
)
@pytest.mark.parametrize("noticed", ["before", "after"])
async def test_only_what_a_server_does_itself_is_held_against_its_settings(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, ended: Exit | None, sleepless: bool, noticed: str
) -> None:
    """Its connection breaks off before anybody is told of the end of its process."""
    monkeypatch.setattr(sleeping, "ENDED_SECONDS", 0.05)

    def end() -> None:
        desk.launch.exit = ended
        if ended is not None:
            desk.launch.exited.set()

    async def breaks_off(server: Server) -> None:
        if noticed == "before":
            end()
        else:
            asyncio.get_running_loop().call_later(0.01, end)
        raise EngineError("it closed the connection")

    monkeypatch.setattr(desk, "sleep", breaks_off)
    assert await desk.sleeping.sleep(desk.launch) is None
    assert desk.sleepless is sleepless


async def test_a_sleep_takes_less_when_somebody_waits(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sleeping, "WAITED_SECONDS", 0.0)
    assert await desk.while_asked(desk.sleeping.hurry) is None
    assert desk.sleepless


@pytest.mark.parametrize(
    ("later", "holds", "lies"),
    [(False, 549, True), (False, 551, False), (True, 100, False), (False, None, False)],
)
async def test_one_that_woke_has_taken_its_memory_again(
    desk: Desk, later: bool, holds: int | None, lies: bool
) -> None:
    desk.may_sleep.set()
    await desk.sleeping.sleep(desk.launch)
    desk.wakes_later = later
    desk.launch.held = Held(None if holds is None else holds * MIB, 0)
    why = await desk.sleeping.lied(desk.launch, SPEC)
    assert why == (
        "it says that it woke, and has taken 449 MiB of the 900 MiB that it gave back" if lies else ""
    )
    assert desk.sleepless is lies
