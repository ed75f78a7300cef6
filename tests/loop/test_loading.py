"""When a process becomes the model's server: what it answers, whose port that is, and what became of its state."""

from collections.abc import AsyncIterator, Awaitable
from types import SimpleNamespace
from typing import cast

import anyio
import httpx
import pytest

from reconciler.core import machine
from reconciler.core.crashes import FailureKind, Starved
from reconciler.core.launch import LaunchSpec
from reconciler.core.types import Load, ModelSpec, Reason
from reconciler.engines import registry
from reconciler.engines.adapter import Adapter
from reconciler.engines.base import Probe, Readiness
from reconciler.host import Exit, PortOwner, PortProof, Ports, Process
from reconciler.leases import LeaseBook, QueueLimits
from reconciler.loop import loading
from reconciler.loop.hands import Hands, Outcome
from reconciler.loop.launches import Launch, Launches
from reconciler.loop.loading import Loader
from reconciler.loop.readiness import LoadError, until_ready
from reconciler.memory.oom_kills import Kills

pytestmark = pytest.mark.anyio
SPEC = LaunchSpec("m", "fake")
READY, FAILED = Probe(Readiness.READY), Probe(Readiness.FAILED, "it answers /health with 503")
LOADING = Probe(Readiness.LOADING, "it accepts connections but does not answer yet")


class Engine(Adapter):
    """Answers probes as it is told; the last answer for ever."""

    name = "fake"

    def __init__(self) -> None:
        self.probes = [READY]
        self.hangs = False

    async def probe(self, spec: LaunchSpec, base_url: str, client: httpx.AsyncClient) -> Probe:
        if self.hangs:
            await anyio.sleep_forever()
        return self.probes.pop(0) if len(self.probes) > 1 else self.probes[0]

    def explain(self, log_tail: str, exit_status: int | None) -> str | None:
        return "it does not know the architecture xyz" if "xyz" in log_tail else None


class Desk:
    """A loader with hands that do nothing, and one launch."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.lines = ["ValueError: Model type xyz not supported."]
        self.owners = [PortOwner.OURS]
        self.cold = ""
        self.book = LeaseBook(lambda: None)
        self.book.configure({"m": QueueLimits()})
        self.launch = Launch("id", "m", "d", SPEC, Process(1, 1), 9, 0.0)
        #: What the kernel did in the control group of its own.
        self.kills: Kills | None = None
        self.hands = SimpleNamespace(
            clock=anyio.current_time,
            host=SimpleNamespace(
                logs=SimpleNamespace(tail=lambda model, lines: self.lines),
                owns_port=self.owns_port,
                serving=lambda process, launch, limits: None,
                kills=lambda launch: self.kills,
            ),
            observer=SimpleNamespace(
                measure=nothing, ready=nothing, oom=SimpleNamespace(starved=lambda pid, *, ours: Starved.NO)
            ),
            states=SimpleNamespace(restore=self.restore),
            launches=Launches(),
            book=self.book,
            record=nothing,
            tell=lambda progress: None,
            end=lambda launch, grace, failed: nothing(result=machine.Failed(None)),
        )
        self.loader = Loader(cast("Hands", self.hands), Ports(1, 2), lambda launch: None)

    def owns_port(self, process: Process, launch: str, port: int) -> PortProof:
        owner = self.owners.pop(0) if len(self.owners) > 1 else self.owners[0]
        return PortProof(owner, port, pid=77)

    async def restore(self, launch: Launch) -> str:
        return self.cold

    async def wait(self) -> None:
        """Wait until it is ready."""
        with anyio.fail_after(10):
            await until_ready(
                cast("Hands", self.hands), self.loader.http, self.launch, SPEC, lambda text: None
            )

    async def admit(self) -> str:
        """Open it, or return why not."""
        with anyio.fail_after(10):
            failure = await self.loader._admit(self.launch, SPEC)
            return "" if failure is None else failure.text

    @property
    def open(self) -> bool:
        """Whether requests are let in."""
        return self.book.endpoint("m") is not None or self.launch.ready


async def nothing(*_: object, result: object = None, **__: object) -> object:
    """Do nothing."""
    return result


async def loaded(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, start: Awaitable[object] | None = None
) -> Outcome:
    """Return what came of a whole load of the one launch."""
    monkeypatch.setattr(
        desk.loader, "_start", lambda action, spec: nothing(result=desk.launch) if start is None else start
    )
    monkeypatch.setattr(desk.loader, "_watched", nothing)
    step = Load("m", "d", needs=1, reason=Reason.DEMANDED)
    with anyio.fail_after(10):
        return await desk.loader.load(step, ModelSpec("m", "d"), SPEC, expected=None)


@pytest.fixture
async def desk(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    engine = Engine()
    monkeypatch.setattr(registry, "get", lambda name: engine)
    made = Desk(engine)
    yield made
    await made.loader.aclose()


async def test_one_that_its_own_limit_ended_is_told_as_that(desk: Desk) -> None:
    desk.kills = Kills(1, 60 << 20)
    desk.engine.probes = [LOADING, FAILED]
    with pytest.raises(
        LoadError, match=r"killed by its own limits\.memory of 60 MiB: raise it or lower"
    ) as caught:
        await desk.wait()
    assert caught.value.kind is FailureKind.OVER_LIMIT


async def test_a_server_that_says_it_has_failed_is_explained_by_its_log(desk: Desk) -> None:
    desk.engine.probes = [LOADING, FAILED]
    with pytest.raises(LoadError) as caught:
        await desk.wait()
    assert str(caught.value) == (
        "the server will not become ready: it answers /health with 503; it does not know the architecture xyz;"
        " its last line: ValueError: Model type xyz not supported."
    )


async def test_a_refusal_is_believed_only_on_a_port_that_is_ours(desk: Desk) -> None:
    desk.engine.probes = [FAILED]
    desk.owners = [PortOwner.STRANGER]
    with pytest.raises(LoadError) as caught:
        await desk.wait()
    assert str(caught.value) == PortProof(PortOwner.STRANGER, 9, pid=77).message

    # Whoever answered is gone again, and our own process comes up.
    desk.engine.probes, desk.owners = [FAILED, READY], [PortOwner.NOBODY, PortOwner.OURS]
    await desk.wait()


async def test_a_model_that_answers_is_opened(desk: Desk) -> None:
    assert await desk.admit() == ""
    assert desk.open
    endpoint = desk.book.endpoint("m")
    assert endpoint is not None
    assert endpoint.exited is desk.launch.exited


@pytest.mark.parametrize("cold", ["", "it did not answer /load_state"])
async def test_a_process_that_ended_while_its_state_was_restored_is_opened_to_nobody(
    desk: Desk, cold: str
) -> None:
    desk.cold, desk.launch.exit = cold, Exit(signal=9)
    said = await desk.admit()
    assert said.startswith("the process ended while its state was restored: killed by SIGKILL (9)")
    assert not desk.open


@pytest.mark.parametrize("dies", [True, False])
async def test_what_befalls_a_restore_lets_a_new_process_try(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    if dies:
        desk.cold = "it closed the connection"
    else:
        monkeypatch.setattr(desk.engine, "api_key", lambda spec: setattr(desk.launch, "exit", Exit(code=3)))

    async def restore(launch: Launch) -> str:
        launch.exit = Exit(signal=9) if dies else None
        return desk.cold

    desk.hands.states.restore = restore
    outcome = await loaded(desk, monkeypatch)
    assert (outcome.afresh, bool(outcome.error)) == (dies, True)


async def test_a_process_that_ends_just_before_it_is_opened_is_opened_to_nobody(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def key(spec: LaunchSpec) -> None:
        desk.launch.exit = Exit(code=3)

    monkeypatch.setattr(desk.engine, "api_key", key)
    assert (await desk.admit()).startswith("the process ended before it was ready: exit code 3")
    assert not desk.open


async def test_after_a_restore_that_went_wrong_it_has_to_answer_once_more(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.cold = "it took longer than state.timeout (2 s)"
    assert await desk.admit() == ""

    monkeypatch.setattr(loading, "ANSWER_SECONDS", 0.05)
    desk.launch.ready = False
    desk.book.close("m")
    desk.engine.hangs = True
    said = await desk.admit()
    assert said.startswith(
        "it has not answered within 0.05 s after its state was not restored (it took longer"
    )
    assert not desk.open


async def test_a_load_has_taken_as_long_as_it_kept_requests_waiting(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Restoring its state counts, and what is measured and noted once it serves does not."""
    time = 100.0

    async def passes(seconds: float, result: object = None) -> object:
        nonlocal time
        time += seconds
        return result

    desk.hands.clock = lambda: time
    desk.hands.states.restore = lambda launch: passes(3.0, "")
    desk.hands.observer.measure = lambda launch, now: passes(7.0)
    outcome = await loaded(desk, monkeypatch, passes(2.0, desk.launch))
    assert isinstance(outcome.event, machine.Ready)
    assert outcome.seconds == 5.0
    assert desk.launch.loaded_at == 105.0
