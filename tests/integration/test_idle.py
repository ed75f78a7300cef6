"""Unloading after idle time: counted from the end of the last request, and never in the way of the next one."""

import time
from datetime import datetime

import pytest

from manager import SOON, Asking, Background, Manager, Streaming
from support import wait_for

TTL = 0.6
MODELS = 8
#: Seconds around the end of the idle time at which the next request lands.
OFFSETS = (-0.03, 0.0, 0.005, 0.015, 0.05)


class Visitor(Background):
    """Comes back to one model whenever its idle time is about over."""

    def __init__(self, manager: Manager, model: str) -> None:
        super().__init__()
        self.manager, self.model = manager, model
        #: When each answer had come (wall clock), and seconds it took.
        self.ends: list[float] = []
        self.waits: list[float] = []
        self.start()

    def work(self) -> None:
        for offset in (0.0, *OFFSETS):
            if self.ends:
                time.sleep(max(0.0, self.ends[-1] + TTL + offset - time.time()))
            asking = Asking(self.manager, self.model)
            assert asking.status() == 200
            self.ends.append(time.time())
            self.waits.append(asking.seconds)


def test_requests_around_the_end_of_the_idle_time_are_all_answered(manager: Manager) -> None:
    names = [f"m{number}" for number in range(MODELS)]
    manager.write({name: manager.fake(name, idle_ttl=TTL) for name in names})
    manager.start()
    visitors = [Visitor(manager, name) for name in names]
    for visitor in visitors:
        visitor.finish(30)
    slowest = max(wait for visitor in visitors for wait in visitor.waits)
    longest = max(line["seconds"] for line in manager.log("loaded"))
    # At worst a request comes as its model is being stopped, while the loads of all the others are due.
    assert slowest < MODELS * (longest + 1.0)
    evicts = manager.log("evict", reason="IdleExpired")
    assert len(evicts) >= MODELS / 2, "the race was not run"
    for visitor in visitors:
        for line in (e for e in evicts if e["model"] == visitor.model):
            at = datetime.fromisoformat(line["timestamp"]).timestamp()
            before = max((end for end in visitor.ends if end <= at), default=0.0)
            assert at - before >= TTL - 0.25  # the client notes the end of its request later than the loop
    wait_for(lambda: not any(manager.processes(name) for name in names), SOON, "all to be unloaded at last")
    assert {m["state"] for m in manager.wait_calm()["models"]} == {"cold"}


def test_no_stream_and_no_load_is_cut_by_idle_time(manager: Manager) -> None:
    """Beside them a transient model leaves right after use."""
    manager.write(
        {
            "streams": manager.fake("streams", "--stream", "50", "--delay", "0.06", idle_ttl=TTL),
            "once": manager.fake("once", residency="transient"),
            "loads": manager.fake("loads", "--load", "1.2", idle_ttl=TTL),
        }
    )
    manager.start()
    assert manager.ask("once").status_code == 200
    loading = Asking(manager, "loads")
    stream = Streaming(manager.url, "streams")
    assert stream.whole() == list(range(50))
    ended = time.time()
    assert loading.status() == 200
    assert manager.log("evict", model="streams") == [] or _at(manager, "streams") >= ended
    wait_for(lambda: not manager.processes("streams"), SOON, "the end of its idle time")
    assert _at(manager, "streams") - ended == pytest.approx(TTL, abs=0.5)
    wait_for(lambda: not manager.processes("loads"), SOON, "the end of its idle time")
    assert manager.log("load failed") == []
    assert len(manager.log("load")) == 3
    assert manager.log("evict", model="once")[0]["reason"] == "TransientDone"


def _at(manager: Manager, model: str) -> float:
    """Return when a model was begun to be evicted, by the wall clock."""
    [line] = manager.log("evict", model=model)
    return datetime.fromisoformat(line["timestamp"]).timestamp()
