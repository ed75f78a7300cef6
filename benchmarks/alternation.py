"""Sixty requests, twelve at once, in turn for two models of which one fits: what the swapping costs.

llama.cpp's router does the same in the same run, with the same program, models and settings.
"""

import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks import router
from benchmarks.load_overhead import GEMMA
from benchmarks.manager import Manager, manifest, post, running
from benchmarks.report import Figure, progress
from benchmarks.stats import median

MODELS: Final = ("first", "second")
REQUESTS: Final = 60
CLIENTS: Final = 12
ROUNDS: Final = 3
TOKENS: Final = 2
CONTEXT: Final = 512
PATH: Final = "/v1/completions"
#: The router has left a request waiting for a minute here.
GIVEN_UP_SECONDS: Final = 180.0
#: What the gateway may take of the router's time, how often it may swap, and how long anybody may wait.
SHARE: Final = 0.9
SWAPS: Final = 8
WAIT_SECONDS: Final = 15.0


@dataclass(frozen=True, slots=True)
class Round:
    """One run of all requests, in seconds."""

    wall: float
    longest: float


def run() -> Iterator[Figure]:
    """Measure in turn, and compare the medians."""
    program = router.find()
    if program is None or not GEMMA.exists():
        progress(f"alternation: needs llama-server (PATH or ${router.VARIABLE}) and fetch_weights.py --gemma")
        return
    with tempfile.TemporaryDirectory(prefix="reconcile-bench-") as name:
        folder = Path(name)
        weights = folder / "weights"
        weights.mkdir()
        for model in MODELS:
            # Two files, as two models would be: the same file would be in memory once for both.
            (weights / f"{model}.gguf").write_bytes(GEMMA.read_bytes())
        (folder / "models.yaml").write_text(manifest(_models(program, weights), memory="1GiB"))
        ours, theirs, swaps = [], [], []
        for number in range(1, ROUNDS + 1):
            progress(f"alternation: round {number} of {ROUNDS}")
            with running(folder / "models.yaml") as manager:
                ours.append(alternate(manager.port))
                swaps.append(_loads(manager))
            options = ("-c", str(CONTEXT), "-np", "1")
            with router.router(program, weights, folder / "router.log", *options) as port:
                theirs.append(alternate(port))
    yield from _figures(ours, theirs, max(swaps))


def _models(program: str, weights: Path) -> dict[str, dict[str, Any]]:
    return {
        model: {
            "engine": "llama.cpp",
            "command": [program],
            "weights": str(weights / f"{model}.gguf"),
            "role": "completion",
            "context": {"max_tokens": CONTEXT},
            "memory": {"steady": "600MiB"},
        }
        for model in MODELS
    }


def alternate(port: int) -> Round:
    """Send all requests, each client taking the next one as soon as its last was answered. Raises on any error."""
    numbers, lock = iter(range(REQUESTS)), threading.Lock()
    waits: list[float] = []
    errors: list[Exception] = []

    def client() -> None:
        while not errors:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            began = time.perf_counter()
            body = {"model": MODELS[number % 2], "prompt": f"Number {number} is", "max_tokens": TOKENS}
            try:
                post(port, PATH, body, timeout=GIVEN_UP_SECONDS)
            except (OSError, RuntimeError) as error:
                errors.append(error)
            waits.append(time.perf_counter() - began)

    threads = [threading.Thread(target=client) for _ in range(CLIENTS)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return Round(time.perf_counter() - began, max(waits))


def _loads(manager: Manager) -> int:
    """Return how often a model was loaded, as the manager's log has it."""
    log = (manager.folder / "log").read_text(encoding="utf-8")
    return sum('"event": "loaded"' in line for line in log.splitlines())


def _figures(ours: list[Round], theirs: list[Round], swaps: int) -> Iterator[Figure]:
    wall, other = median([r.wall for r in ours]), median([r.wall for r in theirs])
    longest, their_longest = max(r.longest for r in ours), max(r.longest for r in theirs)
    what = f"{REQUESTS} requests, {CLIENTS} at once, two models of which one fits"
    reference = f"llama.cpp's router: {other:.2f} s"
    goal = f"<= {SHARE} x the router"
    yield Figure(
        f"{what}: all answered", f"{wall:.2f} s", reference, wall / other, goal, wall <= SHARE * other
    )
    loads = f"{swaps} loads at most"
    yield Figure(
        "alternation: loads", loads, f"{REQUESTS} requests", swaps / REQUESTS, f"<= {SWAPS}", swaps <= SWAPS
    )
    yield Figure(
        "alternation: longest wait of one request",
        f"{longest:.2f} s",
        f"llama.cpp's router: {their_longest:.2f} s",
        longest / their_longest,
        f"<= {WAIT_SECONDS:g} s",
        longest <= WAIT_SECONDS,
    )
