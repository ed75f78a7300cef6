"""Real llama.cpp servers on one file: its pages are in memory once, and the account knows it."""

import json
from pathlib import Path
from typing import Any

import pytest

from manager import SOON, Manager
from support import wait_for
from tiny_gguf import write_llama

pytest.importorskip("xllamacpp")
pytestmark = pytest.mark.engine

MIB = 1 << 20
NAMES = ("alpha", "beta", "gamma")
#: What is left over in the budget besides the three models.
SPARE = 16 * MIB


def layout(weights: Path) -> dict[str, dict[str, object]]:
    """Return three models of the same weights."""
    return {
        name: {"engine": "llama.cpp", "weights": str(weights), "context": {"max_tokens": 256}}
        for name in NAMES
    }


def frees(manager: Manager, models: dict[str, dict[str, object]], memory: int) -> list[int]:
    """Return what each eviction would give back if a new pinned model needed nearly all of the memory."""
    other = manager.root / "other.yaml"
    most = manager.fake("most", size=memory - 8, residency="pinned")
    other.write_text(manager.text({**models, "most": most}, memory))
    said = manager.cli(str(other), "--dry-run", "--json")
    assert said.returncode == 0, said.stderr
    return [int(step["bytes"]) for step in json.loads(said.stdout)["steps"] if step["action"] == "evict"]


def evict(manager: Manager, name: str) -> int:
    """Have a model evicted; return what the plan said it would free, in bytes as far as the log is exact."""
    pids = manager.wait_ready(name)
    assert manager.cli("evict", name).returncode == 0
    wait_for(lambda: manager.model(name)["pid"] not in pids, SOON, f"the end of {name}")
    manager.wait_calm()
    [*_, line] = manager.log("evict", model=name)
    assert line["frees"].endswith(" MiB")
    return int(line["frees"].split()[0]) * MIB


def test_a_file_that_three_models_map_is_counted_once(manager: Manager, tmp_path: Path) -> None:
    weights = write_llama(tmp_path / "weights" / "model.gguf", pad_mib=150)
    models = layout(weights)
    manager.write(models)
    manager.start()
    assert manager.ask("alpha").status_code == 200
    alone = manager.model("alpha")
    file = alone["memory"]["estimate"]["weights"]
    assert file == pytest.approx(weights.stat().st_size, rel=0.01)
    own = alone["size"] - file
    assert alone["held"] == pytest.approx(alone["size"], abs=32 * MIB)

    # Room for one file, not for two: nobody is refused, and nobody has to go.
    memory = (file + 3 * own + SPARE) // MIB
    assert memory * MIB < 2 * file
    manager.write(models, memory)
    manager.wait_log("manifest applied", generation=2)
    for name in ("beta", "gamma"):
        assert manager.ask(name, timeout=5).status_code == 200
    manager.wait_ready(*NAMES)
    status = manager.wait_calm()
    assert manager.log("evict") == []
    held, free = status["memory"]["held"], status["memory"]["free"]
    assert held == pytest.approx(file + 3 * own, abs=2 * MIB)
    assert free == pytest.approx(memory * MIB - held, abs=MIB)
    assert status["memory"]["breakdown"]["warm"] == pytest.approx(file, rel=0.02)
    budget = json.loads(manager.cli("budget", "--json").stdout)
    assert budget["machine"]["held"] == held
    assert budget["totals"]["bytes"]["charged"] == held
    assert budget["all"]["fits"] is True

    # The plan knows what each would give back: the last one the file too.
    planned = frees(manager, models, memory)
    assert planned[:2] == pytest.approx([own, own], abs=2 * MIB)
    assert planned[2:] == pytest.approx([own + file], abs=2 * MIB)

    before = figures(manager, "alpha")
    committed = manager.model("beta")["memory"]["committed"]
    freed = evict(manager, "beta")
    assert committed - MIB <= freed < committed + 32 * MIB
    # What is left for the others does not jump, although their shares of the file do.
    assert figures(manager, "alpha") == pytest.approx(before, abs=MIB)
    assert all(manager.condition("Degraded", name) is None for name in NAMES)
    assert manager.condition("Degraded") is None
    assert manager.status()["memory"]["held"] == pytest.approx(held - own, abs=2 * MIB)

    evict(manager, "alpha")
    assert evict(manager, "gamma") == pytest.approx(own + file, abs=2 * MIB)
    status = manager.status()
    assert (status["memory"]["held"], status["memory"]["free"]) == (0, memory * MIB)
    assert manager.log("memory did not come back in time") == []


def figures(manager: Manager, name: str) -> list[Any]:
    """Return what is said of a model's memory."""
    found = manager.model(name)
    return [found["size"], found["held"], found["memory"]["committed"], found["memory"]["warm"]]
