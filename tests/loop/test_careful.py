"""Adapters that raise what they must not: one step fails or something is unknown, and nothing ends."""

from typing import Any, NoReturn, cast

import httpx
import pytest
from structlog.testing import capture_logs

from reconciler.core.launch import LaunchSpec
from reconciler.core.types import Reason
from reconciler.engines import registry
from reconciler.engines.base import Engine, EngineError, Readiness, Server, Sleeper
from reconciler.host import Ports
from reconciler.loop import careful
from reconciler.loop.startable import preflight

pytestmark = pytest.mark.anyio
SPEC = LaunchSpec("m", "odd")
CLIENT = cast("httpx.AsyncClient", None)
SERVER = Server(SPEC, "http://127.0.0.1:1", CLIENT)


class Naps(Sleeper):
    """Raises whatever it is asked."""

    async def sleep(self, server: Server) -> NoReturn:
        raise RecursionError("deep")

    wake = sleep


class Odd:
    """Every method raises at once, or once it is awaited."""

    name = "odd"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __getattr__(self, method: str) -> Any:
        if method in ("probe", "jobs"):
            return self._later
        return self._now

    def _now(self, *_: object) -> NoReturn:
        raise KeyError("secret")

    async def _later(self, *_: object) -> NoReturn:
        raise RecursionError("deep")


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> careful.Careful:
    monkeypatch.setattr(careful, "_WRONG", {})
    monkeypatch.setattr(registry, "get", lambda name: cast("Engine", Odd()))
    return careful.get("odd")


async def test_what_an_adapter_raises_is_unknown(engine: careful.Careful) -> None:
    probe = await engine.probe(SPEC, SERVER.base_url, CLIENT)
    assert (probe.readiness, probe.detail) == (Readiness.FAILED, "a fault of its adapter: RecursionError")
    assert await engine.jobs(SERVER) is None
    assert engine.has_jobs(SPEC) is False
    unknown = [
        *(engine.sleeper(SPEC), engine.saver(SPEC), engine.api_key(SPEC), engine.upstream_model(SPEC)),
        *(engine.parallel(SPEC), engine.said(""), engine.explain("", 1)),
    ]
    assert unknown == [None] * 7
    with pytest.raises(EngineError, match=r"a fault of its adapter: KeyError$"):
        engine.command(SPEC, 1)


async def test_sleep_and_wake_raise_engine_errors_only(
    engine: careful.Careful, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Odd, "sleeper", lambda self, spec: Naps(), raising=False)
    sleeper = engine.sleeper(SPEC)
    assert sleeper is not None
    for call in (sleeper.sleep, sleeper.wake):
        with pytest.raises(EngineError, match="RecursionError"):
            await call(SERVER)


async def test_the_same_fault_is_logged_once(engine: careful.Careful) -> None:
    with capture_logs() as lines:
        for _ in range(3):
            await engine.jobs(SERVER)
    assert [(line["engine"], line["method"], type(line["exc_info"])) for line in lines] == [
        ("odd", "jobs", RecursionError)
    ]


async def test_a_preflight_that_raises_hinders_its_own_model(engine: careful.Careful) -> None:
    found = preflight(SPEC, {}, Ports(1, 2))
    assert (found.reason, found.message) == (Reason.NOT_STARTABLE, "a fault of its adapter: KeyError")
