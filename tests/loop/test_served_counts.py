"""How many requests a process has served in all: over sleeps, and over managers."""

import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import psutil
import pytest

from reconciler.core.types import Instance, Manifest
from reconciler.host import Host, Ports, Process, Survivor, identify
from reconciler.host.identity import LINUX
from reconciler.leases import LeaseBook
from reconciler.loop.adopt import launch_of
from reconciler.loop.launches import Launch, Launches, record_of
from reconciler.loop.observe import SERVED_SECONDS, Observer
from reconciler.memory.machine import PsutilMachine
from reconciler.store import LaunchRecord


class Book:
    """A lease book that says what the test says."""

    def __init__(self) -> None:
        self.count = 0

    def demands(self) -> tuple[()]:
        return ()

    def last_used(self, model: str) -> float | None:
        return None

    def served(self, model: str) -> int:
        return self.count


@pytest.mark.anyio
async def test_what_a_process_has_served_is_recorded_now_and_then(tmp_path: Path) -> None:
    host, launches, book = Host(tmp_path / "state", "owner"), Launches(), Book()
    observer = Observer(host, PsutilMachine(), launches, cast("LeaseBook", book))
    launch = Launch("id", "m", "d", None, Process(2**22, 1), 9, 5.0, ready=True, served_before=10)
    launches.add(launch)
    launches.serve(launch)

    async def look(now: float) -> Instance:
        return (await observer.look(Manifest(()), {}, Ports(18100, 18199), now)).instances[0]

    book.count = 3
    seen = await look(0.0)
    assert (seen.served, seen.served_before, seen.began) == (3, 10, 5.0)
    assert observer.found_out() == [launch]
    assert record_of(launch, "boot").served == 13
    book.count = 4
    await look(SERVED_SECONDS - 1)
    assert observer.found_out() == []
    await look(SERVED_SECONDS)
    assert observer.found_out() == [launch]
    await look(3 * SERVED_SECONDS)
    assert observer.found_out() == [], "nothing new"
    host.close()


@pytest.mark.parametrize("clock", [0.0, 86400.0, -86400.0])
def test_one_of_an_earlier_run_is_as_old_as_it_is_and_has_served_what_it_had(clock: float) -> None:
    """However the time of day was set since it was started (`clock`: by how many seconds)."""
    me = identify(os.getpid())
    assert me is not None
    old = time.time() - psutil.Process().create_time()
    created = time.time() - old - (clock if LINUX else 0.0)
    record = LaunchRecord("id", "m", "d", me.pid, me.started, 9, "boot", True, created, served=7)
    launch = launch_of(cast("Survivor", SimpleNamespace(record=record, process=me)), {}, 100.0)
    assert (launch.served_before, launch.loaded_at) == (7, 100.0)
    assert launch.started_at == pytest.approx(100.0 - old, abs=5)
