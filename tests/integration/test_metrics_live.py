"""The counters of a real run are those of its history: loads, evictions, regrets, failures, requests, their waits."""

import re
import sys

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from manager import SOON, Manager
from reconciler.core.regrets import rued
from reconciler.core.types import Reason
from reconciler.store import EvictionRecord, LoadRecord, RequestRecord, peek
from reconciler.store.paths import DATABASE
from support import wait_for

ALL = ("broken", "chat", "coder")
Records = tuple[tuple[LoadRecord, ...], tuple[EvictionRecord, ...], tuple[RequestRecord, ...]]


def scraped(manager: Manager) -> dict[str, dict[str, float]]:
    """Return model -> metric (with what tells its samples apart) -> value."""
    text = httpx.get(f"{manager.url}/metrics", trust_env=False).text
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = dict(sample.labels)
            model = labels.pop("model", "")
            rest = "".join(f" {value}" for _, value in sorted(labels.items()))
            name = re.sub(r"^reconcile_", "", sample.name)
            found.setdefault(model, {})[f"{name}{rest}"] = sample.value
    return found


def recorded(manager: Manager, model: str) -> Records:
    with peek(manager.state_dir / DATABASE) as store:
        requests = tuple(r for r in store.requests() if r.model == model)
        return store.loads(model), store.evictions(model), requests


def test_the_counters_are_those_of_the_history(manager: Manager) -> None:
    models = {model: manager.fake(model, size=60) for model in ("chat", "coder")}
    models["broken"] = {
        "engine": "command",
        "command": [sys.executable, "-c", "raise SystemExit(3)", "${port}"],
        "memory": {"steady": "1MiB"},
    }
    manager.write(models, memory=100, prewarm="off")
    manager.start()
    for model in ("chat", "coder", "chat", "chat", "coder"):
        assert manager.ask(model).status_code == 200
    assert manager.ask("broken").status_code == 502
    assert manager.ask("nobody").status_code == 404

    def written() -> bool:
        requests = scraped(manager)
        return all(requests[m]["requests_total ok"] == n for m, n in (("chat", 3), ("coder", 2)))

    wait_for(written, SOON, "all requests to be counted")
    manager.wait_calm()
    seen = scraped(manager)
    manager.cli("history")  # has everything written down
    for model in ALL:
        counts, (loads, evictions, requests) = seen[model], recorded(manager, model)
        for outcome in ("ready", "failed", "given-up"):
            assert counts[f"loads_total {outcome}"] == sum(x.outcome == outcome for x in loads), model
        assert counts["load_seconds_sum"] == pytest.approx(
            sum(x.seconds for x in loads if x.outcome == "ready")
        )
        assert counts["evictions_total MakeRoom"] == sum(
            (x.reason, x.outcome) == ("MakeRoom", "gone") for x in evictions
        )
        assert counts["regrets_total"] == sum(rued(Reason(x.reason), x.wanted_after) for x in evictions)
        assert counts["requests_total ok"] == sum(x.outcome == "ok" for x in requests)
        assert counts["requests_total refused"] == sum(x.outcome.startswith("refused") for x in requests)
        assert counts["request_wait_seconds_sum"] == pytest.approx(sum(x.waited for x in requests))
        assert counts["request_cold_wait_seconds_count"] == sum(x.cold > 0 for x in requests)
        assert counts["tokens_total output"] == sum(x.output_tokens or 0 for x in requests)
    # The last time chat went nobody wanted it back.
    assert (seen["chat"]["evictions_total MakeRoom"], seen["chat"]["regrets_total"]) == (2, 1)
    assert (seen["coder"]["evictions_total MakeRoom"], seen["coder"]["regrets_total"]) == (1, 1)
    assert seen["broken"]["failures_total Crashed"] == seen["broken"]["loads_total failed"] >= 1
    assert seen["broken"]["gateway_errors_total load_failed"] == 1
    assert seen[".other"]["gateway_errors_total model_not_found"] == 1
    assert seen[""]["loop_turn_seconds_count"] > 5
    assert seen[""]["memory_held_bytes"] == seen["coder"]["model_charged_bytes"]
