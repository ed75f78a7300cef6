"""Models that are replaced by fresh processes of themselves, through the whole program."""

import json
import subprocess
from pathlib import Path
from types import ModuleType

from manager import SOON, Manager, running
from support import wait_for


def point(weights: Path, module: ModuleType) -> None:
    """Let the weights be a file that has been there for long: one just written has no fingerprint yet."""
    assert module.__file__ is not None
    weights.unlink(missing_ok=True)
    weights.symlink_to(module.__file__)


def test_requests_served_and_new_weights_replace_a_process(manager: Manager) -> None:
    weights = manager.manifests / "model.bin"
    point(weights, json)
    models = {
        "aged": manager.fake("aged", residency="warm", restart={"requests": 3}),
        "heavy": manager.fake("heavy", residency="pinned", weights="model.bin"),
    }
    manager.write(models)
    manager.start()
    [aged, heavy] = manager.wait_ready("aged", "heavy")
    for _ in range(3):
        assert manager.ask("aged").json()["pid"] == aged
    fresh = wait_for(lambda: manager.model("aged")["pid"] not in (None, aged), SOON, "a fresh process")
    assert fresh
    assert not running(aged)
    evict = manager.wait_log("evict", model="aged")
    assert (evict["reason"], evict["why"]) == ("RestartDue", "restart due: served 3 requests")
    assert manager.wait_model("aged", state="ready")["pid"] != aged
    assert manager.ask("aged").status_code == 200

    manager.kill()
    point(weights, subprocess)
    manager.start()
    assert manager.log("adopted", model="heavy", pid=heavy)
    wait_for(lambda: not running(heavy), SOON, "the end of a process of old weights")
    evict = manager.wait_log("evict", model="heavy")
    assert (evict["reason"], evict["why"]) == ("Drifted", "its weights were replaced")
    assert manager.wait_model("heavy", state="ready")["pid"] != heavy
    assert len(manager.log("evict", model="heavy")) == 1, "the new process is of the new weights"


def test_what_cannot_be_started_any_more_is_not_replaced(manager: Manager) -> None:
    weights = manager.manifests / "model.bin"
    point(weights, json)
    entry = manager.fake("aged", residency="warm", restart={"requests": 1}, weights="model.bin")
    manager.write({"aged": entry})
    manager.start()
    [pid] = manager.wait_ready("aged")
    weights.unlink()  # the last look was a moment ago, the next is not due for long
    assert manager.ask("aged").json()["pid"] == pid
    [note] = manager.wait_model("aged", notes=[GONE])["notes"]
    assert note == GONE
    assert manager.model("aged")["pid"] == pid
    assert manager.log("evict") == []


GONE = "its files are not what it was started with (model.bin): it serves on with what it has"
