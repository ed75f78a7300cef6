"""Swap space and its traffic, and what compressed pages take of the memory itself."""

import os
from collections.abc import Mapping
from pathlib import Path

from reconciler.core.memory import Swap
from reconciler.memory.procfs import MOST_MEMORY, field, read_text, whole


def read_swap(meminfo: Mapping[str, int], root: Path, page_size: int) -> tuple[Swap, tuple[str, ...]]:
    """Return swap in bytes and what could not be understood. Blocks briefly, raises nothing.

    `meminfo` is /proc/meminfo in bytes. The counters of /proc/vmstat are pages of `page_size` bytes, which is not
    4096 everywhere. Traffic to zram counts as swap, and so it should: it costs time and memory.
    """
    problems: list[str] = []
    total, free = meminfo.get("SwapTotal"), meminfo.get("SwapFree")
    used = total - free if total is not None and free is not None else None
    if used is None or total is None or used < 0 or total > MOST_MEMORY:
        problems.append("/proc/meminfo states no SwapTotal and SwapFree that can be true: swap is unknown")
        total = used = None
    read = written = None
    text = read_text(root / "proc/vmstat")
    if text is not None:
        read, written = field(text, "pswpin "), field(text, "pswpout ")
        if read is None or written is None:
            problems.append("/proc/vmstat states no pswpin and pswpout: the traffic to swap is unknown")
            read = written = None
    pages = [None if count is None else count * page_size for count in (read, written)]
    return Swap(total, used, *pages), tuple(problems)


def read_compressed(meminfo: Mapping[str, int], root: Path) -> tuple[int | None, tuple[str, ...]]:
    """Return the bytes of memory that zram devices and zswap hold, and what could not be understood.

    It is kernel memory, in no process: free space of a zram swap costs memory when it is used. None = nothing
    says (neither exists here), or a part of the sum is unknown.
    """
    parts: list[int] = []
    problems: list[str] = []
    if "Zswap" in meminfo:
        parts.append(meminfo["Zswap"])
    for device in _zram_devices(root):
        text = read_text(f"{root}/sys/block/{device}/mm_stat")
        if text is None:
            continue
        # orig_data_size compr_data_size mem_used_total ...
        words = text.split()
        used = whole(words[2]) if len(words) >= 3 else None
        if used is None or used > MOST_MEMORY:
            problems.append(f"mm_stat of {device} cannot be understood: {text[:40]!r}")
        else:
            parts.append(used)
    return (sum(parts) if parts and not problems else None), tuple(problems)


def _zram_devices(root: Path) -> list[str]:
    try:
        return sorted(name for name in os.listdir(root / "sys/block") if name.startswith("zram"))
    except OSError:
        return []
