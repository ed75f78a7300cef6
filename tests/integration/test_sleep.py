"""Models that give their memory back without ending, through the whole program, with memory that is really freed."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from manager import SOON, Asking, running
from nursery import Nursery
from reconciler.store.paths import DATABASE
from reconciler.store.readonly import peek
from scripted import OWN, ScriptedManager, anonymous
from support import wait_for

HOLD = 160
#: Of so many MiB either model has its room, not both.
MEMORY = 300


@pytest.fixture
def manager(tmp_path: Path, nursery: Nursery) -> Iterator[ScriptedManager]:
    """A manager that is not started yet."""
    with ScriptedManager(tmp_path, nursery=nursery) as made:
        yield made


def put_to_sleep(manager: ScriptedManager) -> int:
    """Load `sleepy` and have `other` displace it; return the pid of `sleepy`."""
    models = {
        "sleepy": manager.sleepy("sleepy", hold=HOLD),
        "other": manager.fake("other", size=200),
        "third": manager.fake("third", size=MEMORY - 200),
    }
    manager.write(models, memory=MEMORY)
    manager.start()
    assert manager.ask("sleepy").status_code == 200
    [pid] = manager.wait_ready("sleepy")
    assert anonymous(pid) >= HOLD
    displace(manager)
    return pid


def displace(manager: ScriptedManager) -> None:
    assert manager.ask("other").status_code == 200
    manager.wait_model("sleepy", state="asleep")


def test_a_model_sleeps_is_woken_by_the_next_request_and_is_the_first_to_go(manager: ScriptedManager) -> None:
    pid = put_to_sleep(manager)
    slept = manager.model("sleepy")
    assert slept["pid"] == pid
    assert anonymous(pid) < OWN
    assert 0 < slept["held"] < OWN << 20
    assert slept["verdict"]["outcome"] == "cold"
    assert slept["verdict"]["detail"].startswith("asleep, holds ")
    assert slept["verdict"]["detail"].endswith(": wakes when a request asks for it")
    [evict] = manager.log("evict", model="sleepy")
    assert evict["why"].endswith(", sleeps")
    assert [reason for reason, _ in manager.events("asleep")] == ["MakeRoom"]
    memory = manager.status()["memory"]
    assert memory["held"] == slept["held"] + (200 << 20), "what it holds asleep counts"

    answer = manager.ask("sleepy")
    assert (answer.status_code, answer.json()["pid"]) == (200, pid)
    assert anonymous(pid) >= HOLD
    manager.wait_log("loaded", model="sleepy", woken=True)
    assert manager.log("load", model="sleepy")[-1]["why"].startswith("wakes, 1 request waiting")
    assert manager.steps() == [
        *("load sleepy", "loaded sleepy", "evict sleepy", "load other", "loaded other"),
        *("evict other", "evicted other", "load sleepy", "loaded sleepy"),
    ]

    # `third` has room beside `other` only without what sleeps.
    displace(manager)
    with peek(manager.state_dir / DATABASE) as store:
        assert [x.served for x in store.launches() if x.model == "sleepy"] == [2], (
            "before its sleep and after it"
        )
    assert manager.ask("third").status_code == 200
    wait_for(lambda: not running(pid), SOON, "the end of what sleeps")
    last = manager.log("evict", model="sleepy")[-1]
    assert (last["reason"], last["for_model"]) == ("MakeRoom", "third")
    assert last["why"] == "priority 500 = 500, asleep"
    assert len(manager.log("sleeps", model="sleepy")) == 2
    assert len(manager.log("evicted", model="sleepy")) == 1
    assert manager.model("other")["state"] == "ready"
    assert manager.model("sleepy")["state"] == "cold"


def test_one_that_gives_nothing_back_or_does_not_wake_is_ended(manager: ScriptedManager) -> None:
    models = {
        "liar": manager.sleepy("liar", "--sleep-lies", hold=HOLD),
        "rude": manager.sleepy("rude", "--sleep-says", "500", hold=HOLD),
        "dull": manager.sleepy("dull", "--wake-lies", hold=HOLD),
        "stiff": manager.sleepy("stiff", "--wake-says", "500", hold=HOLD),
        "stuck": manager.sleepy("stuck", "--wake-takes", "99", hold=HOLD, timeouts={"load": 1.5}),
    }
    manager.write(models, memory=MEMORY)
    manager.start()
    for name in ("liar", "rude", "liar", "stiff"):
        assert manager.ask(name).status_code == 200
    for name, why in (("liar", "it gave "), ("rude", "/sleep answers 500")):
        said = manager.wait_log("it is stopped instead of sleeping, from now on", model=name)
        assert why in said["why"]
        assert manager.wait_log("evicted", model=name), "in the same step"
    # The same settings are not asked again.
    first, second = manager.log("evict", model="liar")
    assert (first["why"].endswith("sleeps"), second["why"].endswith("sleeps")) == (True, False)

    [pid] = manager.wait_ready("stiff")
    assert manager.ask("rude").status_code == 200
    manager.wait_model("stiff", state="asleep", pid=pid)
    loaded_anew(manager, "stiff", pid, "it could not be woken: /wake_up answers 500")

    pid = manager.ask("dull").json()["pid"]
    assert manager.ask("rude").status_code == 200
    manager.wait_model("dull", state="asleep", pid=pid)
    loaded_anew(manager, "dull", pid, "it says that it woke, and has taken ")

    pid = manager.ask("stuck").json()["pid"]
    assert manager.ask("liar").status_code == 200
    manager.wait_model("stuck", state="asleep", pid=pid)
    loaded_anew(manager, "stuck", pid, "not ready within 1.5 s")


def loaded_anew(manager: ScriptedManager, name: str, pid: int, why: str) -> None:
    """Ask one that will not wake: the request waits for a new process, and that counts as one failure."""
    answer = manager.ask(name)
    assert answer.status_code == 200
    assert answer.json()["pid"] != pid
    assert not running(pid)
    said = manager.wait_log("it did not wake: it is loaded anew", model=name)
    assert why in said["error"]
    assert manager.model(name)["failures"] == 1


def test_the_next_manager_adopts_what_sleeps_and_its_death_is_in_nobodys_way(
    manager: ScriptedManager,
) -> None:
    pid = put_to_sleep(manager)
    manager.kill()
    manager.start()
    assert manager.wait_model("sleepy", state="asleep")["pid"] == pid
    assert manager.log("adopted", model="sleepy", pid=pid)
    assert manager.ask("sleepy").json()["pid"] == pid
    displace(manager)
    os.kill(pid, signal.SIGKILL)
    manager.wait_log("it ended while it slept", model="sleepy", pid=pid)
    found = manager.wait_model("sleepy", state="cold")
    assert (found["failures"], found["held"]) == (0, 0)
    again = manager.ask("sleepy").json()["pid"]
    displace(manager)
    # Other settings: what sleeps with the old ones is of no use.
    manager.write({"sleepy": manager.sleepy("sleepy", "--think", "0.01", hold=HOLD)}, memory=MEMORY)
    wait_for(lambda: not running(again), SOON, "the end of old settings")
    assert manager.ask("sleepy").status_code == 200
    manager.write(
        {"sleepy": manager.sleepy("sleepy", "--think", "0.01", idle_ttl=0.2, hold=HOLD)}, memory=MEMORY
    )
    last = int(manager.wait_model("sleepy", state="asleep")["pid"])
    assert manager.stop() == 0
    assert not running(last)


def test_without_the_ledger_nobody_is_sent_to_one_that_sleeps(manager: ScriptedManager) -> None:
    """Whether it sleeps nobody knows any more; a model that cannot sleep is adopted."""
    pid = put_to_sleep(manager)
    [other] = manager.wait_ready("other")
    manager.kill()
    for file in manager.state_dir.glob("ledger.db*"):
        file.unlink()
    manager.start()
    assert manager.log("adopted", model="other", pid=other)
    assert manager.wait_log("ending a leftover", model="sleepy")["reason"].endswith(
        "it may sleep, which only the ledger knew"
    )
    wait_for(lambda: not running(pid), SOON, "the end of one that may sleep")
    assert manager.wait_ready("other") == [other]
    answer = manager.ask("sleepy")
    assert answer.status_code == 200
    assert answer.json()["pid"] != pid
    assert manager.stop() == 0


def test_a_manager_that_ends_while_a_model_goes_to_sleep_leaves_nothing_half_asleep(
    manager: ScriptedManager,
) -> None:
    models = {
        "slow": manager.sleepy("slow", "--sleep-takes", "60", hold=HOLD),
        "other": manager.fake("other", size=200),
    }
    manager.write(models, memory=MEMORY)
    manager.start()
    pid = manager.ask("slow").json()["pid"]
    Asking(manager, "other")
    wait_for(lambda: half_asleep(manager), SOON, "the record")
    manager.kill()
    manager.start()
    assert manager.wait_log("ending a leftover", model="slow")["reason"].startswith("it was going to sleep")
    wait_for(lambda: not running(pid), SOON, "the end of one that is half asleep")

    pid = manager.ask("slow").json()["pid"]
    Asking(manager, "other")
    wait_for(lambda: half_asleep(manager), SOON, "the record")
    began = time.monotonic()
    assert manager.stop() == 0
    assert time.monotonic() - began < 10.0, "30 s were its own"
    assert not running(pid)


def half_asleep(manager: ScriptedManager) -> bool:
    with peek(manager.state_dir / DATABASE) as store:
        return any(x.pid is not None and not x.ready and x.model == "slow" for x in store.launches())
