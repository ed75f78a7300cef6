"""The desk for real: seven models of different kinds do their work under one manifest, in memory for some of them."""

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from support import wait_for

REPOSITORY = Path(__file__).resolve().parents[2]
DESK = REPOSITORY / "examples/desk"
MODELS = frozenset({"chat", "embed", "rerank", "ocr", "tts", "asr", "image"})
BUDGET_MIB = 900
#: Seconds for all of the work; it takes some 25 on a machine with nothing else to do.
DEADLINE = 600

pytestmark = [
    pytest.mark.desk,
    pytest.mark.timeout(DEADLINE + 60),
    pytest.mark.skipif(
        not (DESK / ".venv/reconciler-setup.json").exists()
        or not (DESK / "weights/minilm/model.gguf").exists(),
        reason="the desk is not set up: .venv/bin/python -m examples.desk.setup",
    ),
]


@dataclass(frozen=True)
class Run:
    """What one run printed, logged and left."""

    output: str
    log: list[dict[str, Any]]

    def of(self, event: str) -> list[dict[str, Any]]:
        return [entry for entry in self.log if entry["event"] == event]


def left_over(since: float) -> list[str]:
    """Return the command lines of processes begun since then that serve the desk's models."""
    found = []
    for process in psutil.process_iter(["cmdline", "create_time"]):
        line = " ".join(process.info["cmdline"] or ())
        if str(DESK) in line and process.info["create_time"] >= since:
            found.append(line)
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    log = tmp_path_factory.mktemp("desk") / "reconcile.log"
    began = time.time()
    command = [sys.executable, "-m", "examples.desk.run", "--log", str(log)]
    done = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=DEADLINE, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{log.read_text()[-3000:]}"
    wait_for(lambda: not left_over(began), 10, "the processes of the desk are gone")
    entries = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    return Run(done.stdout, entries)


def test_every_model_does_its_work(run: Run) -> None:
    assert {entry["model"] for entry in run.of("loaded")} == MODELS
    for answer in (
        "Owls and sparrows spend the night in hollow trees and hedges.",
        "INVOICE 2041\n  Total due: 1,250.00 EUR",
        "s of speech: out/sentence.wav",
        "chat, tts, asr and embed are what they say they are",
        "128 x 128",
    ):
        assert answer in run.output


def test_what_it_leaves_are_real_files(run: Run) -> None:
    assert (DESK / "out/sentence.wav").read_bytes()[:4] == b"RIFF"
    assert (DESK / "out/landscape.png").read_bytes()[:4] == b"\x89PNG"


def test_only_some_fit_so_that_others_made_room_for_a_reason(run: Run) -> None:
    evictions = [entry for entry in run.of("evict") if entry["reason"] == "MakeRoom"]
    assert evictions
    assert all(entry["for_model"] in MODELS and entry["why"] for entry in evictions)
    # What was pinned, and what has a higher priority, stays for all of the work.
    assert not {entry["model"] for entry in evictions} & {"embed", "chat"}
    for entry in evictions:
        assert (
            f"- {entry['model']:7} frees {entry['frees']}   MakeRoom for {entry['for_model']}" in run.output
        )


def test_the_transient_one_goes_when_it_is_done(run: Run) -> None:
    assert "TransientDone" in {entry["reason"] for entry in run.of("evict") if entry["model"] == "asr"}


def test_nobody_failed_and_the_budget_held(run: Run) -> None:
    assert [entry for entry in run.log if entry["level"] in ("warning", "error")] == []
    assert f"of {BUDGET_MIB} MiB" in run.output
    held: dict[str, float] = {}
    for entry in run.log:
        if entry["event"] == "loaded":
            held[entry["model"]] = float(entry["holds"].removesuffix(" MiB"))
            assert sum(held.values()) <= BUDGET_MIB, held
        elif entry["event"] == "evicted":
            held.pop(entry["model"])
