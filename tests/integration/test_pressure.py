"""An outside program takes the memory: models give way in order, one at a time, and come back when it leaves."""

import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
import pytest

from hog import Hog
from manager import SOON, Asking, Manager, Streaming
from small_machine import SmallMachine, small_machine
from support import wait_for

MIB = 1 << 20
TOTAL = 800
WINDOW = 1.0
#: What a scripted engine holds besides what it is told to, in MiB; roughly.
BARE = 8


@pytest.fixture
def small() -> Iterator[SmallMachine]:
    with small_machine(TOTAL) as machine:
        yield machine


@pytest.fixture
def crowded(small: SmallMachine, tmp_path: Path) -> Iterator[tuple[Manager, Hog]]:
    """A manager in a small machine that is not started yet, and another program in there."""
    with Hog(small.enter) as hog, Manager(tmp_path, inside=small) as manager:
        yield manager, hog
        print(manager.output.read_text())  # shown with a failure
    assert small.kills == 0, "the system had to kill a process"


def holding(manager: Manager, name: str, mib: int, *options: str, **keys: Any) -> dict[str, object]:
    """Return a model that really holds about `mib` MiB and states so."""
    return manager.fake(name, "--rss-mib", str(mib - BARE), *options, size=mib, **keys)


def watched(window: float = WINDOW, **marks: object) -> dict[str, object]:
    """Return machine settings under which all of the machine is used and watched closely."""
    marks = {"soft": "75%", "hard": "85%", "critical": "95%", "target": "75%", "window": f"{window}s"} | marks
    return {"memory": "auto", "reserve": "40MiB", "watermarks": marks}


def fill(small: SmallMachine, hog: Hog, share: float) -> int:
    """Have the other program take so much that `share` of the machine is in use; return what it holds, in MiB."""
    hog.hold(0)
    mib = int(TOTAL * share) - small.anonymous // MIB
    hog.hold(mib)
    return mib


def at(line: dict[str, object]) -> float:
    """Return when a log line was written."""
    return datetime.fromisoformat(str(line["timestamp"])).timestamp()


def begun(manager: Manager) -> list[tuple[str, str]]:
    """Return the evictions begun so far, with their reasons."""
    return [(line["model"], line["reason"]) for line in manager.log("evict")]


def test_models_go_in_order_one_at_a_time_and_come_back(
    crowded: tuple[Manager, Hog], small: SmallMachine
) -> None:
    manager, hog = crowded
    models = {
        "low": holding(manager, "low", 60, priority="low", residency="warm", queue={"timeout": "1s"}),
        "medium": holding(manager, "medium", 100, priority="medium", residency="warm"),
        "high": holding(manager, "high", 100, priority="high", residency="warm"),
        "pin": holding(manager, "pin", 80, priority="batch", residency="pinned"),
    }
    manager.write(models, machine=watched())
    manager.start()
    before = manager.wait_ready("high", "pin", "low", "medium")
    manager.wait_calm()
    assert manager.condition("MemoryPressure") is None

    mine = fill(small, hog, 0.89)
    short = manager.wait_condition("MemoryPressure")
    assert "of the memory is in use" in short["message"]
    manager.wait_log("evicted", model="medium")
    # Down to the target and no further: one more would have to go only if it were still above it.
    wait_for(lambda: not manager.status()["memory"]["pressure"]["relieving"], SOON, "the end of the pressure")
    assert begun(manager) == [("low", "MemoryPressure"), ("medium", "MemoryPressure")]
    assert manager.status()["memory"]["pressure"]["used"] < 0.75
    assert manager.wait_ready("high", "pin") == before[:2]
    first, second = manager.log("evict")
    assert all("of the memory" in line["why"] for line in (first, second))
    assert manager.events("evict", "low") == [("MemoryPressure", first["why"])]
    # Between the two the machine was looked at anew, for as long as evidence takes.
    [gone] = manager.log("evicted", model="low")
    assert at(second) - at(gone) > WINDOW * 0.45
    # What was evicted is not brought back while there is no room below the soft mark ...
    assert {m["name"]: m["state"] for m in manager.status()["models"]} == {
        "high": "ready",
        "pin": "ready",
        "low": "cold",
        "medium": "cold",
    }
    # ... and a request for it waits, as long as its queue allows.
    hog.hold(mine + 110)
    waits = Asking(manager, "medium")
    refused = manager.ask("low")
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "queue_timeout")
    assert manager.wait_model("medium", waiting=1)["verdict"]["reason"] in ("InsufficientMemory", "Outranked")
    hog.hold(0)
    assert waits.status() == 200
    manager.wait_ready("high", "low", "medium")
    assert manager.wait_ready("pin") == before[1:2]
    assert len(manager.log("evict")) == 2
    wait_for(lambda: manager.condition("MemoryPressure") is None, SOON, "no pressure")


def test_a_calm_loop_notices_by_itself_long_before_its_next_look(
    crowded: tuple[Manager, Hog], small: SmallMachine
) -> None:
    manager, hog = crowded
    manager.write({"low": holding(manager, "low", 150, residency="warm")}, machine=watched())
    manager.start()
    manager.wait_ready("low")
    manager.wait_calm()  # from here on nobody asks for the status, which would have the loop look
    began = time.monotonic()
    fill(small, hog, 0.9)
    manager.wait_log("evicted", model="low")
    assert time.monotonic() - began < 9, (
        "that was no glance, but the look of a calm loop, which comes every 10 s"
    )


def test_a_short_spike_evicts_nobody(crowded: tuple[Manager, Hog], small: SmallMachine) -> None:
    manager, hog = crowded
    models = {name: holding(manager, name, 100, residency="warm") for name in ("alpha", "beta")}
    manager.write(models, machine=watched(window=5.0))
    manager.start()
    before = manager.wait_ready("alpha", "beta")
    mine = fill(small, hog, 0.7)
    manager.wait_calm()

    def share() -> float:
        memory = manager.status()["memory"]
        return 1 - float(memory["available"]) / float(memory["total"])

    began = time.monotonic()
    hog.hold(mine + TOTAL * 24 // 100)
    wait_for(lambda: share() > 0.9, SOON, "the spike")
    hog.hold(mine)
    wait_for(lambda: share() < 0.75, SOON, "the end of the spike")
    ended = time.monotonic()
    assert ended - began < 2.5, "too slow for a short spike"
    wait_for(
        lambda: share() and time.monotonic() - ended > 3.0, SOON, "all looks in the window to be later ones"
    )
    assert begun(manager) == []
    assert not manager.status()["memory"]["pressure"]["relieving"]
    assert manager.wait_ready("alpha", "beta") == before


def test_a_busy_model_goes_only_when_it_is_critical_and_then_nothing_spins(
    crowded: tuple[Manager, Hog], small: SmallMachine
) -> None:
    manager, hog = crowded
    models = {
        "busy": holding(
            manager, "busy", 60, "--stream", "600", "--delay", "0.05", timeouts={"drain": "0.5s"}
        ),
        "pin": holding(manager, "pin", 60, residency="pinned"),
    }
    # Far enough below the limit for the system not to kill anybody.
    manager.write(models, machine=watched(critical="92%"))
    manager.start()
    [pin] = manager.wait_ready("pin")
    stream = Streaming(manager.url, "busy")
    mine = fill(small, hog, 0.88)
    manager.wait_condition("MemoryPressure", reason="Hard")
    wait_for(
        lambda: manager.status()["memory"]["pressure"]["relieving"], SOON, "the hard mark passed for long"
    )
    seen = int(manager.status()["observation"])
    wait_for(lambda: int(manager.status()["observation"]) > seen + 25, SOON, "many looks more")
    assert begun(manager) == []
    assert not stream.done

    hog.hold(mine + TOTAL * 6 // 100)
    manager.wait_log("evicted", model="busy")
    assert begun(manager) == [("busy", "MemoryPressure")]
    [line] = manager.log("evict")
    assert "critical" in line["why"]
    assert manager.log("requests in flight get to end", model="busy")
    stream.join(SOON)
    assert not stream.done, "it was drained, but only for so long"

    # Still short, and nobody left to go: it is said, nothing is done, and it costs next to nothing.
    hog.hold(mine + TOTAL * 6 // 100 + 60)
    asking = Asking(manager, "busy", stream=False)
    manager.wait_condition("MemoryPressure", reason="Critical")
    waiting = manager.wait_model("busy", waiting=1, state="blocked")
    assert waiting["verdict"]["reason"] == "MemoryPressure"
    process, lines = psutil.Process(manager.pid), len(manager.log())
    used, began = sum(process.cpu_times()[:2]), time.monotonic()
    time.sleep(1.0)  # what is measured is what is done unasked
    share = (sum(process.cpu_times()[:2]) - used) / (time.monotonic() - began)
    assert share < 0.3, f"{share:.0%} of a core with nothing to do"
    assert len(manager.log()) == lines
    assert manager.wait_ready("pin") == [pin]
    hog.hold(0)
    assert asking.status() == 200


def test_a_single_run_relieves_the_pressure_before_it_ends(
    crowded: tuple[Manager, Hog], small: SmallMachine
) -> None:
    manager, hog = crowded
    manager.write({"alpha": holding(manager, "alpha", 100, residency="warm")}, machine=watched())
    assert manager.launch("--once").wait(SOON) == 0
    assert manager.processes("alpha")
    fill(small, hog, 0.9)
    assert manager.launch("--once").wait(SOON) == 0
    assert not manager.processes("alpha")
    assert begun(manager) == [("alpha", "MemoryPressure")]
