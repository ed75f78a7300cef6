"""Processes of an earlier run are looked at side by side, and none that is silent holds up the others."""

from types import SimpleNamespace
from typing import Any, cast

import anyio
import httpx
import pytest

from reconciler.boot import boot_id
from reconciler.core.launch import LaunchSpec, launch_digest
from reconciler.engines import registry
from reconciler.engines.adapter import Adapter
from reconciler.engines.base import Probe, Readiness
from reconciler.host import Exit, PortOwner, PortProof, Process, Survivor
from reconciler.loop import adopt as module
from reconciler.loop.adopt import adopt, tried
from reconciler.loop.keeper import Keeper
from reconciler.loop.launches import Launch
from reconciler.store import LaunchRecord

pytestmark = pytest.mark.anyio


class Engine(Adapter):
    """Answers when the test lets it: a model that is named in `silent` does not."""

    name = "fake"

    def __init__(self) -> None:
        self.silent: dict[str, anyio.Event] = {}
        self.says = Probe(Readiness.READY)
        self.asked: list[str] = []

    async def probe(self, spec: LaunchSpec, base_url: str, client: httpx.AsyncClient) -> Probe:
        self.asked.append(spec.model)
        if spec.model in self.silent:
            await self.silent[spec.model].wait()
        return self.says


class Host:
    """Survivors that are all ours."""

    def __init__(self, *models: str) -> None:
        self.stopped: list[str] = []
        self.specs = {model: LaunchSpec(model, "fake") for model in models}
        self.records = [
            LaunchRecord(f"id-{m}", m, launch_digest(spec), 10 + at, 1, 9000 + at, boot_id(), ready=True)
            for at, (m, spec) in enumerate(self.specs.items())
        ]

    def survivors(self, records: list[LaunchRecord]) -> tuple[Survivor, ...]:
        return tuple(Survivor(r, Process(r.pid or 0, 1), (r.pid or 0,)) for r in records)

    def owns_port(self, process: Process, launch: str, port: int) -> PortProof:
        return PortProof(PortOwner.OURS, port)

    def unrecorded(self, known: list[str]) -> tuple[str, ...]:
        return ()

    async def stop(self, process: Process, launch: str, grace: float) -> None:
        self.stopped.append(launch)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    made = Engine()
    monkeypatch.setattr(registry, "get", lambda name: made)
    monkeypatch.setattr(module, "FIRST_SECONDS", 0.05)
    return made


async def adopted(host: Host) -> list[Launch]:
    """Return what is adopted."""

    async def launches() -> list[LaunchRecord]:
        return host.records

    async def drop(launch: str) -> None:
        """Forget one."""

    store: Any = SimpleNamespace(launches=launches, drop_launch=drop)
    with anyio.fail_after(5):
        return await adopt(cast("Any", host), store, Keeper(), host.specs, cast("Any", None), 1.0)


async def test_silent_ones_hold_up_nobody_and_are_served_once_they_answer(engine: Engine) -> None:
    engine.silent = {m: anyio.Event() for m in ("a", "b", "c")}
    found = await adopted(Host("a", "b", "c", "well"))
    assert [(x.model, x.ready, x.on_trial) for x in found] == [
        ("a", True, True),
        ("b", True, True),
        ("c", True, True),
        ("well", True, False),
    ]
    engine.silent["a"].set()
    assert await tried(found[0], cast("Any", None))
    assert not found[0].on_trial


async def test_one_that_stays_silent_is_left_to_the_plan(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.silent = {"a": anyio.Event()}
    host = Host("a")
    [launch] = await adopted(host)
    monkeypatch.setattr(module, "PROBE_SECONDS", 0.1)
    assert not await tried(launch, cast("Any", None))
    assert (launch.ready, launch.broken, host.stopped) == (False, True, [])


async def test_one_that_ended_or_is_being_stopped_meanwhile_is_not_served(engine: Engine) -> None:
    for ending in ({"exit": Exit(code=0)}, {"stopping": True}):
        engine.silent = {"a": anyio.Event()}
        [launch] = await adopted(Host("a"))
        for name, value in ending.items():
            setattr(launch, name, value)
        engine.silent["a"].set()
        assert not await tried(launch, cast("Any", None))
        assert not launch.broken


async def test_one_that_says_no_is_ended_at_once(engine: Engine) -> None:
    engine.says = Probe(Readiness.LOADING, "its port is not open yet")
    host = Host("a", "b")
    assert await adopted(host) == []
    assert sorted(host.stopped) == ["id-a", "id-b"]
