"""How long a plan takes, and how that grows with the number of models."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from benchmarks.planning_worlds import WORLDS
from benchmarks.report import Figure, progress
from benchmarks.stats import exponent, in_ms, median
from reconciler.core.plan import plan
from reconciler.core.types import Manifest, World

SIZES: Final = (10, 100, 1_000, 10_000)
GOAL_MODELS: Final = 1_000
GOAL_SECONDS: Final = 0.010
#: n log n between 1,000 and 10,000 is an exponent of 1.125; the rest is caches that no longer hold everything.
GOAL_EXPONENT: Final = 1.25
#: Each size is planned at least so often, and so long.
LEAST_RUNS: Final = 7
LEAST_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of several runs on one world."""

    least: float
    middle: float
    #: Least seconds that sorting the same models takes.
    sort: float


def run() -> Iterator[Figure]:
    """Plan every world in every size."""
    for world in WORLDS:
        progress(f"planning: {world}")
        timings = {size: measure(*WORLDS[world](size)) for size in SIZES}
        for size, timing in timings.items():
            yield _size(world, size, timing)
        yield _growth(world, timings)


def measure(manifest: Manifest, world: World) -> Timing:
    """Time the planner and a plain sort of the same models, in turn.

    Both only compute, so the thread's own time is taken: what else the machine does is not in it.
    """
    now = world.observation.at
    plans: list[float] = []
    sorts: list[float] = []
    end = time.thread_time() + LEAST_SECONDS
    while len(plans) < LEAST_RUNS or time.thread_time() < end:
        plans.append(_timed(lambda: plan(manifest, world, now)))
        sorts.append(_timed(lambda: sorted(manifest.models, key=lambda m: (-m.priority, m.name))))
    return Timing(min(plans), median(plans), min(sorts))


def _timed(call: Callable[[], object]) -> float:
    began = time.thread_time()
    call()
    return time.thread_time() - began


def _size(world: str, size: int, timing: Timing) -> Figure:
    counts = size == GOAL_MODELS
    return Figure(
        what=f"plan, {world}, {size:,} models",
        measured=f"{in_ms(timing.least)} (median {in_ms(timing.middle)})",
        goal=f"< {in_ms(GOAL_SECONDS)}" if counts else "",
        met=timing.least < GOAL_SECONDS if counts else None,
        reference="sorting the models",
        ratio=timing.least / timing.sort,
    )


def _growth(world: str, timings: dict[int, Timing]) -> Figure:
    small, large = GOAL_MODELS, max(SIZES)
    found = exponent((small, timings[small].least), (large, timings[large].least))
    sorting = exponent((small, timings[small].sort), (large, timings[large].sort))
    return Figure(
        what=f"plan, {world}, growth {small:,} to {large:,}",
        measured=f"n^{found:.2f}",
        goal=f"<= n^{GOAL_EXPONENT:g}",
        met=found <= GOAL_EXPONENT,
        reference=f"sorting: n^{sorting:.2f}",
        ratio=found / sorting,
    )
