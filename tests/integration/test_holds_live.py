"""Leases from outside and the rest after an unload, with the whole program."""

import subprocess
import sys
import time
from pathlib import Path

from manager import RECONCILE, SOON, Asking, Manager
from reconciler.loop.ending import LAST_DRAIN
from support import wait_for


def test_a_held_model_stays_until_it_is_released(manager: Manager) -> None:
    manager.write({"used": manager.fake("used", size=600), "next": manager.fake("next", size=600)})
    manager.start()
    said = manager.cli("hold", "used", "--for", "10m", "--owner", "batch 7", "--wait")
    assert said.returncode == 0, said.stderr
    lease = said.stdout.strip()
    assert [(x["id"], x["state"], x["owner"]) for x in manager.status()["leases"]] == [
        (lease, "held", "batch 7")
    ]
    [pid] = manager.wait_ready("used")
    assert manager.model("used")["verdict"]["detail"] == "held by 1 lease"
    asked = Asking(manager, "next")
    blocked = manager.wait_model("next", state="blocked")["verdict"]
    assert (blocked["reason"], blocked["detail"]) == (
        "VictimsBusy",
        "200 MiB short until the lease on used ends",
    )
    assert manager.wait_ready("used") == [pid]
    assert manager.cli("release", lease).returncode == 0
    assert asked.status() == 200
    assert manager.steps()[:4] == ["load used", "loaded used", "evict used", "evicted used"]


def test_a_lease_ends_by_itself_and_a_model_kept_for_it_may_go(manager: Manager) -> None:
    manager.write({"a": manager.fake("a", idle_ttl="0.5s")})
    manager.start()
    asked = {"model": "a", "owner": "me", "for": "1s", "wait": True}
    assert manager.client.post("/api/v1/leases", json=asked).json()["state"] == "held"
    manager.wait_ready("a")
    wait_for(lambda: manager.processes("a") == [], SOON, "the end of a model that nobody holds any more")
    [over] = manager.log("lease over")
    assert (over["model"], over["why"]) == ("a", "its time was over")
    [evict] = manager.log("evict")
    assert evict["reason"] == "IdleExpired"
    assert manager.status()["leases"][0]["state"] == "ended"


def test_a_command_runs_while_the_model_is_held_and_the_lease_goes_with_it(
    manager: Manager, tmp_path: Path
) -> None:
    manager.write({"a": manager.fake("a")})
    manager.start()
    go = tmp_path / "go"
    script = (
        "import os, sys, time\nprint('runs', flush=True)\n"
        "while not os.path.exists(sys.argv[1]): time.sleep(0.01)\nsys.exit(5)"
    )
    command = [str(RECONCILE), "hold", "a", "--state-dir", str(manager.state_dir), "--"]
    with subprocess.Popen(
        [*command, sys.executable, "-c", script, str(go)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "runs\n"
        assert manager.model("a")["state"] == "ready"
        assert manager.model("a")["leases"] == 1
        go.touch()
        assert process.wait(SOON) == 5
    assert manager.model("a")["leases"] == 0


def test_a_lease_does_not_hold_up_the_end(manager: Manager) -> None:
    manager.write({"a": manager.fake("a")})
    manager.start()
    for owner in ("batch 7", "batch 8"):
        asked = {"model": "a", "owner": owner, "for": "1h", "wait": True}
        assert manager.client.post("/api/v1/leases", json=asked).json()["state"] == "held"
    began = time.monotonic()
    stopped = manager.cli("stop")
    assert time.monotonic() - began < LAST_DRAIN / 3
    assert (stopped.returncode, stopped.stdout) == (0, "stopped\n")
    assert "2 leases from outside ended at once: a (batch 7), a (batch 8)\n" in stopped.stderr
    [told] = manager.log("leases are ended: reconcile is stopping")
    assert told["leases"] == ["a (batch 7)", "a (batch 8)"]
    assert manager.log("requests in flight get to end") == []


def test_after_an_unload_requests_wait_in_line_for_a_while(manager: Manager) -> None:
    manager.write({"a": manager.fake("a", reload_after="1s")})
    manager.start()
    assert manager.ask("a").status_code == 200
    ask(manager, "evict")
    wait_for(lambda: manager.processes("a") == [], SOON, "the end of the evicted model")
    asked = Asking(manager, "a")
    resting = manager.wait_model("a", state="blocked")["verdict"]
    assert resting["reason"] == "Resting"
    assert 0 < resting["retry_in"] <= 1
    assert asked.status() == 200
    # New settings are no reason to rest, and a person need not wait either.
    manager.write({"a": manager.fake("a", "--tag", "2", reload_after="60s", residency="warm")})
    manager.wait_model("a", residency="warm")
    manager.wait_calm()
    manager.wait_ready("a")
    ask(manager, "evict")
    manager.wait_model("a", state="cold")
    ask(manager, "load")
    manager.wait_ready("a")


def ask(manager: Manager, verb: str) -> None:
    """Ask for a load or an evict of `a`."""
    assert manager.client.post(f"/api/v1/models/a/{verb}").status_code == 202
