"""A model that goes for another one and is wanted again: what it cost is on record, over restarts, and is told."""

import time
from typing import Any

import pytest

from manager import SOON, Manager
from reconciler.store import EvictionRecord, LoadRecord, peek
from reconciler.store.paths import DATABASE
from support import wait_for


def gone(manager: Manager, model: str) -> tuple[EvictionRecord, ...]:
    with peek(manager.state_dir / DATABASE) as store:
        return store.evictions(model)


def loaded(manager: Manager, model: str) -> tuple[LoadRecord, ...]:
    with peek(manager.state_dir / DATABASE) as store:
        return store.loads(model)


def last_regret(manager: Manager, model: str, count: int) -> EvictionRecord | None:
    found = gone(manager, model)
    return found[-1] if len(found) == count and found[-1].wanted_after is not None else None


def test_a_regret_is_recorded_with_its_seconds_and_kept_over_a_restart(manager: Manager) -> None:
    models: dict[str, dict[str, Any]] = {m: manager.fake(m, size=60) for m in ("chat", "coder")}
    manager.write(models, memory=100, prewarm="off")
    manager.start()
    for model in ("chat", "coder"):
        assert manager.ask(model).status_code == 200
    manager.wait_calm()
    [record] = gone(manager, "chat")
    assert (record.reason, record.for_model, record.outcome) == ("MakeRoom", "coder", "gone")
    assert record.wanted_after is None
    assert record.pressure == "calm"
    assert 0 < record.frees <= 70 << 20
    assert 0 <= record.idle <= record.resident < SOON
    assert manager.stop() == 0
    manager.start()
    asked = time.time()
    assert manager.ask("chat").status_code == 200  # the first run's eviction is rued in the second
    rued = wait_for(
        lambda: last_regret(manager, "chat", 1), SOON, "the regret of the eviction before the restart"
    )
    assert rued is not None
    assert rued.wanted_after == pytest.approx(asked - record.at, abs=0.5)
    assert rued.id == record.id

    # The load is written down when it is over, which is after its requests are let in.
    wait_for(lambda: len(loaded(manager, "chat")) == 2, SOON, "the second load in the history")
    loads = loaded(manager, "chat")
    with peek(manager.state_dir / DATABASE) as store:
        requests = store.requests()
    assert [(x.outcome, x.reason, x.kind, x.waiting) for x in loads] == [("ready", "Demanded", "load", 1)] * 2
    assert all(0 < x.seconds < SOON and (x.peak or 0) > 0 for x in loads)
    assert [(r.model, r.outcome) for r in requests[:2]] == [("chat", "ok"), ("coder", "ok")]
    assert all(0 < r.cold <= r.waited for r in requests)


def test_models_that_take_turns_are_told_once_and_forgetting_one_keeps_its_history(manager: Manager) -> None:
    models: dict[str, dict[str, Any]] = {m: manager.fake(m, size=60) for m in ("chat", "coder")}
    manager.write(models, memory=100, prewarm="off")
    manager.start()
    for _ in range(4):
        for model in ("chat", "coder"):
            assert manager.ask(model).status_code == 200
    found = manager.wait_condition("EvictedThenWanted", "chat", reason="MakeRoom")
    assert found["message"].startswith(
        "was wanted again within a minute of 3 of 4 evictions in the last hour, each time for coder: "
    )
    events = manager.cli("events", "--kind", "evicted-then-wanted").stdout.splitlines()
    assert len([line for line in events if "chat" in line.split("EvictedThenWanted")[0]]) == 1
    before = gone(manager, "chat")
    assert manager.cli("forget", "chat").returncode == 0
    assert manager.ask("chat").status_code == 200
    wait_for(lambda: last_regret(manager, "chat", 4), SOON, "the last eviction of chat to be rued")
    assert [r.at for r in gone(manager, "chat")] == [r.at for r in before]


def test_what_is_told_ends_with_the_edit_that_mends_it(manager: Manager) -> None:
    models: dict[str, dict[str, Any]] = {m: manager.fake(m, size=60) for m in ("chat", "coder")}
    manager.write(models, memory=100, prewarm="off")
    manager.start()
    for _ in range(4):
        for model in ("chat", "coder"):
            assert manager.ask(model).status_code == 200
    manager.wait_condition("EvictedThenWanted", "chat", reason="MakeRoom")
    manager.write(models, memory=300, prewarm="off")
    wait_for(lambda: not manager.condition("EvictedThenWanted", "chat"), SOON, "the end of the condition")
    assert manager.stop() == 0
    manager.start()  # who starts with what was mended hears nothing of it again
    wait_for(lambda: not manager.condition("EvictedThenWanted", "chat"), SOON, "no condition")
