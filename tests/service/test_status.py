"""The state of a service in words and as JSON, and whether its unit is what would be written."""

import json
import os
from pathlib import Path

import pytest

from service_tools import Tools

from .conftest import MANIFEST, Run, unit


def test_the_status_in_words(home: Path, tools: Tools, run: Run) -> None:
    code, out, _ = run("status")
    assert code == 1
    assert out == (
        f"reconcile  systemd, of this user\nunit       {unit(home)}  not installed: reconcile service install\n"
    )
    run("install", "desk")
    running = {"ActiveState": "active", "SubState": "running", "UnitFileState": "enabled"}
    tools.say(
        unit={**running, "MainPID": str(os.getpid()), "NRestarts": "2", "StatusText": "1 of 1 model ready"}
    )
    state = home / ".local/state/reconciler"
    state.mkdir(parents=True)
    (state / "service-exit.json").write_text(
        '{"result": "watchdog", "code": "dumped", "status": "ABRT", "at": 1796029135}'
    )
    code, out, _ = run("status")
    assert code == 0
    assert f"unit       {unit(home)}  as it should be\n" in out
    assert "state      running since 20" in out
    assert f"(pid {os.getpid()}); starts by itself\n" in out
    assert "says       1 of 1 model ready\nrestarts   2 restarts that nobody asked for\n" in out
    assert "last end   its loop hung and was ended by the watchdog, 2026-" in out
    assert f"manifest   {home}/desk\nkept in    {state}\n" in out


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ({"ActiveState": "activating", "SubState": "auto-restart"}, "restarting"),
        ({"ActiveState": "activating", "SubState": "start"}, "starting"),
        ({"ActiveState": "deactivating"}, "stopping"),
        ({"ActiveState": "failed"}, "failed"),
        ({"ActiveState": "something new"}, "unknown"),
    ],
)
def test_every_state_of_a_unit(home: Path, tools: Tools, run: Run, said: dict[str, str], state: str) -> None:
    run("install", "desk", "--no-start")
    tools.say(unit=said)
    code, out, _ = run("status", "--json")
    assert (code, json.loads(out)["state"]) == (1, state)


def test_a_manifest_that_stops_slower_makes_the_unit_stale(home: Path, tools: Tools, run: Run) -> None:
    run("install", "desk")
    (home / "desk/models.yaml").write_text(MANIFEST.replace("20s", "25s"))
    assert "differs from what would be written: reconcile service install\n" in run("status")[1]
    (home / "desk/models.yaml").write_text("broken: [")
    assert json.loads(run("status", "--json")[1])["current"] is True, "as far as can be told"
