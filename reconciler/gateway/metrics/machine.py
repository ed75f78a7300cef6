"""What is measured of the machine's memory."""

from typing import Final

from reconciler.board import Snapshot
from reconciler.core.account import breakdown
from reconciler.core.pressure import Level
from reconciler.gateway.metrics.exposition import Page
from reconciler.gateway.metrics.family import counter, gauge

BUDGET = gauge("memory_budget_bytes", "Bytes that models may hold together; absent = unknown.")
HELD = gauge("memory_held_bytes", "Of the budget: bytes that models in memory are charged.")
RESERVED = gauge("memory_reserved_bytes", "Of the budget: bytes kept for the load in progress.")
FREE = gauge("memory_free_bytes", "Of the budget: bytes that could be loaded now without evicting anyone.")
TOTAL = gauge(
    "machine_memory_bytes", "Memory of the machine in bytes, or of the control group that limits us."
)
AVAILABLE = gauge("machine_memory_available_bytes", "Of the machine's memory: bytes available to programs.")
HOLDERS = gauge(
    "machine_memory_used_bytes",
    "Bytes of the whole machine in use, by who holds them: models, others (other programs), kernel, pools (huge pages),"
    " unattributed.",
    "by",
)
WARM = gauge(
    "machine_memory_warm_bytes", "Of the available bytes: mapped weights of our models, each file once."
)
SWAP = gauge("machine_swap_bytes", "Swap of the machine in bytes.")
SWAP_USED = gauge("machine_swap_used_bytes", "Bytes of swap in use.")
SWAP_LIMIT = gauge(
    "machine_swap_limit_bytes", "Bytes of swap in use above which a model goes (`machine.swap.max_used`)."
)
SWAP_READ = counter("machine_swap_read_bytes", "Bytes the machine read back from swap.")
SWAP_WRITTEN = counter("machine_swap_written_bytes", "Bytes the machine wrote to swap.")
GPU_CEILING = gauge("machine_gpu_ceiling_bytes", "Most bytes of the machine's memory that its GPU may use.")
GPU_USED = gauge("machine_gpu_used_bytes", "Bytes of the machine's memory that its GPU uses.")
PRESSURE = gauge(
    "pressure_used_ratio",
    "Mean share of the memory in use (0-1), warm pages of models among it; absent = unknown.",
)
LEVEL = gauge("pressure_level", "How short memory is: 0 calm, 1 soft, 2 hard, 3 critical.")
RELIEVING = gauge("pressure_relieving", "1 while models are evicted until use is below the target again.")
MARKS = gauge("watermark_ratio", "Share of the memory in use (0-1) of each watermark.", "mark")
FAMILIES: Final = (
    BUDGET,
    HELD,
    RESERVED,
    FREE,
    TOTAL,
    AVAILABLE,
    HOLDERS,
    WARM,
    SWAP,
    SWAP_USED,
    SWAP_LIMIT,
    SWAP_READ,
    SWAP_WRITTEN,
    GPU_CEILING,
    GPU_USED,
    PRESSURE,
    LEVEL,
    RELIEVING,
    MARKS,
)
_BY: Final = ("models", "others", "kernel", "pools", "unattributed")
_MARKS: Final = ("soft", "hard", "critical", "target")


def write(page: Page, snapshot: Snapshot) -> None:
    """Write what the loop saw last. What could not be read is left out."""
    account, manifest = snapshot.plan.account, snapshot.applied.manifest
    page.add(BUDGET, account.budget)
    page.add(HELD, account.held)
    page.add(RESERVED, account.reserved)
    page.add(FREE, account.free)
    seen = snapshot.world.observation
    memory = seen.memory
    page.add(TOTAL, memory.total)
    page.add(AVAILABLE, memory.available)
    if (found := breakdown(memory, seen.instances)) is not None:
        for holder in _BY:
            page.add(HOLDERS, getattr(found, holder), f'by="{holder}"')
        page.add(WARM, found.warm)
    page.add(SWAP, memory.swap.total)
    page.add(SWAP_USED, memory.swap.used)
    page.add(SWAP_LIMIT, manifest.max_swap)
    page.add(SWAP_READ, memory.swap.read)
    page.add(SWAP_WRITTEN, memory.swap.written)
    if memory.gpu is not None:
        page.add(GPU_CEILING, memory.gpu.ceiling)
        page.add(GPU_USED, memory.gpu.used)
    short = seen.pressure
    page.add(PRESSURE, short.used)
    page.add(LEVEL, int(Level(short.level)))
    page.add(RELIEVING, int(short.relieving))
    if (marks := manifest.watermarks) is not None:
        for mark in _MARKS:
            page.add(MARKS, getattr(marks, mark), f'mark="{mark}"')
