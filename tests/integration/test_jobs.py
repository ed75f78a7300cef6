"""Engines that answer at once and work on: their models stay until the work is done, or the time for it is over."""

import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from manager import SOON, Asking, running
from nursery import Nursery
from scripted import ScriptedManager
from support import wait_for

JOB = 2.0


@pytest.fixture
def manager(tmp_path: Path, nursery: Nursery) -> Iterator[ScriptedManager]:
    """A manager that is not started yet."""
    with ScriptedManager(tmp_path, nursery=nursery) as made:
        yield made


def at(line: dict[str, Any]) -> float:
    """Return when something was logged, by the wall clock."""
    return datetime.fromisoformat(line["timestamp"]).timestamp()


def test_a_model_stays_while_it_works_on(manager: ScriptedManager) -> None:
    """Neither for another one's sake, nor because its own time is over; and it is told what it does."""
    models = {
        "pictures": manager.scripted("pictures", "--job", str(JOB), size=200),
        "once": manager.scripted("once", "--job", str(JOB), residency="transient"),
        "chat": manager.fake("chat", size=200),
    }
    manager.write(models, memory=300)
    manager.start()
    assert [manager.ask(name).status_code for name in ("pictures", "once")] == [200, 200]
    answered = time.time()
    asking = Asking(manager, "chat")
    found = manager.wait_model("pictures", jobs=1)
    assert found["verdict"]["detail"] == "1 job being worked on"
    assert found["idle"] == 0.0
    assert asking.status() == 200
    assert at(manager.log("evicted", model="pictures")[-1]) - answered >= JOB * 0.5
    wait_for(lambda: not manager.processes("once"), SOON, "the end of a transient model")
    assert manager.wait_log("evicted", model="once")
    assert manager.log("evict", model="once")[-1]["reason"] == "TransientDone"
    assert time.time() - answered >= JOB * 0.5
    assert manager.log("requests are cut: timeouts.drain has passed") == []
    assert manager.log("model died") == []


def test_work_gets_until_the_drain_deadline(manager: ScriptedManager) -> None:
    entry = manager.scripted("pictures", "--job", "300", timeouts={"drain": "1s"})
    manager.write({"pictures": entry})
    manager.start()
    assert manager.ask("pictures").status_code == 200
    [pid] = manager.wait_ready("pictures")
    manager.wait_model("pictures", jobs=1)
    manager.cli("evict", "pictures")
    wait_for(lambda: not running(pid), SOON, "the end of one whose work takes too long")
    drains = manager.wait_log("requests in flight get to end", model="pictures", jobs=1)
    cut = manager.wait_log("requests are cut: timeouts.drain has passed", model="pictures", jobs=1)
    assert at(cut) - at(drains) >= 0.9
