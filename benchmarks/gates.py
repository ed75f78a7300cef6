"""Two models that generate on the same cores: tokens per second with a gate, without one, and alone."""

import json
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final

from benchmarks.load_overhead import GEMMA
from benchmarks.manager import STEP_SECONDS, manifest, running
from benchmarks.report import Figure, progress
from benchmarks.stats import median

MEASURED: Final = "measured"
OTHER: Final = "other"
TOKENS: Final = 64
ROUNDS: Final = 5
PATH: Final = "/v1/completions"
#: What must be left of the speed alone.
SHARE: Final = 0.9


def run() -> Iterator[Figure]:
    """Measure all three."""
    if not GEMMA.exists():
        progress("gates: the 253 MB model is missing: python tools/fetch_weights.py --gemma")
        return
    rates = {gate: _measure(gate) for gate in ("heavy", "none")}
    (alone, gated), (alone_without, ungated) = rates["heavy"], rates["none"]
    yield Figure(
        "tokens per second of one model while another is asked for as much, gate `heavy`",
        f"{gated:.1f}",
        f"alone: {alone:.1f}",
        gated / alone,
        f">= {SHARE} x alone",
        gated >= SHARE * alone,
    )
    reference = f"alone: {alone_without:.1f}"
    yield Figure("the same without a gate", f"{ungated:.1f}", reference, ungated / alone_without)


def _measure(gate: str) -> tuple[float, float]:
    """Return the tokens per second of a model alone, and beside the other one."""
    progress(f"gates: gate {gate}")
    with tempfile.TemporaryDirectory(prefix="reconcile-bench-") as name:
        path = Path(name) / "models.yaml"
        path.write_text(manifest({model: _model(gate) for model in (MEASURED, OTHER)}))
        with running(path) as manager:
            for model in (MEASURED, OTHER):
                manager.wait(model, "ready")
            alone = [speed(manager.port, MEASURED) for _ in range(ROUNDS + 1)][1:]
            with _asking(manager.port):
                beside = [speed(manager.port, MEASURED) for _ in range(ROUNDS)]
    return median(alone), median(beside)


def _model(gate: str) -> dict[str, Any]:
    return {
        "engine": "llama.cpp",
        "weights": str(GEMMA),
        "role": "completion",
        "context": {"max_tokens": 512},
        "residency": "warm",
        "gate": gate,
    }


def speed(port: int, model: str) -> float:
    """Return the tokens per second of one answer, from its first token to its last. Raises on an error."""
    connection = HTTPConnection("127.0.0.1", port, timeout=STEP_SECONDS)
    # Without an end before its time, all answers are equally long.
    body = {
        "model": model,
        "prompt": "Once upon a time",
        "max_tokens": TOKENS,
        "stream": True,
        "ignore_eos": True,
    }
    times: list[float] = []
    try:
        connection.request("POST", PATH, json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        if answer.status != 200:
            raise RuntimeError(f"{PATH} answered {answer.status}: {answer.read()[:500]!r}")
        times += [time.perf_counter() for line in answer if line.startswith(b"data: {")]
    finally:
        connection.close()
    return (len(times) - 1) / (times[-1] - times[0])


@contextmanager
def _asking(port: int) -> Iterator[None]:
    """Have another client ask the other model again and again until the block ends."""
    over = threading.Event()
    errors: list[Exception] = []

    def ask() -> None:
        try:
            while not over.is_set():
                speed(port, OTHER)
        except (OSError, RuntimeError) as error:
            errors.append(error)

    client = threading.Thread(target=ask)
    client.start()
    try:
        yield
    finally:
        over.set()
        client.join()
    if errors:
        raise errors[0]
