"""A scrape of a busy desk, with every metric in it."""

from dataclasses import replace

from board_samples import NOW, snapshot
from reconciler.board import Snapshot
from reconciler.core.crashes import FailureKind
from reconciler.core.memory import GpuPool, Swap, Watermarks
from reconciler.counts import Counts
from reconciler.gateway.metrics.page import page
from reconciler.leases import Ended, GateTraffic, QueueTraffic, Traffic

TRAFFIC = Traffic(
    gates=(GateTraffic("heavy", 1, ("embed",), 2),),
    queues=(
        QueueTraffic("coder", 0, 0, 2, 0, 0, NOW - 12.5, None, 64, 120.0, None, ()),
        QueueTraffic("embed", 3, 0, 0, 2, 1, NOW - 4, None, 64, 120.0, 3, ("heavy",)),
    ),
)


def busy() -> Snapshot:
    """Everything that a machine may tell."""
    made = snapshot()
    seen = made.world.observation
    memory = replace(seen.memory, swap=Swap(8 << 30, 1 << 30, 4096, 8192), gpu=GpuPool(24 << 30, 6 << 30))
    manifest = replace(made.applied.manifest, watermarks=Watermarks(), max_swap=10 << 30)
    return replace(
        made,
        applied=replace(made.applied, manifest=manifest),
        world=replace(made.world, observation=replace(seen, memory=memory)),
    )


def counts() -> Counts:
    """Some of everything that is counted."""
    made = Counts()
    made.keep(m.name for m in busy().applied.manifest.models)
    made.ended([Ended("embed", "", 100.0, 2.0, 1.5, 103.0, "ok", (12, 34))])
    made.loaded("coder", 18.2)
    made.failed("flaky", FailureKind.CRASHED)
    made.load_ended("flaky", "failed")
    made.evicted("vision", "MakeRoom")
    made.regretted("vision")
    made.error("flaky", "load_failed")
    made.error("nobody", "model_not_found")
    made.turns.add(0.004)
    return made


def scrape(*, open_metrics: bool = False) -> str:
    """Return the page as it is answered."""
    return page(busy(), TRAFFIC, counts(), NOW, open_metrics).decode()
