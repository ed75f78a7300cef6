"""A service manager or a ledger that is missing, silent or refuses: said, and how to help it, nothing half-done."""

import os
import sqlite3
from pathlib import Path

from reconciler.host.owner import owner_of
from reconciler.store import DATABASE
from service_tools import Tools

from .conftest import Run, unit


def test_without_systemd_the_unit_is_printed_with_what_to_do(home: Path, tmp_path: Path, run: Run) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    os.environ["PATH"] = str(empty)  # the fixture puts it back
    code, out, err = run("install", "desk")
    assert code == 1
    assert out.startswith("# Written by `reconcile service install`")
    assert "there is no systemctl here" in err
    assert f"save it as {unit(home)}\n  systemctl --user daemon-reload\n" in err
    assert "docker run --init" in err
    assert not unit(home).exists()
    code, out, err = run("install", "desk", on="macos")
    assert (code, "<plist" in out, "launchctl bootstrap gui/" in err) == (1, True, True)


def test_a_systemd_that_does_not_answer_is_said(home: Path, tools: Tools, run: Run) -> None:
    tools.say(fails={"show --property=Version": "Failed to connect to bus: Host is down"})
    code, out, err = run("install", "desk")
    assert code == 1
    assert "systemd does not answer here (Failed to connect to bus: Host is down)" in err
    assert "[Service]" in out
    assert not unit(home).exists()


def test_what_cannot_be_stopped_is_not_removed(home: Path, tools: Tools, run: Run) -> None:
    run("install", "desk")
    tools.say(fails={"show --property=Version": "Failed to connect to bus: Host is down"})
    code, out, err = run("uninstall")
    assert (code, out) == (1, "")
    assert err.endswith(f"; to remove it for good nonetheless, delete {unit(home)}\n")
    code, out, _ = run("status")
    assert code == 1
    assert "problem    systemd does not answer here" in out
    assert "state      unknown\n" in out
    tools.say(fails={"disable --now": "Failed to stop reconcile.service: Connection timed out"})
    code, out, err = run("uninstall")
    assert (code, out) == (1, "")
    assert err.startswith("error: reconcile.service could not be stopped and disabled: Failed to stop")
    assert unit(home).exists()


def test_a_start_that_fails_is_said(home: Path, tools: Tools, run: Run) -> None:
    tools.say(fails={"start reconcile": "Job for reconcile.service failed."})
    code, _, err = run("install", "desk")
    assert code == 1
    assert err == (
        "error: reconcile.service did not start (see: journalctl --user -u reconcile -n 20): Job for reconcile.service"
        " failed.\n"
    )


def test_a_ledger_of_a_newer_version_does_not_say_what_is_left(home: Path, tools: Tools, run: Run) -> None:
    run("install", "desk", "--state-dir", "state")
    (home / "state").mkdir()
    owner_of(home / "state")  # a loop ran here
    db = sqlite3.connect(home / "state" / DATABASE)
    db.execute("PRAGMA user_version = 99")
    db.close()
    code, out, err = run("uninstall")
    assert (code, out) == (1, f"stopped reconcile and removed {unit(home)}\n")
    assert err.startswith(
        "error: the service is removed; whether models are left cannot be told: schema version 99 is newer than"
    )
    assert not unit(home).exists()
