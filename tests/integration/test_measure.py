"""`reconcile measure` and `reconcile budget` with real managers, real processes and the real llama.cpp."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from manager import MIB, RECONCILE, SOON, Manager
from support import wait_for
from tiny_gguf import write_llama


def measured(manager: Manager, *words: str, code: int = 0) -> dict[str, Any]:
    done = manager.cli("measure", *words, "--seconds", "0.5", "--json", timeout=40)
    assert done.returncode == code, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def row(document: dict[str, Any], kind: str) -> dict[str, Any]:
    found: dict[str, Any] = next(r for r in document["comparisons"] if r["kind"] == kind)
    return found


def test_without_a_manager_it_is_loaded_and_ended_again(manager: Manager) -> None:
    """Its size is nowhere stated: measuring is how it becomes known."""
    entry = manager.fake("alpha", "--rss-mib", "60", "--grow-mib", "40", memory={})
    manager.write({"alpha": entry, "beta": manager.fake("beta")})
    document = measured(manager, "alpha", str(manager.manifests))
    assert (document["by"], document["stated"], document["written"]) == ("own", None, None)
    steady = row(document, "steady")["measured"]
    assert 100 * MIB <= steady <= 130 * MIB
    assert row(document, "peak")["measured"] >= steady
    assert document["load_seconds"] > 0
    assert document["committed"] == steady
    assert manager.processes("alpha") == manager.processes("beta") == []
    assert manager.ours() == []
    # What was measured is remembered: a loop that runs later charges it.
    budget = manager.cli("budget", "--json", str(manager.manifests))
    alpha = json.loads(budget.stdout)["models"][0]
    assert (alpha["name"], alpha["state"]) == ("alpha", "cold")
    assert alpha["bytes"]["measured"] == alpha["bytes"]["charged"] >= 100 * MIB


def test_written_into_the_manifest_only_that_line_differs(manager: Manager) -> None:
    manager.write(
        {
            "alpha": manager.fake("alpha", "--rss-mib", "60", memory={"peak": "50MiB"}),
            "beta": manager.fake("beta"),
        }
    )
    before = manager.file.read_text()
    document = measured(manager, "alpha", str(manager.manifests), "--write")
    steady = document["suggestion"]["steady"]
    assert 72 <= int(steady.removesuffix("MiB")) <= 104
    assert document["written"]["file"] == str(manager.file)
    assert document["written"]["diff"].count("\n+") == 2
    after = manager.file.read_text()
    peak = document["suggestion"]["peak"]
    assert after == before.replace('{"peak": "50MiB"}', f'{{"peak": "{peak}", "steady": "{steady}"}}')


def test_a_shared_value_is_refused_before_anything_is_started(manager: Manager) -> None:
    entry = json.dumps(manager.fake("alpha", memory=None) | {"memory": "MEM"}).replace('"MEM"', "*m")
    manager.file.write_text(
        f"apiVersion: reconciler/v1\nx-m: &m {{steady: 50MiB}}\nmodels:\n  alpha: {entry}\n"
    )
    done = manager.cli("measure", "alpha", str(manager.manifests), "--write", timeout=40)
    assert done.returncode == 1
    assert f"{manager.file}:2: alpha.memory is shared through an anchor" in done.stderr
    assert not manager.state_dir.exists()


SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]


@pytest.mark.parametrize(("number", "code"), SIGNALS)
@pytest.mark.parametrize("with_loop", [False, True])
def test_a_signal_leaves_nothing_behind(manager: Manager, number: int, code: int, with_loop: bool) -> None:
    manager.write({"alpha": manager.fake("alpha", "--rss-mib", "20")})
    path = [] if with_loop else [str(manager.manifests)]
    if with_loop:
        manager.start()
    command = [
        str(RECONCILE),
        "measure",
        "alpha",
        *path,
        "--seconds",
        "60",
        "--state-dir",
        str(manager.state_dir),
    ]
    # Whoever runs the tests in the background has Ctrl-C ignored, and so would have what they start.
    with subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        env=dict(os.environ),
        text=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stderr is not None
        said = iter(process.stderr)
        assert any(line.startswith("watching") for line in said)
        assert len(manager.processes("alpha")) == 1
        process.send_signal(number)
        rest = "".join(said)
        assert process.wait(SOON) == code, rest
    assert manager.processes("alpha") == []
    assert manager.ours() == []


def test_a_model_that_does_not_start_is_said(manager: Manager) -> None:
    manager.write({"alpha": manager.fake("alpha", "--exit", "3")})
    done = manager.cli("measure", "alpha", str(manager.manifests), timeout=40)
    assert done.returncode == 1
    assert "alpha was not loaded" in done.stderr
    assert "3" in done.stderr
    assert manager.ours() == []
    assert manager.cli("measure", "alhpa", str(manager.manifests)).stderr.startswith(
        'error: no model or alias is called "alhpa"; did you mean "alpha"?'
    )


def test_models_that_run_without_a_loop_are_not_ended_for_it(manager: Manager) -> None:
    manager.write({"alpha": manager.fake("alpha", residency="warm"), "beta": manager.fake("beta")})
    assert manager.launch("--once").wait(SOON) == 0
    pids = manager.processes("alpha")
    done = manager.cli("measure", "beta", str(manager.manifests), timeout=40)
    assert done.returncode == 1
    assert "models run without a loop: alpha" in done.stderr
    assert manager.processes("alpha") == pids != []
    assert manager.cli("stop").returncode == 0


def test_with_a_manager_it_is_asked_and_left_as_it_was(manager: Manager) -> None:
    models = {
        "alpha": manager.fake("alpha", "--rss-mib", "60", aliases=["first"]),
        "beta": manager.fake("beta", "--rss-mib", "30", residency="warm"),
    }
    manager.write(models)
    manager.start()
    (beta,) = manager.wait_ready("beta")
    document = measured(manager, "first", "--write")
    assert (document["model"], document["by"], document["stated"]) == ("alpha", "loop", 50 * MIB)
    assert 60 * MIB <= row(document, "steady")["measured"] <= 90 * MIB
    assert document["load_seconds"] is not None
    assert document["notes"] == []
    manager.wait_model("alpha", pid=None)
    assert manager.processes("alpha") == []
    # The loop has taken the new size over, and nobody was restarted for it.
    written = int(document["suggestion"]["steady"].removesuffix("MiB")) * MIB
    wait_for(lambda: loop_budget(manager)["alpha"]["stated"] == written, SOON, "the new size in force")
    # A model that was loaded stays so, in the same process.
    resident = measured(manager, "beta")
    assert resident["load_seconds"] is None
    assert any("loaded before" in text for text in resident["notes"])
    assert manager.wait_ready("beta") == [beta]


def loop_budget(manager: Manager) -> dict[str, dict[str, Any]]:
    document = manager.client.get("/api/v1/budget").json()
    assert document["seen_by"] == "loop"
    return {m["name"]: m for m in document["models"]}


def test_the_budget_of_a_running_manager(manager: Manager) -> None:
    manager.write(
        {"alpha": manager.fake("alpha", "--rss-mib", "30", residency="pinned"), "beta": manager.fake("beta")},
        90,
    )
    assert manager.cli("budget", str(manager.manifests)).stdout.startswith(
        f"manifest {manager.manifests}  generation 1  (no"
    )
    manager.start()
    manager.wait_ready("alpha")
    wait_for(lambda: loop_budget(manager)["alpha"]["bytes"]["measured"], SOON, "alpha is measured")
    done = manager.cli("budget")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0] == f"manifest {manager.manifests}  generation 1  (as the running loop sees it)"
    assert lines[1].startswith("models   90 MiB stated")
    alpha = next(line.split() for line in lines if line.startswith("alpha "))
    assert alpha[1:3] == ["ready", "pinned"]
    assert "alpha and beta: never together, 10 MiB short" in done.stdout
    (never,) = (line for line in lines if line.startswith("never "))
    assert never.split(maxsplit=1)[1].startswith("beta (10 MiB short"), never
    named = json.loads(manager.cli("budget", "--json", str(manager.manifests)).stdout)
    assert (named["seen_by"], named["models"][0]["state"]) == ("loop", "ready")


@pytest.mark.engine
def test_a_real_llama_is_measured_and_written(new_manager: Callable[..., Manager], tmp_path: Path) -> None:
    manager = new_manager()
    weights = write_llama(Path(manager.tag("tiny")) / "model.gguf", pad_mib=48)
    length = {"max_tokens": 2048}
    manager.write({"tiny": {"engine": "llama.cpp", "weights": str(weights), "context": length}})
    document = measured(manager, "tiny", str(manager.manifests), "--write")
    estimated, steady = row(document, "steady")["estimated"], row(document, "steady")["measured"]
    assert abs(steady - estimated) <= max(32 * MIB, estimated * 0.05)
    assert row(document, "peak")["measured"] >= steady
    # The weights are mapped, and every one of them was touched.
    assert document["warm"] >= 0.9 * weights.stat().st_size
    assert document["notes"] == []
    assert f'"memory": {{"steady": "{document["suggestion"]["steady"]}"}}' in manager.file.read_text()
    assert manager.ours() == []
