"""How a run begins and ends: in order, once, or not at all."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from manager import SOON, Asking, Manager, Streaming, process_state, running
from support import wait_for

pytestmark = pytest.mark.program


def test_a_stop_drains_what_is_served_and_leaves_nothing(manager: Manager) -> None:
    manager.write(
        {
            "streams": manager.fake("streams", "--stream", "20", "--delay", "0.05", residency="warm"),
            "worker": manager.fake("worker", "--worker", residency="warm"),
        }
    )
    manager.start()
    manager.wait_ready("streams", "worker")
    stream = Streaming(manager.url, "streams")
    assert (manager.state_dir / "run.json").exists()
    assert manager.stop() == 0
    assert stream.whole() == list(range(20))
    assert manager.ours() == []
    assert manager.processes("streams") == manager.processes("worker") == []
    assert not (manager.state_dir / "run.json").exists()
    assert {line["reason"] for line in manager.log("evict")} == {"Shutdown"}
    assert manager.log(level="error") == []


def test_a_second_signal_cuts_what_is_served(manager: Manager) -> None:
    manager.write({"streams": manager.fake("streams", "--stream", "600", "--delay", "0.05")})
    manager.start()
    stream = Streaming(manager.url, "streams")
    assert manager.process is not None
    manager.process.send_signal(signal.SIGINT)
    manager.wait_log("evict", model="streams")
    assert not stream.done
    manager.process.send_signal(signal.SIGINT)
    assert manager.process.wait(10) == 0
    stream.join(SOON)
    assert not stream.done
    assert manager.ours() == []


def test_a_stop_during_a_load_tells_those_who_wait(manager: Manager) -> None:
    manager.write({"slow": manager.fake("slow", "--load", "60")})
    manager.start()
    asking = Asking(manager, "slow")
    wait_for(lambda: manager.processes("slow"), SOON, "a load that has begun")
    said = manager.cli("stop")
    assert said.returncode == 0, said.stderr
    assert asking.status() == 503
    assert asking.answer is not None
    assert asking.answer.json()["error"]["code"] == "model_stopped"
    assert manager.process is not None
    assert manager.process.wait(SOON) == 0
    assert manager.ours() == []


def test_once_leaves_the_models_up_and_the_next_run_adopts_them(manager: Manager) -> None:
    manager.write(
        {
            "alpha": manager.fake("alpha", residency="warm"),
            "pin": manager.fake("pin", residency="pinned"),
            "cold": manager.fake("cold"),
        }
    )
    assert manager.launch("--once").wait(SOON) == 0
    [alpha], [pin] = manager.processes("alpha"), manager.processes("pin")
    assert manager.processes("cold") == []
    assert not (manager.state_dir / "run.json").exists()
    assert manager.launch("--once").wait(SOON) == 0, "nothing to do is no failure"
    assert (manager.processes("alpha"), manager.processes("pin")) == ([alpha], [pin])
    manager.start()
    assert manager.wait_ready("alpha", "pin") == [alpha, pin]
    assert manager.ask("alpha").json()["pid"] == alpha
    assert len(manager.log("load")) == 2
    os.kill(alpha, signal.SIGKILL)  # noticed although it is not this manager's child
    manager.wait_log("model died", model="alpha", pid=alpha, timeout=5)
    assert manager.stop() == 0
    assert manager.ours() == []


def test_once_says_when_something_could_not_be_done(manager: Manager) -> None:
    manager.write(
        {
            "alpha": manager.fake("alpha", residency="warm"),
            "bad": manager.fake("bad", "--exit", "4", residency="warm"),
        }
    )
    assert manager.launch("--once").wait(SOON) == 1
    assert len(manager.processes("alpha")) == 1
    assert manager.log("load failed", model="bad")


def listing(directory: Path) -> dict[str, tuple[int, int, bytes]]:
    """Return what is in a directory: names with inode, time of change, and content."""
    return {
        str(path.relative_to(directory)): (path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def test_a_dry_run_touches_nothing(manager: Manager) -> None:
    models = {"alpha": manager.fake("alpha", residency="warm"), "beta": manager.fake("beta")}
    manager.write(models)
    first = manager.cli("--dry-run", "--detailed-exitcode", paths=True)
    assert first.returncode == 2, first.stderr
    assert "+ alpha" in first.stdout
    assert ". beta" in first.stdout
    assert not manager.state_dir.exists(), "a dry run made the state directory"
    assert manager.processes("alpha") == []

    manager.start()
    [pid] = manager.wait_ready("alpha")
    running_says = manager.cli("--dry-run", "--detailed-exitcode", paths=True)
    assert running_says.returncode == 0, running_says.stdout
    assert "= alpha" in running_says.stdout

    manager.kill()
    before = listing(manager.state_dir)
    assert "ledger.db" in before
    alone = manager.cli("--dry-run", "--json", "--detailed-exitcode", paths=True)
    assert alone.returncode == 0, alone.stdout
    [alpha, beta] = json.loads(alone.stdout)["verdicts"]
    assert (alpha["outcome"], beta["outcome"]) == ("keep", "cold")
    assert listing(manager.state_dir) == before
    assert running(pid)
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not running(pid), SOON, "the end of alpha")
    gone = json.loads(manager.cli("--dry-run", "--json", paths=True).stdout)
    assert [(s["action"], s["model"]) for s in gone["steps"]] == [("load", "alpha")]
    assert listing(manager.state_dir) == before


def test_a_late_tick_only_looks(manager: Manager) -> None:
    """The manager is stopped for longer than the idle time of a model that is asked meanwhile."""
    manager.write(
        {
            "asked": manager.fake("asked", idle_ttl=1.0),
            "streams": manager.fake("streams", "--stream", "145", "--delay", "0.05", idle_ttl=1.0),
        }
    )
    manager.start()
    assert manager.ask("asked").status_code == 200
    [asked] = manager.wait_ready("asked")
    stream = Streaming(manager.url, "streams")
    [streams] = manager.wait_ready("streams")
    assert manager.process is not None
    time.sleep(0.3)  # a turn that is under way now would end after the stop, and would not be late
    manager.process.send_signal(signal.SIGSTOP)
    wait_for(lambda: process_state(manager.pid) == "T", SOON, "a stopped manager")
    waiting = Asking(manager, "asked")
    time.sleep(6.3)  # the time that passes is what is tested
    manager.process.send_signal(signal.SIGCONT)
    assert waiting.status() == 200
    assert waiting.answer is not None
    assert waiting.answer.json()["pid"] == asked, "it was unloaded in the moment of waking up"
    assert manager.wait_model("streams")["pid"] == streams
    assert stream.whole() == list(range(145))
    assert manager.log("this turn comes late and only looks")
    assert [e for e in manager.log("evict") if e["model"] == "streams"] == []


def test_a_broken_manifest_is_told_before_anything_is_touched(manager: Manager) -> None:
    manager.file.write_text("apiVersion: reconciler/v1\nmodels:\n  a: {prioritty: 1}\n")
    assert manager.launch().wait(SOON) == 1
    assert f"{manager.file}:3:7" in manager.output.read_text()
    assert not manager.state_dir.exists()


def test_what_comes_while_it_stops_is_told_at_once_and_leftovers_can_be_ended(manager: Manager) -> None:
    manager.write(
        {
            "streams": manager.fake("streams", "--stream", "600", "--delay", "0.05"),
            "other": manager.fake("other"),
        }
    )
    manager.start()
    stream = Streaming(manager.url, "streams")
    assert manager.process is not None
    manager.process.send_signal(signal.SIGINT)
    manager.wait_log("requests in flight get to end", model="streams")
    for model in ("streams", "other"):
        answer = manager.ask(model)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "model_stopped")
    assert not stream.done
    manager.kill()
    assert manager.processes("streams")
    ended = manager.cli("stop")
    assert ended.returncode == 0
    assert "streams" in ended.stdout
    wait_for(lambda: not manager.processes("streams"), SOON, "the leftover is gone")
