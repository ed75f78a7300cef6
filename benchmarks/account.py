"""What the account of memory costs: the processor time of one look at a machine with ten loaded models."""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Final

import anyio

from benchmarks.manager import port_range
from benchmarks.report import Figure, progress
from benchmarks.stats import in_ms, median
from reconciler.core.launch import LaunchSpec, launch_digest
from reconciler.core.memory import Watermarks
from reconciler.core.types import Manifest, ModelSpec
from reconciler.engines import registry
from reconciler.host import Host, Ports
from reconciler.host.ask import run_command
from reconciler.leases import LeaseBook
from reconciler.loop.launches import Launch, Launches
from reconciler.loop.observe import Observer
from reconciler.loop.rest import CALM_TICK
from reconciler.memory.machine import open_machine
from reconciler.memory.probe import MachineProbe
from support import FAKE, healthy, wait_for

MODELS: Final = 10
LOOKS: Final = 500
GOAL_SECONDS: Final = 0.001


@dataclass(frozen=True, slots=True)
class Cost:
    """Processor seconds of one look; `middle` is the median or, where looks differ by design, the mean."""

    least: float
    middle: float


def run() -> Iterator[Figure]:
    """Measure the probe alone, and a whole look of the loop."""
    progress(f"account: {MODELS} models, {LOOKS} looks")
    yield from anyio.run(_run)


async def _run() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="reconcile-bench-") as name:
        host, launches = Host(Path(name) / "state", "bench"), Launches()
        try:
            specs = await _start(host, launches)
            return await _measure(host, launches, specs)
        finally:
            for launch in launches:
                await host.stop(launch.process, launch.id, grace=5.0)
            host.close()


async def _start(host: Host, launches: Launches) -> Mapping[str, LaunchSpec]:
    """Start the models, each a single process, and wait until they are ready."""
    first = int(port_range().partition("-")[0])
    specs = {}
    for number in range(MODELS):
        model, port = f"model-{number}", first + number
        spec = LaunchSpec(model, "command", (*FAKE, "--port", str(port), "--rss-mib", "16"))
        command = registry.get("command").command(spec, port)
        process = await host.start(command, model=model, launch_id=model, port=port)
        launch = Launch(model, model, launch_digest(spec), spec, process, port, time.monotonic(), ready=True)
        launches.add(launch)
        specs[model] = spec
    for launch in launches:
        wait_for(partial(healthy, launch.port), 30, f"{launch.model} is ready")
    return specs


async def _measure(host: Host, launches: Launches, specs: Mapping[str, LaunchSpec]) -> list[Figure]:
    pids = {launch.id: (launch.process.pid,) for launch in launches}
    machine = open_machine(run_command)
    plain, probe = _alternate(lambda: _plainly(pids), lambda: _look(machine, pids))
    whole = await _whole_looks(host, launches, specs)
    alone = f"{in_ms(probe.least)} (median {in_ms(probe.middle)})"
    # Not the median: every third look finds out anew which processes and files there are.
    with_rest = f"{in_ms(whole.least)} (mean {in_ms(whole.middle)})"
    return [
        _figure("what the probe reads", alone, probe, plain, GOAL_SECONDS),
        _figure("a whole look of the loop", with_rest, whole, plain),
    ]


def _alternate(*calls: Callable[[], None]) -> list[Cost]:
    """Return what each call costs; they take turns, so that what else the machine does hits all alike."""
    times: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call()  # the first look finds out what there is
    for _ in range(LOOKS):
        for call, took in zip(calls, times, strict=True):
            began = time.thread_time()
            call()
            took.append(time.thread_time() - began)
    return [Cost(min(took), median(took)) for took in times]


def _look(machine: MachineProbe, pids: Mapping[str, tuple[int, ...]]) -> None:
    now = time.monotonic()
    machine.held(pids, now)
    machine.read(now)


def _plainly(pids: Mapping[str, tuple[int, ...]]) -> None:
    for tree in pids.values():
        for pid in tree:
            with open(f"/proc/{pid}/status", "rb") as file:
                file.read()


async def _whole_looks(host: Host, launches: Launches, specs: Mapping[str, LaunchSpec]) -> Cost:
    """Look as the loop does when calm; its clock is told to be as much later each time as it would be.

    A look goes through a worker thread: the time of the whole process counts.
    """
    observer = Observer(host, open_machine(run_command), launches, LeaseBook(lambda: None))
    models = tuple(ModelSpec(m, launch_digest(s), steady=32 << 20) for m, s in sorted(specs.items()))
    manifest, ports = Manifest(models, watermarks=Watermarks()), Ports(20_000, 30_000)
    times, now = [], time.monotonic()
    for _ in range(LOOKS):
        began = time.process_time()
        await observer.look(manifest, specs, ports, now)
        times.append(time.process_time() - began)
        now += CALM_TICK
    return Cost(min(times), mean(times))


def _figure(what: str, measured: str, cost: Cost, plain: Cost, goal: float | None = None) -> Figure:
    return Figure(
        what=f"account, {MODELS} models: {what}",
        measured=measured,
        goal="" if goal is None else f"< {in_ms(goal)}",
        met=None if goal is None else cost.least < goal,
        reference=f"reading {MODELS} /proc/PID/status: {in_ms(plain.least)}",
        ratio=cost.least / plain.least,
    )
