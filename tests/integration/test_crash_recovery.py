"""The manager dies without a word and is started again."""

import os
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing

import httpx
import pytest

from manager import CHAT, SOON, Asking, Manager, Sampler, Streaming, chat, process_state, running
from support import wait_for


def early(manager: Manager) -> httpx.Response | None:
    """Ask a manager that may not listen yet."""
    try:
        return httpx.post(manager.url + CHAT, json=chat("alpha", stream=False), trust_env=False, timeout=SOON)
    except httpx.ConnectError:
        return None


def test_the_models_serve_on_under_the_next_manager(manager: Manager) -> None:
    manager.write({"alpha": manager.fake("alpha", "--stream", "400", "--delay", "0.1", residency="warm")})
    manager.start()
    [pid] = manager.wait_ready("alpha")
    through_gateway = Streaming(manager.url, "alpha")
    direct = Streaming(f"http://127.0.0.1:{manager.port_of('alpha')}", "alpha")
    manager.kill()
    with pytest.raises(httpx.TransportError):
        through_gateway.finish()
    arrived = len(direct.events)
    manager.process = manager.launch("--listen", f"127.0.0.1:{manager.gateway_port}")
    first = wait_for(lambda: early(manager), SOON, "an answer of the port, bound at the first try")
    assert first is not None
    assert first.status_code == 200 or first.headers["retry-after"] == "1"
    wait_for(manager.answers, SOON, "a manager that answers")
    assert manager.wait_ready("alpha") == [pid]
    assert manager.processes("alpha") == [pid]
    assert manager.ask("alpha", stream=False).json()["pid"] == pid
    assert manager.log("adopted", model="alpha", pid=pid)
    assert len(manager.log("load")) == 1, "alpha was loaded again"
    assert manager.status()["manifest"]["generation"] == 1, "the count of changes began anew"
    assert manager.model("alpha")["load_seconds"] > 0
    wait_for(lambda: len(direct.events) > arrived, SOON, "the stream beside the gateway to go on")
    assert manager.stop() == 0
    assert not running(pid)


NAMES = ("same", "edited", "dies", "removed")


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has nothing to do with any manager."""
    with subprocess.Popen(["sleep", "999"]) as process:
        yield process
        process.kill()


def test_a_record_with_the_pid_of_a_stranger_touches_nobody(
    manager: Manager, stranger: subprocess.Popen[bytes]
) -> None:
    manager.write({"alpha": manager.fake("alpha", residency="warm")})
    manager.start()
    [pid] = manager.wait_ready("alpha")
    manager.kill()
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not running(pid), SOON, "the end of alpha")
    with closing(sqlite3.connect(manager.state_dir / "ledger.db")) as ledger:
        assert ledger.execute("UPDATE launches SET pid = ?", (stranger.pid,)).rowcount == 1
        ledger.commit()
    manager.start()
    [fresh] = manager.wait_ready("alpha")
    assert fresh not in (pid, stranger.pid)
    assert manager.stop() == 0
    assert stranger.poll() is None
    assert process_state(stranger.pid) == "S"


def test_a_half_loaded_model_is_never_there_twice(manager: Manager) -> None:
    """It is ended, not begun again for clients that are gone, and loads when somebody asks anew."""
    manager.write({"slow": manager.fake("slow", "--load", "1.2")})
    with Sampler({"slow": manager.tag("slow")}) as table:
        manager.start()
        asking = Asking(manager, "slow")
        wait_for(lambda: manager.processes("slow"), SOON, "a load that has begun")
        manager.kill()
        with pytest.raises(httpx.TransportError):
            asking.finish()
        manager.start()
        wait_for(lambda: not manager.processes("slow"), SOON, "the end of the half-loaded process")
        assert manager.wait_calm()["models"][0]["state"] == "cold"
        assert manager.ask("slow").status_code == 200
        assert len(manager.processes("slow")) == 1
    assert table.most(["slow"]) == 1


def test_what_changed_while_nobody_ruled_is_put_right(manager: Manager) -> None:
    """One model is edited, one removed, one dies and leaves a worker behind; one stays as it is."""
    same, old = manager.fake("same", residency="warm"), manager.fake("edited", residency="warm")
    dies = manager.fake("dies", "--worker", residency="warm")
    manager.write(
        {"same": same, "edited": old, "dies": dies, "removed": manager.fake("removed", residency="warm")}
    )
    manager.start()
    pids = dict(zip(NAMES, manager.wait_ready(*NAMES), strict=True))
    manager.kill()
    [worker] = set(manager.processes("dies")) - {pids["dies"]}
    os.kill(pids["dies"], signal.SIGKILL)
    wait_for(lambda: not running(pids["dies"]), SOON, "the end of a server")
    manager.write({"same": same, "edited": manager.fake("edited", "--new", residency="warm"), "dies": dies})
    with Sampler({"edited": manager.tag("edited")}) as table:
        manager.start()
        wait_for(lambda: not running(pids["edited"]), SOON, "the end of the edited model's process")
        wait_for(lambda: not running(pids["removed"]), SOON, "the end of the removed model")
        manager.wait_calm()
        now = dict(zip(NAMES[:3], manager.wait_ready(*NAMES[:3]), strict=True))
    assert table.most(["edited"]) == 1, "the old one was not stopped first"
    assert now["same"] == pids["same"]
    assert not running(worker)
    assert manager.processes("edited") == [now["edited"]]
    assert len(manager.processes("dies")) == 2
    assert {line["model"]: line["reason"] for line in manager.log("evict")} == {
        "dies": "Crashed",
        "edited": "Drifted",
        "removed": "Removed",
    }


def test_without_its_ledger_a_manager_ends_what_bears_its_mark(manager: Manager) -> None:
    """Nobody knows any more what these processes are, but they are ours, and hold memory: none may run twice."""
    manager.write({"pin": manager.fake("pin", residency="pinned")})
    manager.start()
    [old] = manager.wait_ready("pin")
    manager.kill()
    for file in manager.state_dir.glob("ledger.db*"):
        file.unlink()
    manager.start()
    [new] = manager.wait_ready("pin")
    assert new != old
    assert manager.processes("pin") == [new]
    assert manager.log("ending a process of ours that no record knows")


def test_a_stop_that_had_begun_is_finished_by_the_next_manager(manager: Manager) -> None:
    """It is deaf to SIGTERM, and answers on: only the record tells that it was being ended."""
    manager.write({"deaf": manager.fake("deaf", "--ignore-term", residency="warm", timeouts={"stop": "8s"})})
    manager.start()
    [old] = manager.wait_ready("deaf")
    assert manager.cli("evict", "deaf", "--no-wait").returncode == 0
    wait_for(lambda: (manager.status()["action"] or {}).get("doing") == "stopping", SOON, "its end to begin")
    wait_for(lambda: stage(manager) == "stopping", SOON, "that it is on record")
    manager.kill()
    assert running(old)
    manager.start()
    wait_for(lambda: not running(old), 2 * SOON, "the end that had begun")
    why = "it was being stopped when the last run ended"
    assert manager.log("ending a leftover", model="deaf", reason=why)
    assert ("Leftover", why) in manager.events("ended-leftover", "deaf")
    assert not manager.log("model died")


def stage(manager: Manager) -> str:
    """Return what the ledger says is being done with the only process there is."""
    with closing(sqlite3.connect(f"file:{manager.state_dir / 'ledger.db'}?mode=ro", uri=True)) as ledger:
        return str(ledger.execute("SELECT stage FROM launches").fetchone()[0])


def test_a_drain_that_had_begun_is_undone(manager: Manager) -> None:
    """Nobody had signalled it yet: it is as healthy as before."""
    manager.write({"busy": manager.fake("busy", "--stream", "900", "--delay", "0.05", residency="warm")})
    manager.start()
    [pid] = manager.wait_ready("busy")
    stream = Streaming(manager.url, "busy")
    manager.write({"busy": manager.fake("busy", "--stream", "2", residency="warm")})
    wait_for(lambda: (manager.status()["action"] or {}).get("doing") == "draining", SOON, "a drain")
    manager.kill()
    stream.join(SOON)
    manager.write({"busy": manager.fake("busy", "--stream", "900", "--delay", "0.05", residency="warm")})
    manager.start()
    assert manager.wait_ready("busy") == [pid]
    assert manager.events("adopted", "busy") == [("Adopted", f"pid {pid} of an earlier run serves on")]


def test_an_idle_time_goes_on_over_a_crash(manager: Manager) -> None:
    """Half a minute of an idle time of an hour is on record; the next manager does not begin anew."""
    manager.write({"alpha": manager.fake("alpha", idle_ttl="1h")})
    manager.start()
    assert manager.ask("alpha").status_code == 200
    [pid] = manager.wait_ready("alpha")
    wait_for(lambda: last_used(manager) is not None, SOON, "its last use on record")
    manager.kill()
    with closing(sqlite3.connect(manager.state_dir / "ledger.db")) as ledger:
        ledger.execute("UPDATE launches SET last_used = last_used - 1800")
        ledger.commit()
    manager.start()
    assert manager.wait_ready("alpha") == [pid]
    assert manager.model("alpha")["idle"] == pytest.approx(1800, abs=60)


def last_used(manager: Manager) -> float | None:
    """Return when the only process was used last, as the ledger has it."""
    with closing(sqlite3.connect(f"file:{manager.state_dir / 'ledger.db'}?mode=ro", uri=True)) as ledger:
        found = ledger.execute("SELECT last_used FROM launches").fetchone()[0]
        return None if found is None else float(found)
