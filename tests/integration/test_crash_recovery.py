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
    wait_for(lambda: len(direct.events) > arrived, SOON, "the stream beside the gateway to go on")
    assert manager.stop() == 0
    assert not running(pid)


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
    manager.write({"slow": manager.fake("slow", "--load", "1.5", residency="warm")})
    with Sampler({"slow": manager.tag("slow")}) as table:
        manager.start()
        wait_for(lambda: manager.processes("slow"), SOON, "a load that has begun")
        manager.kill()
        manager.start()
        manager.wait_ready("slow")
        assert len(manager.processes("slow")) == 1
    assert table.most(["slow"]) == 1


def test_a_model_edited_while_nobody_ruled_is_stopped_before_its_successor_starts(manager: Manager) -> None:
    manager.write({"alpha": manager.fake("alpha", residency="warm")})
    manager.start()
    [old] = manager.wait_ready("alpha")
    manager.kill()
    manager.write({"alpha": manager.fake("alpha", "--new-option", residency="warm")})
    with Sampler({"alpha": manager.tag("alpha")}) as table:
        manager.start()
        manager.wait_log("loaded", model="alpha")
        wait_for(lambda: not running(old), SOON, "the end of the old process")
        manager.wait_calm()
        [new] = manager.wait_ready("alpha")
    assert new != old
    assert table.most(["alpha"]) == 1
    assert manager.steps()[-4:] == ["evict alpha", "evicted alpha", "load alpha", "loaded alpha"]
    assert manager.log("evict")[-1]["reason"] == "Drifted"


def test_a_model_removed_while_nobody_ruled_is_ended(manager: Manager) -> None:
    models = {name: manager.fake(name, residency="warm") for name in ("alpha", "beta")}
    manager.write(models)
    manager.start()
    alpha, beta = manager.wait_ready("alpha", "beta")
    manager.kill()
    manager.write({"alpha": models["alpha"]})
    manager.start()
    wait_for(lambda: not running(beta), SOON, "the end of beta")
    assert manager.wait_ready("alpha") == [alpha]
    assert manager.log("evict")[-1]["reason"] == "Removed"


def test_a_model_that_died_meanwhile_is_loaded_again(manager: Manager) -> None:
    manager.write({"alpha": manager.fake("alpha", "--worker", residency="warm")})
    manager.start()
    [pid] = manager.wait_ready("alpha")
    manager.kill()
    assert len(manager.processes("alpha")) == 2, "the server and its worker"
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not running(pid), SOON, "the end of alpha's server")
    [worker] = manager.processes("alpha")
    manager.start()
    manager.wait_ready("alpha")
    assert not running(worker)
    assert len(manager.processes("alpha")) == 2


def test_two_managers_in_a_row_keep_what_they_know(manager: Manager) -> None:
    """The generation goes on counting, and the time of the last load is still known."""
    manager.write({"alpha": manager.fake("alpha", "--load", "0.3", residency="warm")})
    manager.start()
    manager.wait_ready("alpha")
    manager.write({"alpha": manager.fake("alpha", "--load", "0.3", residency="warm", priority=3)})
    wait_for(lambda: manager.status()["manifest"]["generation"] == 2, SOON, "generation 2")
    manager.kill()
    manager.start()
    assert manager.status()["manifest"]["generation"] == 2
    assert manager.model("alpha")["load_seconds"] >= 0.3
    assert get_json(f"{manager.url}/readyz")["status"] == "ready"


def test_a_load_that_only_lost_clients_wanted_is_not_begun_again(manager: Manager) -> None:
    manager.write({"alpha": manager.fake("alpha", "--load", "30")})
    manager.start()
    asking = Asking(manager, "alpha")
    wait_for(lambda: manager.processes("alpha"), SOON, "a load that has begun")
    manager.kill()
    with pytest.raises(httpx.TransportError):
        asking.finish()
    manager.start()
    wait_for(lambda: not manager.processes("alpha"), SOON, "the end of the half-loaded process")
    assert manager.wait_calm()["models"][0]["state"] == "cold"
