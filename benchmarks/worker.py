"""What the Python worker adds to a call of a class: the same class, called here and through HTTP in turn."""

import importlib.util
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from benchmarks import REPOSITORY, http_load
from benchmarks.report import Figure, progress
from benchmarks.stats import in_ms, median, percentile
from reconciler.engines.python import WORKER
from support import free_port, get_json, wait_for

#: examples/worker: pure Python, 256 floats a text.
FOLDER: Final = REPOSITORY / "examples" / "worker"
PATH: Final = "/v1/embeddings"
TEXT: Final = "the quick brown fox jumps over the lazy dog"
ROUNDS: Final = 20
IN_A_ROUND: Final = 50
CONNECTIONS: Final = 32
FLOOD: Final = 2_000
START_SECONDS: Final = 20.0
GOAL_SECONDS: Final = 0.002


def run() -> Iterator[Figure]:
    """Measure."""
    embed = _class()().embed
    with worker() as port:
        for count in (1, 16):
            progress(f"worker: {ROUNDS * IN_A_ROUND} requests of {count} texts")
            yield _single(port, embed, [TEXT] * count)
        progress(f"worker: {FLOOD} requests over {CONNECTIONS} connections")
        yield _flood(port, embed)


def _class() -> Any:
    spec = importlib.util.spec_from_file_location("words", FOLDER / "words.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Words


@contextmanager
def worker() -> Iterator[int]:
    """Run a worker on the example's class; yield its port."""
    port = free_port()
    words = ["--entry", "words:Words", "--port", str(port), "--role", "embedding", "--name", "words"]
    with subprocess.Popen([sys.executable, str(WORKER), *words], cwd=FOLDER) as process:
        try:
            wait_for(
                lambda: get_json(f"http://127.0.0.1:{port}/health") == {"status": "ok"}, START_SECONDS, "ok"
            )
            yield port
        finally:
            process.terminate()


def _single(port: int, embed: Callable[[list[str]], Any], texts: list[str]) -> Figure:
    request = http_load.post(PATH, {"model": "words", "input": texts})
    client = http_load.Client(port)
    direct, through = [], []
    client.ask(request)
    for _ in range(ROUNDS):
        for _ in range(IN_A_ROUND):
            began = time.perf_counter()
            embed(texts)
            direct.append(time.perf_counter() - began)
        through += [client.ask(request) for _ in range(IN_A_ROUND)]
    client.close()
    ours, alone = median(through), median(direct)
    return Figure(
        what=f"Python worker, {len(texts)} text{'s' * (len(texts) > 1)} a request, one connection",
        measured=f"{in_ms(ours - alone)} added at p50 ({in_ms(percentile(through, 99))} at p99)",
        goal=f"<= {in_ms(GOAL_SECONDS)} at p50",
        met=ours - alone <= GOAL_SECONDS,
        reference=f"a call of the class: {in_ms(alone)} ({in_ms(percentile(direct, 99))} at p99)",
        ratio=ours / alone,
    )


def _flood(port: int, embed: Callable[[list[str]], Any]) -> Figure:
    request = http_load.post(PATH, {"model": "words", "input": TEXT})
    before = _stats(port)
    seconds, took = http_load.flood(port, request, CONNECTIONS, FLOOD)
    after = _stats(port)
    began = time.perf_counter()
    for _ in range(FLOOD):
        embed([TEXT])
    alone = FLOOD / (time.perf_counter() - began)
    batched = (after["items"] - before["items"]) / (after["batches"] - before["batches"])
    return Figure(
        what=f"Python worker, {CONNECTIONS} connections at once",
        measured=f"{FLOOD / seconds:.0f} requests/s, {in_ms(median(took))} at p50, {batched:.1f} in a call",
        reference=f"calls of the class, one after the other: {alone:.0f}/s",
        ratio=FLOOD / seconds / alone,
    )


def _stats(port: int) -> dict[str, Any]:
    found: dict[str, Any] = get_json(f"http://127.0.0.1:{port}/stats")
    return found
