"""The machine's memory: how much there is, what limits us, and its swap."""

from collections.abc import Iterator
from typing import Final

from reconciler.core import book
from reconciler.core.memory import Memory
from reconciler.core.types import Manifest
from reconciler.core.words import size
from reconciler.doctor.finding import Finding, cannot_tell, error, note, ok, warning
from reconciler.doctor.kernel import Kernel

#: Swap in use from which on models are likely to answer slowly, where the manifest sets no limit.
MUCH_SWAP: Final = 1 << 30


def check_memory(memory: Memory, manifest: Manifest | None) -> Iterator[Finding]:
    """Yield what there is, against what the manifest wants and what control groups allow."""
    if memory.total is None or memory.available is None:
        why = f"cannot tell how much memory there is: {memory.source}"
        yield error(
            "memory", why, "nothing is loaded while it is unknown; state what is missing, or report it"
        )
    else:
        yield ok("memory", f"{size(memory.total)}, {size(memory.available)} available ({memory.source})")
    if memory.host is not None and memory.total is not None and memory.total < memory.host.total:
        yield note(
            "control group",
            f"a limit leaves {size(memory.total)} of the machine's {size(memory.host.total)}",
            "raise the limit of the container, unit or slice if models should have more",
        )
    for problem in memory.problems:
        if problem != memory.source:
            yield cannot_tell("memory", problem)
    if manifest is not None:
        yield from _check_budget(memory, manifest)


def _check_budget(memory: Memory, manifest: Manifest) -> Iterator[Finding]:
    budget = book.budget(manifest, memory)
    if manifest.memory is not None and memory.total is not None and manifest.memory > memory.total:
        yield warning(
            "budget",
            f"machine.memory is {size(manifest.memory)}, and there is {size(memory.total)}",
            "write machine.memory: auto, or no more than there is",
        )
    if budget == 0:
        yield error(
            "budget", "the reserve and the marks leave nothing for models", "make machine.reserve smaller"
        )
    elif budget is not None:
        yield ok("budget", f"models may hold {size(budget)} together")


def check_swap(
    memory: Memory, manifest: Manifest | None, kernel: Kernel, *, linux: bool
) -> Iterator[Finding]:
    """Yield how much swap there is and is used, and how eagerly the kernel swaps."""
    swap = memory.swap
    if swap.total is None or swap.used is None:
        yield cannot_tell("swap", "the system states no figures for swap")
        return
    limit = manifest.max_swap if manifest is not None else None
    if swap.used > (MUCH_SWAP if limit is None else limit):
        yield warning(
            "swap",
            f"{size(swap.used)} of swap is in use",
            "a model with pages in swap answers slowly: evict some, or end what else takes memory",
        )
    elif swap.total == 0 and linux:
        yield note("swap", "none: when memory runs out, the kernel ends a process at once")
    else:
        yield ok("swap", f"{size(swap.used)} of {size(swap.total)} in use")
    if not linux or not swap.total:
        return
    if any(device.startswith("/dev/zram") for device in kernel.swap_devices()):
        yield note("swap", "swap lies in compressed memory (zram): filling it takes memory, too")
    yield from kernel.check_swappiness()
