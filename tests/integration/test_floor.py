"""A load that drives memory through the floor is given up while the machine still answers, and not repeated blindly."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hog import Hog
from manager import SOON, Asking, Manager
from small_machine import SmallMachine, small_machine
from support import wait_for

MIB = 1 << 20
TOTAL = 1000
#: Kept free. Generous: between two looks a model takes some dozens of MiB, and nobody may be killed.
RESERVE = 300
MACHINE = {"memory": "auto", "reserve": f"{RESERVE}MiB", "watermarks": {"window": "2s"}}


@pytest.fixture
def small() -> Iterator[SmallMachine]:
    with small_machine(TOTAL) as machine:
        yield machine


@pytest.fixture
def narrow(small: SmallMachine, tmp_path: Path) -> Iterator[tuple[Manager, Hog]]:
    """A manager in a small machine that is not started yet, and another program in there."""
    with Hog(small.enter) as hog, Manager(tmp_path, inside=small) as manager:
        yield manager, hog
        print(manager.output.read_text())  # shown with a failure
    assert small.kills == 0, "the system had to kill a process"


def test_a_load_that_takes_far_more_than_it_was_given_is_ended(narrow: tuple[Manager, Hog]) -> None:
    manager, hog = narrow
    models = {
        "greedy": manager.fake("greedy", "--load", "5", "--load-mib", "700", size=100),
        "calm": manager.fake("calm", size=30, priority="low"),
    }
    manager.write(models, machine=MACHINE)
    manager.start()
    answer = manager.ask("calm")
    assert answer.status_code == 200, answer.text
    [calm] = manager.wait_ready("calm")
    hog.hold(380)
    asking = Asking(manager, "greedy")
    assert asking.status() == 502
    assert asking.answer is not None
    error = asking.answer.json()["error"]
    assert error["code"] == "load_failed"
    text = error["message"]
    assert "where 100 MiB were expected" in text
    assert f"{RESERVE} MiB are kept free" in text
    line = manager.wait_log("load failed", model="greedy")
    assert line["error"] in text
    [(reason, event)] = wait_for(lambda: manager.events("load-failed", "greedy"), SOON, "the event")
    assert (reason, event) == ("KilledByUs", line["error"])
    assert line["error"] in manager.cli("explain", "greedy").stdout.replace("\n", " ")
    wait_for(lambda: not manager.processes("greedy"), SOON, "the end of the load")

    # What it took counts: it is not tried again at 100 MiB, but once there is room for what it is known to need.
    known = manager.model("greedy")
    assert known["memory"]["peak"] > 150 * MIB
    assert manager.wait_ready("calm") == [calm]
    assert manager.log("evict") == []
    again = Asking(manager, "greedy")
    wait_for(
        lambda: manager.model("greedy")["verdict"]["reason"] == "InsufficientMemory",
        SOON,
        "that it waits for room",
    )
    assert len(manager.log("load", model="greedy")) == 1
    assert not again.answer


def test_a_load_whose_memory_somebody_else_takes_is_repeated_without_blame(
    narrow: tuple[Manager, Hog], tmp_path: Path
) -> None:
    manager, hog = narrow
    go = tmp_path / "go"
    slow = manager.fake("slow", "--rss-mib", "150", "--load-until", str(go), size=200)
    manager.write({"slow": slow}, machine=MACHINE)
    manager.start()
    asking = Asking(manager, "slow")
    wait_for(lambda: manager.processes("slow"), SOON, "a load that has begun")
    hog.hold(700)
    given_up = manager.wait_log("given up", model="slow")
    assert "other programs took what it needs" in given_up["why"]
    events = wait_for(lambda: manager.events("given-up", "slow"), SOON, "the event")
    assert [reason for reason, _ in events] == ["Demanded"]
    wait_for(lambda: not manager.processes("slow"), SOON, "the end of the load")
    waiting = manager.wait_model("slow", waiting=1, failures=0, state="blocked")
    assert waiting["verdict"]["reason"] in ("InsufficientMemory", "MemoryPressure")
    go.touch()
    hog.hold(0)
    assert asking.status() == 200
    assert manager.log("load failed") == []
    assert len(manager.log("load")) == 2


def test_a_load_that_is_too_fast_to_be_ended_hits_nobody_but_itself(
    small: SmallMachine, tmp_path: Path
) -> None:
    """It takes everything at once. Where the kernel has to end somebody, it is not a model that serves."""
    with Manager(tmp_path, inside=small) as manager:
        big = manager.fake("serves", "--rss-mib", "450", size=460, residency="warm")
        manager.write({"serves": big, "greedy": manager.fake("greedy", "--rss-mib", "1500")}, machine=MACHINE)
        manager.start()
        before = manager.wait_ready("serves")
        assert manager.ask("greedy").status_code in (502, 503)
        assert manager.wait_ready("serves") == before
        assert manager.log("evict") == []
