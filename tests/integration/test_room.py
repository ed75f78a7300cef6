"""Making room: as few victims as possible, none for what can never fit, and a pin is never one."""

import json
import time

from manager import Manager
from support import get_json


def layout(manager: Manager, **residencies: str) -> dict[str, dict[str, object]]:
    """Return the models; by default only `pin` is pinned."""
    sizes = {"tiny": 50, "mid": 300, "big": 500, "pin": 100, "want450": 450, "want950": 950, "want30": 30}
    return {
        name: manager.fake(
            name,
            size=size,
            cwd="/",
            residency=residencies.get(name, "pinned" if name == "pin" else "on_demand"),
        )
        for name, size in sizes.items()
    }


def dry_run(manager: Manager, models: dict[str, dict[str, object]]) -> dict[str, dict[str, str]]:
    """Ask what another manifest would do to the running loop's world; return steps and verdicts by model."""
    other = manager.root / "other.yaml"
    other.write_text(manager.text(models))
    said = manager.cli(str(other), "--dry-run", "--json")
    assert said.returncode == 0, said.stderr
    plan = json.loads(said.stdout)
    return {
        "steps": {step["model"]: step["action"] for step in plan["steps"]},
        "verdicts": {v["model"]: v["reason"] for v in plan["verdicts"]},
    }


def test_victims_are_few_and_never_in_vain(manager: Manager) -> None:
    manager.write(layout(manager))
    manager.start()
    [pin] = manager.wait_ready("pin")
    for name in ("tiny", "mid", "big"):
        assert manager.ask(name).status_code == 200
    before = dict(zip(("tiny", "mid", "big"), manager.wait_ready("tiny", "mid", "big"), strict=True))
    manager.wait_calm()

    assert dry_run(manager, layout(manager, want450="pinned"))["steps"] == {"big": "evict", "want450": "load"}
    never = dry_run(manager, layout(manager, want950="warm"))
    assert never["steps"] == {}
    assert never["verdicts"]["want950"] == "NeverFits"
    assert dry_run(manager, layout(manager, want30="pinned"))["steps"] == {"want30": "load"}
    assert dict(zip(before, manager.wait_ready(*before), strict=True)) == before, "a dry run did something"

    began = time.monotonic()
    refused = manager.ask("want950")
    assert time.monotonic() - began < 1
    assert refused.status_code == 507
    assert refused.json()["error"]["code"] == "never_fits"
    assert "50 MiB short" in refused.json()["error"]["message"]
    assert dict(zip(before, manager.wait_ready(*before), strict=True)) == before

    assert manager.ask("want30").status_code == 200
    assert manager.log("evict") == []

    assert manager.ask("want450").status_code == 200
    assert [(e["model"], e["reason"], e["for_model"]) for e in manager.log("evict")] == [
        ("big", "MakeRoom", "want450")
    ]
    assert manager.wait_ready("tiny", "mid") == [before["tiny"], before["mid"]]

    for number in range(20):
        name = ("want450", "pin", "pin", "big", "pin")[number % 5]
        assert manager.ask(name).status_code == 200
    assert manager.wait_ready("pin") == [pin]
    assert not [e for e in manager.log("evict") if e["model"] == "pin"]


def test_a_pin_outranks_and_stays_whatever_is_asked(manager: Manager) -> None:
    """A person cannot evict it either, and a model of highest priority does not displace it."""
    models = {
        "pin": manager.fake("pin", size=600, residency="pinned", priority="batch"),
        "important": manager.fake("important", size=600, priority="critical"),
    }
    manager.write(models)
    manager.start()
    [pin] = manager.wait_ready("pin")
    answer = manager.ask("important", timeout=3)
    assert (answer.status_code, answer.json()["error"]["code"]) == (507, "never_fits")
    said = manager.cli("evict", "pin")
    assert said.returncode == 1
    assert "pinned" in said.stderr
    assert manager.wait_ready("pin") == [pin]
    assert get_json(f"{manager.url}/readyz") == {"status": "ready", "pinned": ["pin"]}


def test_a_lower_priority_waits_instead_of_evicting(manager: Manager) -> None:
    models = {
        "high": manager.fake("high", size=600, priority="high"),
        "low": manager.fake("low", size=600, priority="low", queue={"timeout": "0.3s"}),
    }
    manager.write(models)
    manager.start()
    assert manager.ask("high").status_code == 200
    answer = manager.ask("low")
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "queue_timeout"
    assert "retry-after" in answer.headers
    assert manager.steps() == ["load high", "loaded high"]


def test_nobody_is_stopped_for_a_model_that_cannot_be_started(manager: Manager) -> None:
    size = {"steady": "600MiB"}
    models: dict[str, dict[str, object]] = {
        "good": manager.fake("good", size=600),
        "no-program": {"engine": "command", "command": ["/no/such/server", "${port}"], "memory": size},
        "no-weights": manager.fake("no-weights", size=600, weights="no/such/file.bin"),
        "no-folder": manager.fake("no-folder", size=600, cwd="no/such/folder"),
        "port-taken": manager.fake("port-taken", size=600, port=manager.gateway_port),
    }
    manager.write(models)
    manager.start()
    assert manager.ask("good").status_code == 200
    [pid] = manager.wait_ready("good")
    for name, told in (
        ("no-program", "/no/such/server"),
        ("no-weights", "no/such/file.bin"),
        ("no-folder", "no/such/folder"),
        ("port-taken", f"port {manager.gateway_port} is in use by pid {manager.pid}"),
    ):
        answer = manager.ask(name, timeout=5)
        assert answer.status_code == 503, name
        assert told in answer.json()["error"]["message"]
    assert manager.wait_ready("good") == [pid]
    assert manager.steps() == ["load good", "loaded good"]
