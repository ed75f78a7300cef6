"""Models that die: tried again at growing intervals, told with all that is known, and nobody else is disturbed."""

import os
import signal
import sqlite3
from contextlib import closing

import pytest

from manager import SOON, Asking, Manager, process_state, running
from reconciler.store.paths import DATABASE
from support import wait_for


def test_crash_loops_are_bounded_and_told(manager: Manager) -> None:
    """Four ways of never becoming ready beside two healthy models."""
    manager.write(
        {
            "dies-at-once": manager.fake("dies-at-once", "--exit", "1", residency="warm"),
            "dies-loading": manager.fake(
                "dies-loading", "--load", "5", "--exit", "-9", "--after", "0.3", residency="warm"
            ),
            "exits-zero": manager.fake("exits-zero", "--exit", "0", residency="warm"),
            "missing": {
                "engine": "command",
                "command": ["/no/such/binary", "${port}"],
                "memory": {"steady": "10MiB"},
                "residency": "warm",
            },
            "dies-later": manager.fake("dies-later", "--worker", residency="warm"),
            "fine": manager.fake("fine", residency="warm"),
        }
    )
    manager.start()
    later, fine = manager.wait_ready("dies-later", "fine")

    def tries() -> list[int]:
        names = ("dies-at-once", "dies-loading", "exits-zero")
        return [len(manager.log("load failed", model=name)) for name in names]

    wait_for(lambda: min(tries()) >= 2, SOON, "two tries of each")
    for name, ending in (
        ("dies-at-once", "exit code 1"),
        ("dies-loading", "killed by SIGKILL (9)"),
        ("exits-zero", "exit code 0"),
    ):
        found = manager.model(name)
        assert ending in found["last_error"], found["last_error"]
        code = {"dies-at-once": "1", "dies-loading": "-9", "exits-zero": "0"}[name]
        assert f"its last line: fake engine leaves with {code}" in found["last_error"]
        waits = [line["next_try_in"] for line in manager.log("load failed", model=name)]
        assert waits[:2] == pytest.approx([2.0, 4.0], rel=0.1), "at most 5 starts in the first minute"
        kind = {"dies-at-once": "Crashed", "dies-loading": "Killed", "exits-zero": "ExitedEarly"}[name]
        assert found["failure"] == kind
        assert {reason for reason, _ in manager.events("load-failed", name)} == {kind}
        if found["state"] != "failing":  # its next try is due, and another model is being loaded
            found = manager.wait_model(name, state="failing")
        assert 0 < found["retry_in"] <= 8
        assert found["verdict"]["reason"] == "BackingOff"
        assert "tries again in" in found["verdict"]["detail"]
        [degraded] = [c for c in found["conditions"] if c["type"] == "Degraded"]
        assert (degraded["status"], degraded["reason"]) == ("True", "Failing")
    missing = manager.model("missing")
    assert missing["verdict"]["reason"] == "NotStartable"
    assert "/no/such/binary" in missing["verdict"]["detail"]
    assert not manager.log("load", model="missing"), "what cannot be started is not tried"

    [worker] = set(manager.processes("dies-later")) - {later}
    os.kill(later, signal.SIGKILL)
    # Without a request, and without a look at the status, which would make the loop look, too.
    manager.wait_log("model died", timeout=2, model="dies-later")
    died = manager.wait_model("dies-later", state="failing", pid=None)  # its worker is cleared away first
    assert "killed by SIGKILL (9); somebody ended it, neither reconcile nor the kernel" in died["last_error"]
    assert died["failure"] == "Killed"
    answer = manager.ask("dies-later")
    assert answer.status_code == 200
    assert answer.json()["pid"] != later

    wait_for(lambda: "Z" not in manager.children().values(), 2, "every dead child to be reaped")
    assert manager.wait_ready("fine") == [fine]
    assert process_state(later) is None
    assert not running(worker), "what the dead server left behind was not cleared away"
    assert [line["reason"] for line in manager.log("evict")] == ["Crashed"]
    assert [line["event"] for line in manager.log(model="fine")] == ["load", "loaded"]


def test_a_request_for_a_model_that_fails_to_load_is_answered(manager: Manager) -> None:
    """It hears what happened, and an edit ends the back-off."""
    manager.write({"bad": manager.fake("bad", "--exit", "3")})
    manager.start()
    first = manager.ask("bad")
    assert first.status_code == 502
    error = first.json()["error"]
    assert (error["code"], error["type"]) == ("load_failed", "server_error")
    assert "exit code 3" in error["message"]
    assert "its last line: fake engine leaves with 3" in error["message"]
    assert first.headers["retry-after"] == "2"
    manager.write({"bad": manager.fake("bad", "--repaired")})
    wait_for(lambda: manager.status()["manifest"]["generation"] == 2, SOON, "the repaired manifest")
    assert manager.ask("bad").status_code == 200


def test_a_model_that_served_and_died_is_waited_for(manager: Manager) -> None:
    """The third death makes the next try 8 s away: a request stands in line for it, and is told why."""
    manager.write({"shaky": manager.fake("shaky")})
    manager.start()
    assert manager.ask("shaky").status_code == 200
    _die(manager, 1)
    manager.stop()
    # The second death, whose wait this test does not want to wait for.
    with closing(sqlite3.connect(manager.state_dir / DATABASE)) as ledger, ledger:
        ledger.execute("UPDATE ledger SET failures = 2, retry_at = NULL")
    manager.start()
    assert manager.ask("shaky").status_code == 200
    _die(manager, 2)
    waiting = Asking(manager, "shaky")
    found = manager.wait_model("shaky", waiting=1)
    assert 5 < found["retry_in"] <= 8
    assert found["verdict"]["detail"].startswith("died 3 times, tries again in ")
    manager.client.post(
        "/api/v1/models/shaky/load"
    )  # a person does not want to wait, and begins the count anew
    assert waiting.status() == 200
    _die(manager, 3)
    wait_for(lambda: manager.model("shaky")["failures"] == 1, SOON, "the first death of a new count")


def _die(manager: Manager, deaths: int) -> None:
    """Kill the model, and wait until so many of its deaths were seen."""
    [pid] = manager.wait_ready("shaky")
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: len(manager.events("crashed", "shaky")) == deaths, SOON, "the death to be seen")
