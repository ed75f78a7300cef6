"""How often a server is asked for its jobs, and what an action may take that includes a sleep."""

from types import SimpleNamespace
from typing import cast

import httpx
import pytest

from reconciler.core.launch import LaunchSpec
from reconciler.core.machine import SLEEP_SECONDS, Evicting, Limits, advance
from reconciler.core.types import Evict, Reason
from reconciler.engines import registry
from reconciler.engines.adapter import Adapter
from reconciler.engines.base import Server
from reconciler.host import Process
from reconciler.loop.hands import Hands
from reconciler.loop.jobs import SLOW_SHARE, Jobs
from reconciler.loop.launches import Launch, Launches

SPEC = LaunchSpec("m", "busy")


class Busy(Adapter):
    """Says that it has one job, and takes its time for that."""

    name = "busy"

    def __init__(self, clock: SimpleNamespace) -> None:
        self.clock = clock

    def has_jobs(self, spec: LaunchSpec) -> bool:
        return True

    async def jobs(self, server: Server) -> int | None:
        self.clock.now += 2.0
        return 1


@pytest.mark.anyio
async def test_a_server_that_is_slow_to_say_what_it_does_is_asked_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, launches = SimpleNamespace(now=100.0), Launches()
    monkeypatch.setattr(registry, "get", lambda name: Busy(clock))
    book = SimpleNamespace(works_on=lambda model: 0, jobs=lambda model, count: None)
    hands = SimpleNamespace(launches=launches, book=book, clock=lambda: clock.now)
    jobs = Jobs(cast("Hands", hands), cast("httpx.AsyncClient", None))
    launch = Launch("id", "m", "d", SPEC, Process(1, 1), 9, 0.0, ready=True)
    assert not jobs._due(launch), "it does not serve"
    launches.serve(launch)
    assert jobs._due(launch)
    await jobs._ask_once(launch)
    assert not jobs._due(launch)
    clock.now = 102.0 + 2.0 * SLOW_SHARE
    assert jobs._due(launch)


@pytest.mark.parametrize("sleep", [False, True])
def test_the_deadline_of_an_eviction_includes_the_sleep(sleep: bool) -> None:
    ends = []
    for asked in (False, sleep):
        step = Evict("m", 1, 1, 0, Reason.IDLE_EXPIRED, sleep=asked)
        state = advance(Evicting(step, 0.0, 0.0), Limits(5.0, 1.0), 0.0)
        assert isinstance(state, Evicting)
        ends.append(state.deadline)
    assert ends[1] - ends[0] == (SLEEP_SECONDS if sleep else 0.0)
