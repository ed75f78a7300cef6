"""Random loads, evictions, requests and edits in a control group of 2 GiB, over eight models that need 5 GiB.

The models are real llama.cpp servers on generated weights, and sizes are the engines' own estimates. Every figure is
taken from outside the manager; what it must not do is printed line by line, and the first figure then says NO.
"""

import random
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from benchmarks.report import Figure, progress
from manager import Manager
from small_machine import small_machine
from soak import Soak
from soak_models import large

MIB: Final = 1 << 20
PAGE: Final = 4096
STEPS: Final = 500
#: Least share of the estimate that a model must really hold, and the most above it: 5 % or 32 MiB.
SLACK_SHARE: Final = 0.05
SLACK_BYTES: Final = 32 * MIB
EVERY: Final = 50


def run(steps: int = STEPS, seed: int | None = None) -> Iterator[Figure]:
    """Take so many steps; a seed that is not given is chosen, and printed."""
    seed = random.randrange(1 << 32) if seed is None else seed
    layout = large()
    progress(f"soak: {steps} steps with --seed {seed}; writing the weights")
    with tempfile.TemporaryDirectory(prefix="reconcile-soak-") as name:
        layout.write_weights(Path(name) / "weights")
        try:
            with small_machine(layout.limit) as machine, Manager(Path(name) / "m", inside=machine) as manager:
                soak = Soak(machine, manager, layout, seed)
                began = time.monotonic()
                soak.run(steps, lambda number: _tell(number, steps, began))
                yield from figures(soak)
                manager.stop(60)
        except pytest.skip.Exception as error:
            progress(f"soak: {error}")


def figures(soak: Soak) -> Iterator[Figure]:
    """Return what came of a run."""
    for fault in soak.faults:
        progress(f"soak: MUST NOT BE: {fault}")
    for what, count in soak.answers.refused.items():
        progress(f"soak: refused {what}: {count}")
    watcher, limit = soak.watcher, soak.layout.limit * MIB
    yield _count("what must not be", len(soak.faults), "steps", sum(soak.steps.values()))
    yield _count("killed for want of memory", soak.machine.kills, "loads", soak.count("loaded"))
    answered = len(soak.answers.all)
    yield _count("refused that would have fitted", len(soak.answers.faults), "requests", answered)
    yield _bytes("most that could not be dropped", watcher.most_anonymous, limit)
    yield _bytes("the same with mapped pages", watcher.most_needed, limit)
    # The kernel sees to this one: page cache fills what is free, and for a moment a page more.
    yield replace(_bytes("most in use, page cache included", watcher.most_used, limit), goal="", met=None)
    yield Figure(
        what="mapped pages that had to be read again",
        measured=str(watcher.faults),
        reference=f"pages of the machine: {limit // PAGE}",
        ratio=watcher.faults / (limit // PAGE),
    )
    loading = soak.seconds_loading
    yield Figure(
        what="time of the whole soak",
        measured=f"{soak.seconds:.0f} s, longest answer {soak.answers.longest:.1f} s",
        reference=f"{soak.count('loaded')} loads: {loading:.0f} s together",
        ratio=soak.seconds / loading if loading else float("nan"),
    )
    for name, held in sorted(watcher.models.items()):
        if held.measured and held.expected:
            yield _estimate(
                name, held.measured, held.expected, stated=soak.layout.models[name].weights is None
            )


def _estimate(name: str, measured: int, expected: int, *, stated: bool) -> Figure:
    near = abs(measured - expected) <= max(SLACK_BYTES, expected * SLACK_SHARE)
    return Figure(
        what=f"most that {name} held",
        measured=f"{measured / MIB:.0f} MiB",
        goal="" if stated else "within 5 % or 32 MiB",
        met=None if stated else near,
        reference=f"{'stated' if stated else 'estimated'}: {expected / MIB:.0f} MiB",
        ratio=measured / expected,
    )


def _count(what: str, count: int, of: str, total: int) -> Figure:
    return Figure(what, str(count), f"{total} {of}", count / total if total else 0.0, "0", count == 0)


def _bytes(what: str, count: int, limit: int) -> Figure:
    met = count <= limit
    return Figure(
        what, f"{count / MIB:.0f} MiB", f"limit: {limit / MIB:.0f} MiB", count / limit, "<= limit", met
    )


def _tell(number: int, steps: int, began: float) -> None:
    if number % EVERY == 0:
        progress(f"soak: {number} of {steps} steps in {time.monotonic() - began:.0f} s")
