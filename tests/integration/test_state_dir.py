"""The state directory fills up, is held by others or ruined while the manager runs."""

import os
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from manager import SOON, Manager, running
from support import wait_for

#: Bytes of the file system that fills up.
SMALL = 2 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own for a state directory; without the right to mount one the test is skipped."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SMALL},mode=0700", "none", str(folder)]
    mounted = subprocess.run(command, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"nothing can be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Write until nothing more fits."""
    file = folder / "filler"
    with file.open("wb", buffering=0) as out:
        for size in (4096, 512, 1):
            try:
                while True:
                    out.write(b"x" * size)
            except OSError:
                continue
    return file


def trouble(manager: Manager) -> str | None:
    """Return what is said of the ledger that cannot be written."""
    found = manager.condition("Degraded")
    return str(found["message"]) if found is not None and found["reason"] == "LedgerUnwritable" else None


def models(manager: Manager) -> dict[str, dict[str, object]]:
    """Return two models that fit together, of which one is loaded at once."""
    return {"alpha": manager.fake("alpha", residency="warm"), "beta": manager.fake("beta")}


def work(manager: Manager, pid: int) -> None:
    """Serve, load and unload as if nothing were wrong."""
    assert manager.ask("alpha").json()["pid"] == pid
    assert manager.ask("beta").status_code == 200, "a model cannot be loaded"
    assert manager.cli("evict", "beta").returncode == 0
    assert manager.ask("beta").status_code == 200


DONE = [("load", "beta"), ("loaded", "beta"), ("evicted", "beta"), ("load", "beta"), ("loaded", "beta")]


def history(manager: Manager) -> list[tuple[str, str]]:
    """Return what the ledger says was done with beta, in order."""
    wanted = ("load", "loaded", "evicted")
    with closing(sqlite3.connect(f"file:{manager.state_dir / 'ledger.db'}?mode=ro", uri=True)) as db:
        rows = db.execute("SELECT kind, model FROM events WHERE model = 'beta' ORDER BY id").fetchall()
    return [(kind, model) for kind, model in rows if kind in wanted]


def test_a_full_disk_stops_nothing_and_nothing_is_lost(
    new_manager: Callable[..., Manager], small_disk: Path
) -> None:
    manager = new_manager(state_dir=small_disk / "state")
    manager.write(models(manager))
    manager.start()
    [pid] = manager.wait_ready("alpha")
    filler = fill(small_disk)
    work(manager, pid)
    [beta] = manager.wait_ready("beta")
    assert wait_for(lambda: trouble(manager), SOON, "that it is said")
    filler.unlink()
    wait_for(lambda: trouble(manager) is None, SOON, "that it is over")
    wait_for(lambda: history(manager) == DONE, SOON, "all of what was done in the history")
    assert len(manager.log("the ledger cannot be written: the models serve on")) == 1
    manager.kill()
    manager.start()
    assert manager.wait_ready("alpha", "beta") == [pid, beta], "what was loaded meanwhile was not adopted"
    assert manager.stop() == 0


def test_what_was_loaded_on_a_full_disk_is_ended_by_a_stop_without_a_manager(
    new_manager: Callable[..., Manager], small_disk: Path
) -> None:
    """No record could be made of it; it is ours all the same, and would hold memory that nobody counts."""
    manager = new_manager(state_dir=small_disk / "state")
    manager.write(models(manager))
    manager.start()
    [pid] = manager.wait_ready("alpha")
    filler = fill(small_disk)
    work(manager, pid)
    wait_for(lambda: trouble(manager), SOON, "that nothing can be written")
    [beta] = manager.wait_ready("beta")
    manager.kill()
    filler.unlink()
    done = manager.cli("stop")
    assert (done.returncode, done.stdout) == (0, "ended: alpha, 1 that no record knew\n")
    assert not running(pid)
    assert not running(beta)
    assert manager.cli("stop").stdout == "no loop runs and no model was left running\n"


def test_a_start_on_a_full_disk_says_what_to_do_and_the_models_serve_on(
    new_manager: Callable[..., Manager], small_disk: Path
) -> None:
    manager = new_manager(state_dir=small_disk / "state")
    manager.write(models(manager))
    manager.start()
    [pid] = manager.wait_ready("alpha")
    manager.kill()
    filler = fill(small_disk)
    before = len(manager.output.read_text())
    assert manager.launch().wait(SOON) == 1
    assert manager.output.read_text()[before:] == (
        f"error: the state directory {manager.state_dir} cannot be written to: No space left on device: "
        "make room; models that run serve on without a manager until then\n"
    )
    filler.unlink()
    manager.start()
    assert manager.wait_ready("alpha") == [pid]
    assert manager.stop() == 0


def test_a_ledger_that_another_program_holds_delays_nobody(manager: Manager) -> None:
    manager.write(models(manager))
    manager.start()
    [pid] = manager.wait_ready("alpha")
    with closing(sqlite3.connect(manager.state_dir / "ledger.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        work(manager, pid)
        assert "locked" in str(wait_for(lambda: trouble(manager), SOON, "that it is said"))
        other.execute("ROLLBACK")
    wait_for(lambda: trouble(manager) is None, SOON, "that it is over")
    wait_for(lambda: history(manager) == DONE, SOON, "all of what was done in the history")
    assert manager.stop() == 0


@pytest.mark.parametrize("how", ["removed", "garbage"])
def test_a_ledger_that_is_ruined_is_begun_anew_and_the_models_are_adopted_from_it(
    manager: Manager, how: str
) -> None:
    manager.write(models(manager))
    manager.start()
    [pid] = manager.wait_ready("alpha")
    path = manager.state_dir / "ledger.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    if how == "removed":
        for file in manager.state_dir.glob("ledger.db*"):
            file.unlink()
    else:
        path.write_bytes(os.urandom(path.stat().st_size))
    said = manager.wait_log("the ledger was begun anew: the models serve on", timeout=40)["what"]
    assert ("removed" in said) == (how == "removed")
    assert (manager.state_dir / "ledger.db.corrupt-1").exists() == (how == "garbage")
    wait_for(lambda: manager.events("ledger"), SOON, "an event that says so")
    work(manager, pid)
    [beta] = manager.wait_ready("beta")
    manager.kill()
    assert running(pid)
    manager.start()
    assert manager.wait_ready("alpha", "beta") == [pid, beta]
    assert not manager.log("ending a process of ours that no record knows")
    assert manager.status()["manifest"]["generation"] == 1
    assert manager.stop() == 0
