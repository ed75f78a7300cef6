"""Drains that nobody needs any more are called off, and the limits of those that go on are the manifest's of now."""

import pytest

from manager import SOON, Asking, Manager, Streaming
from support import wait_for

ENDLESS = ("--stream", "4000", "--delay", "0.05")


def save(manager: Manager, drain: str) -> None:
    a = manager.fake("a", *ENDLESS, timeouts={"drain": drain})
    manager.write({"a": a, "b": manager.fake("b")})


def drained(manager: Manager) -> int:
    """Start a manager whose model `a` streams without an end, have it evicted by hand; return its pid."""
    save(manager, "never")
    manager.start()
    Streaming(manager.url, "a")
    [pid] = manager.wait_ready("a")
    assert manager.client.post("/api/v1/models/a/evict").status_code == 202
    manager.doing("draining", "a")
    return pid


@pytest.mark.parametrize("by", ["request", "load", "hold"])
def test_an_evict_is_taken_back_by_whoever_asks_for_the_model(manager: Manager, by: str) -> None:
    pid = drained(manager)
    if by == "request":
        assert Streaming(manager.url, "a").error is None, "it is served at once"
    elif by == "load":
        assert manager.client.post("/api/v1/models/a/load").status_code == 202
    else:
        asked = {"model": "a", "owner": "me", "for": "1m", "wait": True}
        assert manager.client.post("/api/v1/leases", json=asked).json()["state"] == "held"
    assert manager.wait_log("given up", model="a")["why"] == "nobody needs it any more"
    assert manager.wait_ready("a") == [pid]
    assert manager.model("a")["waiting"] == 0
    assert manager.ask("b").status_code == 200, "the loop is free for others"
    assert manager.log("evicted", model="a") == []


def test_a_claimant_that_is_gone_leaves_its_victim_in_peace(manager: Manager) -> None:
    streams = manager.fake("streams", *ENDLESS, size=600)
    manager.write({"streams": streams})
    manager.start()
    Streaming(manager.url, "streams")
    [pid] = manager.wait_ready("streams")
    manager.write({"streams": streams, "pin": manager.fake("pin", size=600, residency="pinned")})
    assert manager.wait_log("evict", model="streams")["for_model"] == "pin"
    Asking(manager, "streams")
    manager.wait_model("streams", waiting=1)
    manager.write({"streams": streams})
    manager.wait_log("given up", model="streams")
    manager.wait_model("streams", waiting=0, active=2)
    assert manager.wait_ready("streams") == [pid]
    assert manager.log("load", model="pin") == []


def test_an_edited_limit_counts_for_the_drain_in_progress(manager: Manager) -> None:
    drained(manager)
    assert manager.status()["action"]["deadline_in"] is None
    save(manager, "0.5s")
    cut = manager.wait_log("requests are cut: timeouts.drain has passed", model="a")
    assert cut["within"] == "0.5 s"
    manager.wait_model("a", state="cold")
    assert manager.processes("a") == []


def test_a_stop_bounds_a_drain_in_progress_without_an_end(manager: Manager) -> None:
    """Sooner than in half a minute only by a second signal: that it ends at all is what counts."""
    drained(manager)
    assert manager.client.post("/api/v1/stop").status_code == 202
    wait_for(lambda: (manager.status()["action"] or {}).get("deadline_in"), SOON, "an end of the drain")
    assert manager.status()["action"]["deadline_in"] <= 30 + 10 + 10
