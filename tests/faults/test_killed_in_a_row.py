"""kill -9 of the manager under load, many times in a row, each time started again as people do: imports and all."""

import os
import time
from pathlib import Path
from statistics import median
from typing import Final

import pytest

from faults.crowd_of_clients import Crowd
from faults.oracle import clients, judge, lock_is_free, witnesses
from faults.rig import Rig, standing
from manager import Sampler, process_fields
from support import get_json, wait_for

#: Seconds of the processor that a manager may take until it is ready: what a start takes on a machine that is idle.
READY: Final = 2.0
#: Of the machine's clock, where others use it as well.
READY_AT_LAST: Final = 30.0
TICKS: Final = os.sysconf("SC_CLK_TCK")


def processor(pid: int) -> float:
    """Return the seconds of the processor that a process has used."""
    user, system = process_fields(pid)[11:13]
    return (int(user) + int(system)) / TICKS


def ready(rig: Rig) -> bool:
    """Return whether the manager answers, and has everything that is pinned."""
    said = get_json(f"{rig.url}/readyz", 5)
    return isinstance(said, dict) and said.get("status") == "ready"


def again(rig: Rig) -> tuple[float, float]:
    """Start the manager; return what it took until it was ready, in seconds of the clock and of the processor."""
    began = time.monotonic()
    rig.begin_to_serve()
    wait_for(lambda: ready(rig), READY_AT_LAST, "a manager that is ready")
    took = time.monotonic() - began, processor(rig.pid)
    rig.back()
    return took


# Each start may take READY_AT_LAST, and so may the answers after it, on a machine that does other things as well.
@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(3, marks=pytest.mark.timeout(240)),
        pytest.param(50, marks=[pytest.mark.slow_faults, pytest.mark.timeout(900)]),
    ],
)
def test_killed_in_a_row_under_load(kills: int, tmp_path: Path) -> None:
    with standing(tmp_path, None) as rig:
        rig.begin()
        rig.loaded("chat")
        tags = {name: rig.tag(name) for name in ("pin", "chat")}
        took: list[tuple[float, float]] = []
        with Crowd(rig, ["chat", "pin", "chat"]) as crowd, Sampler(tags) as table:
            for number in range(kills):
                answered = crowd.answered()
                wait_for(lambda: crowd.answered() > answered + 5, READY_AT_LAST, "requests that are answered")  # noqa: B023
                rig.kill()
                assert lock_is_free(rig), f"the lock outlived its holder at kill {number + 1}"
                took.append(again(rig))
                assert list(witnesses(rig)) == [], f"kill {number + 1}"
            answered = crowd.answered()
            wait_for(lambda: crowd.answered() > answered + 5, READY_AT_LAST, "requests that are answered")
        assert max(table.most([name]) for name in tags) == 1, "a model ran twice"
        assert list(clients(rig)) == []
        judge(rig)
        clock, cpu = zip(*took, strict=True)
        print(f"{kills} kills, {len(rig.asked)} requests: {dict(crowd.ends())}")
        print(
            f"ready after {median(clock):.2f} s (most {max(clock):.2f} s), of the processor {median(cpu):.2f} s"
        )
        assert crowd.ends()["odd"] == 0
        assert median(cpu) < READY
