"""The manager dies without a word and is started again."""

import json
import os
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from manager import CHAT, SOON, Asking, Manager, Sampler, Streaming, chat, process_state, running
from support import get_json, wait_for


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
    manager.begin_to_serve()
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


REBUILT = "the ledger was lost; its record was rebuilt from the process"


def lose_ledger(manager: Manager, how: str = "deleted") -> None:
    """Ruin the ledger while no manager runs."""
    if how == "damaged":
        path = manager.state_dir / "ledger.db"
        path.write_bytes(os.urandom(path.stat().st_size))
        return
    for file in manager.state_dir.glob("ledger.db*"):
        file.unlink()


@pytest.mark.parametrize("how", ["deleted", "damaged"])
def test_without_its_ledger_the_models_are_adopted_from_what_they_tell(manager: Manager, how: str) -> None:
    models = {name: manager.fake(name, residency="warm") for name in ("alpha", "größer")}
    manager.write(models)
    manager.start()
    pids = manager.wait_ready(*models)
    manager.kill()
    lose_ledger(manager, how)
    before = len(manager.log())
    manager.start()
    assert manager.wait_ready(*models) == pids
    for name, pid in zip(models, pids, strict=True):
        assert manager.processes(name) == [pid]
        assert manager.ask(name, stream=False).json()["pid"] == pid
        assert manager.log("adopted", model=name, pid=pid, record=REBUILT)
        told = f"pid {pid} of an earlier run serves on: {REBUILT}"
        assert manager.events("adopted", name) == [("Adopted", told)]
    assert not [x for x in manager.log()[before:] if x.get("event") in ("load", "evict")], "not as it was"
    assert (manager.state_dir / "ledger.db.corrupt-1").exists() == (how == "damaged")
    manager.kill()
    manager.start()  # they are on record again
    assert manager.wait_ready(*models) == pids
    assert len(manager.log("adopted", record=REBUILT)) == len(models)
    assert manager.stop() == 0
    assert not any(running(pid) for pid in pids)


def test_without_its_ledger_a_half_loaded_model_is_ended(manager: Manager, tmp_path: Path) -> None:
    gate = tmp_path / "ready"
    manager.write({"slow": manager.fake("slow", "--load-until", str(gate))})
    manager.start()
    asking = Asking(manager, "slow")
    [old] = wait_for(lambda: manager.processes("slow"), SOON, "a load that has begun")
    port = manager.port_of("slow")
    wait_for(lambda: get_json(f"http://127.0.0.1:{port}/health"), SOON, "a server that says that it loads")
    manager.kill()
    with pytest.raises(httpx.TransportError):
        asking.finish()
    lose_ledger(manager)
    manager.start()
    wait_for(lambda: not running(old), SOON, "the end of the half-loaded process")
    [(reason, why)] = manager.events("ended-leftover", "slow")
    assert reason == "Leftover"
    assert why.startswith("the ledger was lost, and it is not known to be ready: it does not answer: ")
    gate.touch()
    assert manager.ask("slow").status_code == 200
    assert manager.stop() == 0


def test_without_its_ledger_a_model_with_other_settings_lives_until_it_is_replaced(manager: Manager) -> None:
    manager.write({"edited": manager.fake("edited", residency="warm")})
    manager.start()
    [old] = manager.wait_ready("edited")
    manager.kill()
    lose_ledger(manager)
    manager.write({"edited": manager.fake("edited", "--new", residency="warm")})
    with Sampler({"edited": manager.tag("edited")}) as table:
        manager.start()
        wait_for(lambda: not running(old), SOON, "the end of the edited model's process")
        [new] = manager.wait_ready("edited")
    assert table.most(["edited"]) == 1, "the old one was not stopped first"
    assert manager.processes("edited") == [new]
    assert manager.log("adopted", model="edited", pid=old, record=REBUILT)
    assert [line["reason"] for line in manager.log("evict")] == ["Drifted"]


def test_without_its_ledger_what_is_left_of_a_dead_server_is_ended(manager: Manager) -> None:
    """A worker does not serve, whatever it has inherited; but it is ours, and holds memory."""
    manager.write({"dies": manager.fake("dies", "--worker", residency="warm")})
    manager.start()
    [server] = manager.wait_ready("dies")
    manager.kill()
    [worker] = set(manager.processes("dies")) - {server}
    os.kill(server, signal.SIGKILL)
    wait_for(lambda: not running(server), SOON, "the end of the server")
    lose_ledger(manager)
    manager.start()
    [new] = manager.wait_ready("dies")
    assert not running(worker)
    assert new not in (server, worker)
    assert len(manager.processes("dies")) == 2
    assert not manager.log("adopted")


def test_a_stop_that_had_begun_is_finished_by_the_next_manager(manager: Manager) -> None:
    """It is deaf to SIGTERM, and answers on: only the record tells that it was being ended."""
    manager.write({"deaf": manager.fake("deaf", "--ignore-term", residency="warm", timeouts={"stop": "8s"})})
    manager.start()
    [old] = manager.wait_ready("deaf")
    assert manager.cli("evict", "deaf", "--no-wait").returncode == 0
    manager.doing("stopping", "deaf")
    wait_for(lambda: on_record(manager, "stage") == "stopping", SOON, "that it is on record")
    manager.kill()
    assert running(old)
    manager.start()
    wait_for(lambda: not running(old), 2 * SOON, "the end that had begun")
    why = "it was being stopped when the last run ended"
    assert manager.log("ending a leftover", model="deaf", reason=why)
    assert ("Leftover", why) in manager.events("ended-leftover", "deaf")
    assert not manager.log("model died")


def on_record(manager: Manager, column: str) -> object:
    """Return what the ledger has of the only process there is."""
    with closing(sqlite3.connect(f"file:{manager.state_dir / 'ledger.db'}?mode=ro", uri=True)) as ledger:
        return ledger.execute(f"SELECT {column} FROM launches").fetchone()[0]


def test_a_drain_that_had_begun_is_undone(manager: Manager) -> None:
    """Nobody had signalled it yet: it is as healthy as before."""
    manager.write({"busy": manager.fake("busy", "--stream", "900", "--delay", "0.05", residency="warm")})
    manager.start()
    [pid] = manager.wait_ready("busy")
    stream = Streaming(manager.url, "busy")
    manager.write({"busy": manager.fake("busy", "--stream", "2", residency="warm")})
    manager.doing("draining", "busy")
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
    wait_for(lambda: on_record(manager, "last_used") is not None, SOON, "its last use on record")
    manager.kill()
    with closing(sqlite3.connect(manager.state_dir / "ledger.db")) as ledger:
        ledger.execute("UPDATE launches SET last_used = last_used - 1800")
        ledger.commit()
    manager.start()
    assert manager.wait_ready("alpha") == [pid]
    assert manager.model("alpha")["idle"] == pytest.approx(1800, abs=60)


def test_without_its_ledger_a_dry_run_plans_what_the_next_manager_does(manager: Manager) -> None:
    """The ledger knows of none of them: the adopted one stays, the edited and the half-dead one go first."""
    models = {
        "edited": manager.fake("edited", residency="warm"),
        "headless": manager.fake("headless", "--worker", residency="warm"),
        "stays": manager.fake("stays", residency="warm"),
    }
    manager.write(models)
    manager.start()
    _, server, _ = manager.wait_ready(*models)
    manager.kill()
    os.kill(server, signal.SIGKILL)
    wait_for(lambda: not running(server), SOON, "the end of the server")
    manager.write({**models, "edited": manager.fake("edited", "--new", residency="warm")})

    lose_ledger(manager)
    before = sorted(manager.state_dir.rglob("*"))
    said = manager.cli("--dry-run", "--json", paths=True)
    assert sorted(manager.state_dir.rglob("*")) == before, "it only looks"
    planned = [(step["action"], step["model"], step["reason"]) for step in json.loads(said.stdout)["steps"]]
    seen = len(manager.log())
    manager.start()
    manager.wait_ready(*models)
    manager.wait_calm()
    steps = [line for line in manager.log()[seen:] if line["event"] in ("evict", "load")]
    assert planned == [(line["event"], line["model"], line["reason"]) for line in steps]
    assert planned[:2] == [("evict", "headless", "Crashed"), ("evict", "edited", "Drifted")]
