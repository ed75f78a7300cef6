"""What a start takes: a manager until all that is pinned serves, and two verbs, beside an interpreter with asyncio."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Final

import psutil

from benchmarks import REPOSITORY
from benchmarks.manager import ENTRY, fake, manifest, running
from benchmarks.report import Figure, progress
from support import get_json, wait_for

ROUNDS: Final = 9
GOAL_SECONDS: Final = 2.0
#: The least an asyncio program can be.
_BARE: Final = "import asyncio"


def run() -> Iterator[Figure]:
    """Start each of them in turn: what else the machine does meanwhile falls on all of them."""
    bare, clock, manager = [], [], []
    verbs: dict[str, list[float]] = {"validate": [], "status": []}
    with tempfile.TemporaryDirectory(prefix="reconcile-bench-") as name:
        path = Path(name) / "models.yaml"
        path.write_text(manifest({"pin": fake() | {"residency": "pinned"}}), encoding="utf-8")
        for number in range(ROUNDS + 1):
            progress(f"start: {number} of {ROUNDS}")
            bare.append(_processor([sys.executable, "-c", _BARE]))
            seconds, processor = _ready(path, verbs["status"])
            clock.append(seconds)
            manager.append(processor)
            verbs["validate"].append(_processor([sys.executable, "-c", ENTRY, "validate", str(path)]))
    reference = median(bare[1:])  # the first of each writes its bytecode
    yield _figure(
        "manager until it is ready", manager, reference, f"clock {median(clock[1:]):.2f} s", clock[1:]
    )
    for verb, taken in sorted(verbs.items()):
        yield _figure(f"reconcile {verb}", taken, reference)


def _ready(path: Path, status: list[float]) -> tuple[float, float]:
    """Return what a manager took until it was ready, in seconds of the clock and of the processor.

    Adds to `status` what it took to ask for its status.
    """
    began = time.monotonic()
    with running(path) as manager:
        wait_for(lambda: _serves(f"{manager.url}/readyz"), 30, "a manager that is ready")
        seconds = time.monotonic() - began
        times = psutil.Process(manager.pid).cpu_times()
        command = [sys.executable, "-c", ENTRY, "status", "--state-dir", str(manager.folder / "state")]
        status.append(_processor(command))
    return seconds, times.user + times.system


def _serves(url: str) -> bool:
    said = get_json(url, timeout=5)
    return isinstance(said, dict) and said.get("status") == "ready"


def _processor(command: Sequence[str]) -> float:
    """Run a program to its end and return the seconds of the processor it took. Raises CalledProcessError."""
    before = os.times()
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def _figure(
    what: str, taken: Sequence[float], bare: float, more: str = "", clock: Sequence[float] = ()
) -> Figure:
    ours = median(taken[1:])
    return Figure(
        what=what,
        measured=f"{ours:.2f} s of the processor" + (f", {more}" if more else ""),
        goal=f"ready in < {GOAL_SECONDS:g} s" if clock else "",
        met=max(clock) < GOAL_SECONDS if clock else None,
        reference=f"python with asyncio: {bare:.3f} s",
        ratio=ours / bare,
    )
