"""After the machine itself went down three times over its loads only pinned models are loaded, and all are told."""

import sqlite3
from collections.abc import Iterable
from contextlib import closing

from manager import SOON, Manager
from reconciler.boot import boot_id
from reconciler.store import Store
from reconciler.store.paths import DATABASE
from support import wait_for


def earlier(manager: Manager, runs: Iterable[tuple[str, str, bool]]) -> None:
    """Write down earlier runs: their boot, what they risked last, and whether they ended."""
    manager.state_dir.mkdir(parents=True, exist_ok=True)
    Store(manager.state_dir / DATABASE).close()
    with closing(sqlite3.connect(manager.state_dir / DATABASE)) as ledger, ledger:
        ledger.executemany(
            "INSERT INTO runs (at, boot_id, risk, ended, left_safe_mode) VALUES (0, ?, ?, ?, 0)", runs
        )


def written(manager: Manager) -> list[tuple[str, str, int]]:
    """Return what is on record of the runs of this boot."""
    with closing(sqlite3.connect(manager.state_dir / DATABASE)) as ledger:
        rows = ledger.execute(
            "SELECT boot_id, risk, ended FROM runs WHERE boot_id = ? ORDER BY id", (boot_id(),)
        )
        return list(rows)


def test_only_pinned_models_are_loaded_until_somebody_resumes(manager: Manager) -> None:
    manager.write(
        {
            "base": manager.fake("base", residency="pinned"),
            "warm": manager.fake("warm", residency="warm"),
            "chat": manager.fake("chat"),
        }
    )
    earlier(manager, [(f"boot-{n}", "loading chat", False) for n in range(3)])
    dry = manager.cli("--dry-run", str(manager.file.parent))
    assert "safe mode: the machine went down 3 times in a row" in dry.stdout, dry.stderr
    doctor = manager.cli("doctor", str(manager.file.parent))
    assert "the machine went down 3 times in a row" in doctor.stdout

    manager.start()
    manager.wait_ready("base")
    refused = manager.ask("chat")
    assert refused.status_code == 503
    error = refused.json()["error"]
    assert error["code"] == "not_startable"
    assert "safe mode: the machine went down 3 times in a row" in error["message"]
    assert "(the last time: loading chat)" in error["message"]
    assert "`reconcile resume`" in error["message"]
    condition = manager.condition("SafeMode")
    assert condition is not None
    assert (condition["status"], condition["reason"]) == ("True", "MachineWentDown")
    assert "the machine went down 3 times in a row" in manager.cli("status").stdout
    assert [reason for reason, _ in manager.events("safe-mode")] == ["Entered"]
    assert manager.log("safe mode", level="warning")
    assert "safe mode" in manager.cli("--dry-run", str(manager.file.parent)).stdout

    assert manager.cli("resume").stdout.strip() == "safe mode is over: every model is loaded again"
    manager.wait_ready("warm")
    assert manager.ask("chat").status_code == 200
    assert manager.condition("SafeMode") is None
    assert [reason for reason, _ in manager.events("safe-mode")] == ["Entered", "Left"]
    assert manager.cli("resume").stdout.strip() == "it is not in safe mode"
    manager.kill()
    manager.start()
    manager.wait_ready("base", "warm", "chat")
    assert not manager.events("safe-mode")[2:], "what a person has ended does not come back by itself"


def test_a_crash_of_the_manager_alone_is_no_end_of_the_machine(manager: Manager) -> None:
    """It is killed in the middle of loads, as often as it takes; the boot is the same."""
    manager.write({"chat": manager.fake("chat", "--load", "60", residency="warm")})
    for count in range(1, 5):
        manager.start()
        # What the last run was loading may still be there: this one has noted its own before that begins.
        mine = [(boot_id(), "loading chat", 0)]
        wait_for(lambda: written(manager)[count - 1 :] == mine, SOON, "a load on record")  # noqa: B023
        manager.kill()
    manager.start()
    assert manager.condition("SafeMode") is None
    assert manager.stop() == 0
    assert written(manager)[-1] == (boot_id(), "", 1)
