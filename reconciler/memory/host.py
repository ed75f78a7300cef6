"""How much memory this machine has and how much of it a new process could get without swapping."""

import platform
from collections.abc import Mapping
from pathlib import Path

import psutil

from reconciler.core.memory import Memory
from reconciler.memory import cgroup
from reconciler.memory.procfs import kib_fields, read_text

_FILE_PAGES = ("Active(file)", "Inactive(file)", "SReclaimable")


def read_memory(root: Path = Path("/")) -> Memory:
    """Return total and available bytes: the smallest of the machine and every control group above us. Blocks.

    `root` is where `proc/` and `sys/` are looked for. Nothing is raised: what cannot be read is None, and
    `source` says why. A control group that sets a limit we cannot understand leaves the machine's own
    figures, and `source` names it.
    """
    if platform.system() != "Linux" and root == Path("/"):
        return _read_elsewhere()
    text = read_text(root / "proc/meminfo")
    if text is None:
        return Memory(None, None, f"{root / 'proc/meminfo'} cannot be read")
    fields = kib_fields(text)
    total = fields.get("MemTotal")
    if not total:
        return Memory(None, None, "/proc/meminfo does not state MemTotal")
    available, source = _host_available(fields, total)
    return _limit(Memory(total, available, source), root)


def _host_available(fields: Mapping[str, int], total: int) -> tuple[int | None, str]:
    """Return what the kernel offers, or its parts where it does not (old kernels, some containers show 0)."""
    if available := fields.get("MemAvailable"):
        return min(available, total), "/proc/meminfo"
    needed = ("MemFree", *_FILE_PAGES)
    missing = [name for name in needed if name not in fields]
    if missing:
        # MemFree alone calls all page cache used: a figure so far off is worse than none.
        return None, f"/proc/meminfo states neither MemAvailable nor {', '.join(missing)}"
    free_and_cache = min(sum(fields[name] for name in needed), total)
    return free_and_cache, "/proc/meminfo (MemAvailable is missing: free + cache)"


def _limit(host: Memory, root: Path) -> Memory:
    """Lower the machine's figures to what the control groups above us leave."""
    total, available = host.total, host.available
    sources = [host.source]
    found = cgroup.read_limits(root)
    for level in found.levels:
        if total is not None and level.limit < total:
            total = level.limit
            sources.append(f"limit of control group {level.path}")
        if level.headroom is None:
            # A limit far above the machine's memory binds nobody, whatever the usage is.
            if host.total is not None and level.limit < host.total:
                available = None
                sources.append(f"usage of control group {level.path} cannot be read")
        elif available is not None and level.headroom < available:
            available = level.headroom
            sources.append(f"room left in control group {level.path}")
    return Memory(total, available, "; ".join([*sources, *found.problems]))


def _read_elsewhere() -> Memory:
    memory = psutil.virtual_memory()
    return Memory(memory.total, memory.available, f"psutil on {platform.system()}")
