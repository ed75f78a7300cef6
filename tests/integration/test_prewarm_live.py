"""Models that are loaded before anybody asks, in the whole program: when, in place of whom, and until when."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from manager import SOON, Asking, Manager
from nursery import Nursery
from reconciler.core.prewarms import BACKOFF_FIRST
from reconciler.store import RequestRecord, Store
from reconciler.store.paths import DATABASE
from support import wait_for

HASTY = Path(__file__).parents[1] / "hasty_manager.py"
#: Seconds between two requests for a model that is used all the time.
OFTEN = 90.0


class HastyManager(Manager):
    """A manager to which minutes are as long as the test says."""

    def command(self, *options: str) -> list[str]:
        return [sys.executable, str(HASTY), *super().command(*options)[1:]]


@pytest.fixture
def begin(tmp_path: Path, nursery: Nursery) -> Iterator[Callable[..., Manager]]:
    """Make a manager that is not started yet, in whose ledger `usual` was used all morning."""
    with ExitStack() as stack:

        def made(pace: float = 60.0, vain_after: float = 3600.0) -> Manager:
            env = {"PACE": str(pace), "VAIN_AFTER": str(vain_after)}
            manager = stack.enter_context(HastyManager(tmp_path / "manager", env=env, nursery=nursery))
            used_all_morning(manager, "usual")
            return manager

        yield made


def used_all_morning(manager: Manager, model: str) -> None:
    """Leave in the ledger that a model was asked every `OFTEN` seconds for hours, the last time a moment ago."""
    manager.state_dir.mkdir(parents=True)
    store = Store(manager.state_dir / DATABASE)
    last = time.time() - 10.0
    store.add_requests(
        RequestRecord(0, last - OFTEN * n, model, "", 0.0, 0.0, 1.0, None, None, "ok")
        for n in reversed(range(120))
    )
    store.close()


def three(manager: Manager, *options: str) -> dict[str, dict[str, object]]:
    """Return three models of which two fit into the 100 MiB there are; `options` are those of `usual`."""
    return {"usual": manager.fake("usual", *options), "b": manager.fake("b"), "c": manager.fake("c")}


def counts(manager: Manager, model: str = "usual") -> dict[str, Any]:
    found: dict[str, Any] = manager.model(model)["prewarm"] or {}
    return {key: found.get(key) for key in ("begun", "used", "in_vain", "broken_off")}


def test_what_is_used_all_the_time_is_there_before_it_is_asked_for(begin: Callable[..., Manager]) -> None:
    manager = begin()
    manager.write(three(manager), memory=100)
    manager.start()
    manager.wait_ready("usual")
    assert manager.log("load") == manager.log("load", model="usual", reason="Prewarm")
    assert counts(manager) == {"begun": 1, "used": 0, "in_vain": 0, "broken_off": 0}
    assert manager.ask("usual").status_code == 200
    wait_for(lambda: counts(manager)["used"] == 1, SOON, "a use that is counted")
    assert counts(manager) == {"begun": 1, "used": 1, "in_vain": 0, "broken_off": 0}
    figures = manager.status()["prewarm"]
    assert (figures["mode"], figures["last_hour"], figures["precision"], figures["recall"]) == (
        "free",
        1,
        1,
        1,
    )
    assert manager.ask("b").status_code == 200
    wait_for(lambda: manager.status()["prewarm"]["recall"] == 0.5, SOON, "a load that was not foreseen")
    assert "prewarm  free: 1 begun in advance, 1 used; 50%" in manager.cli("status").stdout
    assert [reason for reason, _ in manager.events("prewarm-used", "usual")] == ["Used"]


def test_who_does_not_want_it_is_not_surprised(begin: Callable[..., Manager]) -> None:
    manager = begin()
    manager.write(three(manager), memory=100, prewarm="off")
    manager.start()
    assert manager.ask("b").status_code == 200
    manager.write(three(manager), memory=100, prewarm_per_hour=0)
    wait_for(lambda: manager.status()["prewarm"]["per_hour"] == 0, SOON, "the edit")
    manager.wait_calm()
    assert manager.steps() == ["load b", "loaded b"]
    other = manager.manifests / "other.draft"  # beside it: its directory is where models run
    other.write_text(manager.text(three(manager), memory=100))
    plan = json.loads(manager.cli(str(other), "--dry-run", "--json").stdout)  # by what the loop sees
    assert [(s["action"], s["model"], s["reason"]) for s in plan["steps"]] == [("load", "usual", "Prewarm")]
    manager.write(three(manager), memory=100)  # applies at once
    manager.wait_ready("usual")


def test_a_request_breaks_off_what_nobody_waits_for(begin: Callable[..., Manager], tmp_path: Path) -> None:
    manager = begin()
    manager.write(three(manager, "--load-until", str(tmp_path / "never")), memory=100)
    manager.start()
    manager.wait_log("load", model="usual", reason="Prewarm")
    [loading] = wait_for(lambda: manager.processes("usual"), SOON, "a process that loads")
    assert manager.ask("b", timeout=SOON).status_code == 200
    assert manager.wait_log("given up", model="usual")["why"] == "somebody waits for another model"
    assert manager.processes("usual") == []
    status = manager.wait_calm()
    assert counts(manager) == {"begun": 1, "used": 0, "in_vain": 0, "broken_off": 1}
    usual = next(m for m in status["models"] if m["name"] == "usual")
    assert (usual["state"], usual["failures"], usual["last_error"]) == ("cold", 0, "")
    assert manager.log("load failed") == []
    assert loading not in [m["pid"] for m in status["models"]]


@pytest.mark.parametrize("crash", [False, True])
def test_what_was_loaded_in_advance_counts_over_a_restart(
    begin: Callable[..., Manager], tmp_path: Path, crash: bool
) -> None:
    manager = begin()
    manager.write(three(manager, *(["--load-until", str(tmp_path / "never")] if crash else [])), memory=100)
    manager.start()
    if crash:
        manager.wait_log("load", model="usual", reason="Prewarm")
        wait_for(lambda: manager.processes("usual"), SOON, "a process that loads")
        manager.kill()
    else:
        manager.wait_ready("usual")
        assert manager.stop() == 0
    manager.start()
    manager.wait_calm()
    prewarm = manager.status()["prewarm"]
    assert prewarm["last_hour"] == 1
    assert manager.steps().count("load usual") == 1  # a second one may come in a minute


def test_who_was_asked_to_go_is_not_there_again_after_a_restart(begin: Callable[..., Manager]) -> None:
    manager = begin(pace=0.5)
    models = three(manager)
    models["b"] = manager.fake("b") | {"residency": "warm"}
    manager.write(models, memory=100)
    manager.start()
    manager.wait_ready("usual", "b")
    assert manager.cli("evict", "usual").returncode == manager.cli("evict", "b").returncode == 0
    before = manager.steps()
    assert manager.stop() == 0
    manager.start()
    manager.wait_calm()
    assert {m["name"]: m["verdict"]["reason"] for m in manager.status()["models"]} == {
        "usual": "Dismissed",
        "b": "Dismissed",
        "c": "NotWanted",
    }
    assert manager.ask("b").status_code == 200
    manager.wait_calm()
    assert manager.steps()[len(before) :] == ["load b", "loaded b"]


def test_a_stop_is_why_a_load_is_broken_off(begin: Callable[..., Manager], tmp_path: Path) -> None:
    manager = begin()
    manager.write(three(manager, "--load-until", str(tmp_path / "never")), memory=100)
    manager.start()
    manager.wait_log("load", model="usual", reason="Prewarm")
    assert manager.stop() == 0
    assert manager.wait_log("given up", model="usual")["why"] == "reconcile is stopping"


def test_whoever_asks_for_what_is_loaded_in_advance_has_it_finished(
    begin: Callable[..., Manager], tmp_path: Path
) -> None:
    manager = begin()
    go = tmp_path / "go"
    manager.write(three(manager, "--load-until", str(go)), memory=100)
    manager.start()
    manager.wait_log("load", model="usual", reason="Prewarm")
    asking = Asking(manager, "usual")
    manager.wait_model("usual", waiting=1)
    other = Asking(manager, "b")
    manager.wait_model("b", waiting=1)
    go.touch()
    assert (asking.status(), other.status()) == (200, 200)
    manager.wait_log("loaded", model="b")
    assert manager.steps() == ["load usual", "loaded usual", "load b", "loaded b"]
    assert counts(manager)["used"] == 1


def test_full_puts_the_likely_in_place_of_the_unlikely(begin: Callable[..., Manager]) -> None:
    manager = begin(pace=0.5)
    manager.write(three(manager), memory=100, prewarm="off")
    manager.start()
    for model in ("b", "c"):
        assert manager.ask(model).status_code == 200
    manager.write(three(manager), memory=100, prewarm="free")
    manager.wait_calm()
    assert manager.log("evict") == []
    manager.write(three(manager), memory=100, prewarm="full")
    manager.wait_ready("usual")
    [gone] = manager.log("evict")
    assert (gone["reason"], gone["for_model"]) == ("LessLikely", "usual")
    assert manager.log("load", model="usual")[0]["reason"] == "Prewarm"
    assert manager.ask("usual").status_code == 200
    wait_for(lambda: counts(manager)["used"] == 1, SOON, "a use that is counted")


def test_what_nobody_uses_was_in_vain_and_is_let_alone(begin: Callable[..., Manager]) -> None:
    manager = begin(vain_after=0.3)
    manager.write(three(manager), memory=100)
    manager.start()
    manager.wait_ready("usual")
    wait_for(lambda: counts(manager)["in_vain"] == 1, SOON, "a load in vain")
    assert BACKOFF_FIRST - 100 < manager.model("usual")["prewarm"]["again_in"] <= BACKOFF_FIRST
    assert [reason for reason, _ in manager.events("prewarm-in-vain", "usual")] == ["InVain"]
    assert manager.cli("evict", "usual").returncode == 0
    assert manager.ask("b").status_code == 200  # it is not loaded again, though there is room
    manager.wait_calm()
    assert manager.steps().count("load usual") == 1
