"""A million requests to twelve models, simulated on one core."""

import tempfile
import time
from pathlib import Path
from typing import Final

from benchmarks.policy_desks import in_folder
from benchmarks.report import Figure
from examples.traces.catalogue import TWELVE, machine_text, manifest_text
from examples.traces.desks import large
from reconciler.simulate.engine import run
from reconciler.simulate.trace_read import write_trace

REQUESTS: Final = 1_000_000
GOAL_SECONDS: Final = 60.0
#: Memory of the machine, and what its disk reads in a second; GB. All models together are 215 GB.
MEMORY: Final = 128.0
DISK: Final = 3.0


def large_trace() -> Figure:
    """Read such a trace and simulate it with the default policy; both are timed by the thread's own clock."""
    speeds = {name: kind.speed(DISK) for name, kind in TWELVE.items()}
    with tempfile.TemporaryDirectory(prefix="reconcile-bench-") as given:
        folder = Path(given)
        (folder / "manifest.yaml").write_text(manifest_text(TWELVE, MEMORY, "Twelve models."), "utf-8")
        (folder / "machine.yaml").write_text(machine_text(speeds, MEMORY), "utf-8")
        write_trace(large(REQUESTS, seed=1), folder / "trace.csv.gz")
        began = time.thread_time()
        layout, trace = in_folder(folder)
    reading = time.thread_time() - began
    result = run(layout, trace)
    running = time.thread_time() - began - reading
    if result.total.served != REQUESTS:
        raise RuntimeError(f"only {result.total.served:,} of {REQUESTS:,} requests were served")
    return Figure(
        what=f"simulate {REQUESTS:,} requests, {len(TWELVE)} models, {result.loads:,} loads",
        measured=f"{running:.1f} s",
        reference=f"reading the trace: {reading:.1f} s",
        ratio=running / reading,
        goal=f"< {GOAL_SECONDS:g} s",
        met=running < GOAL_SECONDS,
    )
