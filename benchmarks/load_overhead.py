"""What a load costs through the manager, against the engine's own start with the same settings."""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Final

from benchmarks import REPOSITORY
from benchmarks.manager import STEP_SECONDS, end, manifest, running
from benchmarks.report import Figure, progress
from benchmarks.stats import in_ms, median
from reconciler.core.launch import LaunchSpec
from reconciler.engines import registry
from reconciler.engines.base import Command
from reconciler.manifest import load_manifest
from support import free_port
from tiny_gguf import write_llama

GEMMA: Final = REPOSITORY / "weights" / "gemma-3-270m" / "Q4_K_M" / "1.0.0" / "model.gguf"
MODEL: Final = "measured"
PATH: Final = "/v1/completions"
REQUEST: Final[Mapping[str, Any]] = {"model": MODEL, "prompt": "The capital of France is", "max_tokens": 4}
#: Seconds between two tries to reach a starting engine; it costs a tenth of a millisecond each.
POLL_SECONDS: Final = 0.002


@dataclass(frozen=True, slots=True)
class Case:
    """A model to load so many times; the first time of each kind is not counted."""

    name: str
    weights: Path
    pairs: int
    goal: float


def run() -> Iterator[Figure]:
    """Measure the 253 MB model, if it has been fetched, and one that is ready in a tenth of a second."""
    if GEMMA.exists():
        yield from measure(Case("253 MB model", GEMMA, 15, 1.05))
    else:
        progress("load_overhead: the 253 MB model is missing: python tools/fetch_weights.py --gemma")
    with tempfile.TemporaryDirectory(prefix="reconcile-bench-") as name:
        yield from measure(Case("tiny model", write_llama(Path(name) / "tiny.gguf"), 40, 1.5))


def measure(case: Case) -> Iterator[Figure]:
    """Load through the manager and directly, in turn."""
    progress(f"load_overhead: {case.name}")
    model = {
        "engine": "llama.cpp",
        "weights": str(case.weights),
        "role": "completion",
        "context": {"max_tokens": 512},
        "memory": {"steady": "600MiB"},
    }
    pairs = []
    with tempfile.TemporaryDirectory(prefix="reconcile-bench-") as name:
        path = Path(name) / "models.yaml"
        path.write_text(manifest({MODEL: model}))
        spec = load_manifest(path, environ=os.environ).launches[MODEL]
        with running(path) as manager:
            for _ in range(case.pairs + 1):
                ours = first_byte(manager.port)
                manager.wait(MODEL, "ready")
                manager.evict(MODEL)
                pairs.append((ours, direct(spec, Path(name) / "direct.log")))
    yield _figure(case, pairs[1:])


def first_byte(port: int) -> float:
    """Return the seconds from sending the request to the first byte of its answer's body."""
    connection = HTTPConnection("127.0.0.1", port, timeout=STEP_SECONDS)
    try:
        began = time.perf_counter()
        connection.request("POST", PATH, json.dumps(REQUEST), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read(1)
        seconds = time.perf_counter() - began
        if answer.status != 200:
            raise RuntimeError(f"{PATH} answered {answer.status}: {answer.read()[:500]!r}")
    finally:
        connection.close()
    return seconds


def direct(spec: LaunchSpec, log: Path) -> float:
    """Return the seconds from starting the engine itself to the first byte of the same request's answer.

    As anybody would start it: with its own warm-up run, for which the manager makes a call that proves it ready.
    """
    port = free_port()
    command = registry.get(spec.engine).command(spec, port)
    command = replace(command, argv=tuple(word for word in command.argv if word != "--no-warmup"))
    began = time.perf_counter()
    with started(command, log) as process:
        while not _healthy(port):
            if process.poll() is not None:
                raise RuntimeError(log.read_text(encoding="utf-8", errors="replace"))
            time.sleep(POLL_SECONDS)
        first_byte(port)
        return time.perf_counter() - began


@contextmanager
def started(command: Command, log: Path) -> "Iterator[subprocess.Popen[bytes]]":
    """Run an engine as the host runs it, but for the marks and the watching."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            command.argv,
            cwd=command.cwd,
            env={**os.environ, **command.env},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        end(process)


def _healthy(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=STEP_SECONDS)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def _figure(case: Case, pairs: list[tuple[float, float]]) -> Figure:
    ratio = median([ours / theirs for ours, theirs in pairs])
    return Figure(
        what=f"load, {case.name}: demand to first byte",
        measured=f"{in_ms(median([a for a, _ in pairs]))} ({len(pairs)} loads)",
        goal=f"ratio <= {case.goal:g}",
        met=ratio <= case.goal,
        reference=f"engine's own start + request: {in_ms(median([b for _, b in pairs]))}",
        ratio=ratio,
    )
