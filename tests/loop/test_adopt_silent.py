"""Processes of an earlier run are looked at side by side, and none that is silent holds up the others."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import anyio
import httpx
import pytest

from reconciler.boot import boot_id
from reconciler.core.launch import LaunchSpec, Sleep, launch_digest
from reconciler.core.types import ModelSpec
from reconciler.engines import registry
from reconciler.engines.adapter import Adapter
from reconciler.engines.base import Probe, Readiness
from reconciler.host import Exit, PortOwner, PortProof, Process, Survivor
from reconciler.host.origin import Origin, Recalled
from reconciler.loop import adopt as module
from reconciler.loop.adopt import adopt, tried, used_before
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
        #: Launches that no record knows.
        self.unknown: tuple[str, ...] = ()
        #: What some of these tell of themselves.
        self.told: dict[str, Recalled] = {}
        self.put: list[LaunchRecord] = []
        self.all_told = anyio.Event()
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
        return self.unknown

    def recall(self, launches: tuple[str, ...]) -> tuple[Recalled, ...]:
        return tuple(self.told[launch] for launch in launches if launch in self.told)

    async def stop(self, process: Process | None, launch: str, grace: float) -> None:
        self.stopped.append(launch)
        if len(self.stopped) >= len(set(self.unknown) - set(self.told)):
            self.all_told.set()
        if launch in self.unknown:  # each of them is deaf until all were told
            await self.all_told.wait()


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    made = Engine()
    monkeypatch.setattr(registry, "get", lambda name: made)
    monkeypatch.setattr(module, "FIRST_SECONDS", 0.05)
    return made


class Told:
    """A journal that only remembers what became of each model."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []

    async def adopted(self, launch: Launch, *, late: bool = False) -> None:
        self.said.append((launch.model, "late" if late else "adopted"))

    async def unknown_leftover(self, launch_id: str) -> None:
        self.said.append((launch_id, "unknown"))

    async def leftover(self, model: str, pids: tuple[int, ...], why: str) -> None:
        self.said.append((model, why))


TOLD: Any = Told()


async def adopted(host: Host) -> list[Launch]:
    """Return what is adopted."""

    async def launches() -> list[LaunchRecord]:
        return host.records

    async def drop(launch: str) -> None:
        """Forget one."""

    async def put(record: LaunchRecord) -> None:
        host.put.append(record)

    store: Any = SimpleNamespace(launches=launches, drop_launch=drop, put_launch=put)
    with anyio.fail_after(5):
        return await adopt(cast("Any", host), store, Keeper(), host.specs, cast("Any", None), 1.0, TOLD)


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
    assert await tried(found[0], cast("Any", None), TOLD)
    assert not found[0].on_trial


async def test_one_that_stays_silent_is_left_to_the_plan(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.silent = {"a": anyio.Event()}
    host = Host("a")
    [launch] = await adopted(host)
    monkeypatch.setattr(module, "PROBE_SECONDS", 0.1)
    assert not await tried(launch, cast("Any", None), TOLD)
    assert (launch.ready, launch.broken, host.stopped) == (False, True, [])


async def test_one_that_ended_or_is_being_stopped_meanwhile_is_not_served(engine: Engine) -> None:
    for ending in ({"exit": Exit(code=0)}, {"stopping": True}):
        engine.silent = {"a": anyio.Event()}
        [launch] = await adopted(Host("a"))
        for name, value in ending.items():
            setattr(launch, name, value)
        engine.silent["a"].set()
        assert not await tried(launch, cast("Any", None), TOLD)
        assert not launch.broken


async def test_one_that_says_no_is_left_to_the_plan(engine: Engine) -> None:
    engine.says = Probe(Readiness.LOADING, "its port is not open yet")
    found = await adopted(Host("a", "b"))
    assert [(x.model, x.ready, x.broken) for x in found] == [("a", False, True), ("b", False, True)]


async def test_what_no_record_knows_is_ended_side_by_side(engine: Engine) -> None:
    host = Host("well")
    host.unknown = ("x", "y", "z")
    assert [x.model for x in await adopted(host)] == ["well"]
    assert sorted(host.stopped) == ["x", "y", "z"]


def unrecorded(host: Host, *models: str) -> None:
    """Lose the records of these models; their processes tell what they are."""
    lost = [record for record in host.records if record.model in models]
    host.records = [record for record in host.records if record not in lost]
    for r in lost:
        process = Process(r.pid or 0, r.started or 0)
        host.told[r.launch_id] = Recalled(
            r.launch_id, process, Origin(r.model, r.digest, r.port, 1700000000.5, 77)
        )
    host.unknown = (*host.told, "tells-nothing")


async def test_what_tells_what_it_is_gets_its_record_back(engine: Engine) -> None:
    host = Host("a", "b")
    before = {record.model: record for record in host.records}
    unrecorded(host, "a")
    TOLD.said.clear()
    found = {launch.model: launch for launch in await adopted(host)}
    assert {m: (x.ready, x.rebuilt, x.admitted) for m, x in found.items()} == {
        "a": (True, True, 77),
        "b": (True, False, 0),
    }
    assert host.put == [replace(before["a"], created=1700000000.5, admitted=77)]
    assert host.stopped == ["tells-nothing"]
    assert sorted(TOLD.said) == [("a", "adopted"), ("b", "adopted"), ("tells-nothing", "unknown")]


async def test_what_is_recorded_anew_and_does_not_answer_yet_counts_as_half_loaded(engine: Engine) -> None:
    host = Host("a")
    unrecorded(host, "a")
    engine.says = Probe(Readiness.LOADING, "loading")
    TOLD.said.clear()
    [launch] = await adopted(host)
    assert (launch.ready, launch.broken) == (False, True)
    assert [(record.model, record.ready) for record in host.put] == [("a", False)]
    why = "the ledger was lost, and it is not known to be ready: it does not answer: loading"
    assert ("a", why) in TOLD.said


@pytest.mark.parametrize(
    ("says", "silent", "why"),
    [
        (Probe(Readiness.READY), False, ""),
        (Probe(Readiness.LOADING, "loading"), False, "it does not answer: loading"),
        (Probe(Readiness.READY), True, "it has not answered within 0.05 s"),
    ],
)
async def test_of_other_settings_and_recorded_anew_it_serves_only_if_it_answers(
    engine: Engine, says: Probe, silent: bool, why: str
) -> None:
    """It serves until it is replaced, so a half-loaded one must not pass for it."""
    host = Host("a")
    host.records = [replace(host.records[0], digest="of-yesterday")]
    unrecorded(host, "a")
    engine.says, engine.silent = says, {"a": anyio.Event()} if silent else {}
    TOLD.said.clear()
    [launch] = await adopted(host)
    assert (launch.digest, launch.spec, launch.on_trial) == ("of-yesterday", None, False)
    assert (launch.ready, launch.broken) == (not why, bool(why))
    said = f"the ledger was lost, and it is not known to be ready: {why}" if why else "adopted"
    assert ("a", said) in TOLD.said


async def test_of_a_model_that_left_the_manifest_nobody_is_asked(engine: Engine) -> None:
    host = Host("a")
    unrecorded(host, "a")
    host.specs.clear()
    [launch] = await adopted(host)
    assert (launch.ready, launch.spec, engine.asked) == (True, None, [])


@pytest.mark.parametrize(
    ("sleep", "wakes_later", "kept"),
    [(Sleep.LIGHT, False, False), (Sleep.LIGHT, True, True), (Sleep.OFF, False, True)],
)
async def test_what_may_sleep_is_not_taken_for_one_that_serves(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, sleep: Sleep, wakes_later: bool, kept: bool
) -> None:
    """It may answer a probe and nothing else; only the ledger knew whether it was awake."""
    host = Host("a")
    host.specs["a"] = replace(host.specs["a"], sleep=sleep)
    host.records = [replace(host.records[0], digest=launch_digest(host.specs["a"]))]
    monkeypatch.setattr(
        engine, "sleeper", lambda spec: SimpleNamespace(wakes_later=wakes_later), raising=False
    )
    unrecorded(host, "a")
    [launch] = await adopted(host)
    assert (launch.ready, launch.broken) == (kept, not kept)


@pytest.mark.parametrize(
    ("stage", "why"),
    [
        ("stopping", "it was being stopped when the last run ended"),
        ("sleeping", "it was going to sleep when the last run ended"),
        ("waking", "it was being woken when the last run ended"),
        ("", "it was being loaded when the last run ended"),
    ],
)
async def test_what_was_half_done_is_finished_and_said(engine: Engine, stage: str, why: str) -> None:
    host = Host("a", "b")
    host.records[0] = replace(host.records[0], ready=False, stage=stage)
    TOLD.said.clear()
    found = await adopted(host)
    assert [(x.model, x.ready, x.broken) for x in found] == [("a", False, True), ("b", True, False)]
    assert host.stopped == [], "it may be deaf: nobody else is to wait until it has ended"
    assert sorted(TOLD.said) == [("a", why), ("b", "adopted")]


@pytest.mark.parametrize(
    ("used", "ttl", "counts_from"),
    [
        (950.0, 300.0, 950.0),  # what was left of it goes on
        (100.0, 300.0, 710.0),  # it was over while nobody ruled: ten seconds for clients to come back
        (2000.0, 300.0, 1000.0),  # of a clock that was ahead
        (100.0, 5.0, 1000.0),
        (100.0, None, 100.0),
        (None, 300.0, None),
    ],
)
def test_the_idle_time_of_an_adopted_model_goes_on(
    used: float | None, ttl: float | None, counts_from: float | None
) -> None:
    launch = Launch("id", "a", "d", None, Process(1, 1), 9, 0.0, used_at=used)
    assert used_before(launch, ModelSpec("a", "d", idle_ttl=ttl), 1000.0) == counts_from
