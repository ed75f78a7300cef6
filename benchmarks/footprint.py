"""What the manager itself takes: memory at the start and after many requests, and processor time while idle."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from benchmarks import REPOSITORY
from benchmarks.manager import Manager, end, fake, manifest, port_range, post, running
from benchmarks.report import Figure, progress

MIB: Final = 1 << 20
REQUESTS: Final = 1_000
IDLE_SECONDS: Final = 60.0
GOAL_MIB: Final = 70
GOAL_SHARE: Final = 0.005
MODELS: Final = 10
_WEIGHTS: Final = REPOSITORY / "weights"
#: The least an asyncio program can be that still wakes now and then.
_BARE: Final = """
import asyncio
async def main():
    print("ready", flush=True)
    while True:
        await asyncio.sleep(0.1)
asyncio.run(main())
"""


@dataclass(frozen=True, slots=True)
class Layout:
    """A manifest, the model that is asked, and all that are loaded at the start."""

    name: str
    text: str
    model: str
    loaded: tuple[str, ...]


def shipped() -> Layout:
    """Return the layout of the repository, on ports of our own."""
    text = (REPOSITORY / "manifests" / "models.yaml").read_text(encoding="utf-8")
    text = text.replace("../weights", str(_WEIGHTS)).replace(
        "machine:\n", f"machine:\n  ports: {port_range()}\n"
    )
    return Layout("shipped layout", text, "chat", ("chat",))


def ten() -> Layout:
    """Return a layout of ten models, all of them loaded."""
    names = tuple(f"model-{number}" for number in range(MODELS))
    text = manifest({name: fake() | {"residency": "warm"} for name in names})
    return Layout(f"{MODELS} loaded models", text, names[0], names)


def run() -> Iterator[Figure]:
    """Measure both layouts side by side, and a bare program beside them."""
    layouts = [ten()]
    if _WEIGHTS.exists():
        layouts.insert(0, shipped())
    else:
        progress("footprint: the shipped weights are missing: python tools/fetch_weights.py")
    with ExitStack() as stack:
        bare = stack.enter_context(bare_program())
        managers = [stack.enter_context(started(layout)) for layout in layouts]
        for layout, manager in zip(layouts, managers, strict=True):
            yield _memory(f"memory after start, {layout.name}", manager, bare)
        for layout, manager in zip(layouts, managers, strict=True):
            progress(f"footprint: {REQUESTS} requests, {layout.name}")
            ask(manager, layout.model)
            yield _memory(f"memory after {REQUESTS:,} requests, {layout.name}", manager, bare)
        progress(f"footprint: idle for {IDLE_SECONDS:g} s")
        shares = idle([bare, *(psutil.Process(m.pid) for m in managers)])
        for layout, share in zip(layouts, shares[1:], strict=True):
            yield _processor(f"idle processor, {layout.name}", share, shares[0])


@contextmanager
def started(layout: Layout) -> Iterator[Manager]:
    """Run a manager on the layout; yield it once all that belongs to the start is loaded."""
    with tempfile.TemporaryDirectory(prefix="reconcile-bench-") as name:
        (Path(name) / "models.yaml").write_text(layout.text)
        with running(Path(name)) as manager:
            for model in layout.loaded:
                manager.wait(model, "ready")
            yield manager


@contextmanager
def bare_program() -> Iterator[psutil.Process]:
    """Run an interpreter with asyncio and nothing else."""
    with subprocess.Popen([sys.executable, "-c", _BARE], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None, "its output is a pipe"
            process.stdout.readline()
            yield psutil.Process(process.pid)
        finally:
            end(process)


def ask(manager: Manager, model: str) -> None:
    """Send many small requests, one after the other."""
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
    for _ in range(REQUESTS):
        post(manager.port, "/v1/chat/completions", body)


def idle(processes: list[psutil.Process]) -> list[float]:
    """Return the share of one core that each process uses while nothing is asked of it.

    Its own processor time counts, so what else the machine does is not in it.
    """
    began, before = time.monotonic(), [_used(process) for process in processes]
    time.sleep(IDLE_SECONDS)
    after, seconds = [_used(process) for process in processes], time.monotonic() - began
    return [(b - a) / seconds for a, b in zip(before, after, strict=True)]


def _used(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _memory(what: str, manager: Manager, bare: psutil.Process) -> Figure:
    ours = psutil.Process(manager.pid).memory_info().rss / MIB
    theirs = bare.memory_info().rss / MIB
    return Figure(
        what=what,
        measured=f"{ours:.1f} MiB",
        goal=f"< {GOAL_MIB} MiB",
        met=ours < GOAL_MIB,
        reference=f"bare asyncio: {theirs:.1f} MiB",
        ratio=ours / theirs,
    )


def _processor(what: str, ours: float, bare: float) -> Figure:
    return Figure(
        what=what,
        measured=f"{ours:.2%} of a core",
        goal=f"< {GOAL_SHARE:.1%}",
        met=ours < GOAL_SHARE,
        reference=f"asyncio waking 10 times/s: {bare:.2%}",
        ratio=ours / bare if bare else float("nan"),
    )
