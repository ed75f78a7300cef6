"""How long people wait for models that are not in memory, by policy, relative to plain LRU; and how fast that is found.

Everything is simulated with the program's own core. The open desks are those of the tests; the unseen ones are made up
anew from seeds.
"""

import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Final

from benchmarks.large_trace import large_trace
from benchmarks.policies import VARIANTS
from benchmarks.policy_desks import desk, open_desks, unseen_desks
from benchmarks.policy_table import Outcome, Summary, summaries, table
from benchmarks.report import Figure, progress

WORKERS: Final = 2
#: Of each kind of unseen desk there are so many.
SEEDS: Final = 2
#: Seeds used nowhere else.
FIRST_SEED: Final = 4001
#: Variant -> cold wait, and loads, at most, relative to plain LRU; and the worst trace of any.
GOALS: Final = {"off": (0.92, 1.00), "free": (0.87, 1.05), "full": (0.76, 1.30)}
WORST: Final = 1.05


def run(seeds: int = SEEDS) -> Iterator[Figure]:
    """Run all variants on all desks."""
    sets = {
        "open": open_desks(),
        "unseen": unseen_desks(range(FIRST_SEED, FIRST_SEED + seeds)),
    }
    for which, names in sets.items():
        progress(f"policy: {len(names)} {which} traces, {len(VARIANTS)} policies")
        found = summaries(compare(names))
        print("\n" + table(f"{len(names)} {which} traces", found) + "\n", flush=True)
        for variant, (cold, loads) in GOALS.items():
            yield from _figures(which, variant, found[variant], cold, loads)
    progress("policy: a million requests")
    yield large_trace()


def compare(names: Sequence[str]) -> dict[str, list[Outcome]]:
    """Return what each variant makes of each desk, in order."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(WORKERS, mp_context=context) as pool:
        rows = list(pool.map(outcomes, names))
    return {variant: [row[variant] for row in rows] for variant in VARIANTS}


def outcomes(name: str) -> dict[str, Outcome]:
    """Run all variants on one desk."""
    layout, trace = desk(name)
    return {key: Outcome.of(variant.run(layout, trace)) for key, variant in VARIANTS.items()}


def _figures(which: str, variant: str, found: Summary, cold: float, loads: float) -> Iterator[Figure]:
    what = f"{VARIANTS[variant].what}, {which} traces"
    yield _figure(f"{what}: cold wait", found.cold, cold)
    yield _figure(f"{what}: loads", found.loads, loads)
    yield _figure(f"{what}: cold wait, worst trace", found.worst, WORST)


def _figure(what: str, ratio: float, most: float) -> Figure:
    return Figure(what, f"{ratio:.3f}", "plain LRU", ratio, f"<= {most:.2f}", ratio <= most)
