"""How much memory this machine has and how much of it a new process could get without swapping."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reconciler.core.memory import HostUse, Memory
from reconciler.memory.cgroup import Limits
from reconciler.memory.procfs import MOST_MEMORY, field, kib_fields, read_text, whole
from reconciler.memory.zones import read_cpu_lists

_PARTS: Final = ("MemFree", "Active(file)", "Inactive(file)", "SReclaimable")
_PROGRAMS: Final = ("AnonPages", "Shmem")
_CACHE: Final = ("Cached", "Buffers")
_KERNEL: Final = ("SUnreclaim", "PageTables", "KernelStack", "Percpu")


PAGE_SIZE: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Host:
    """The machine's own figures in bytes, before any control group; None = unknown, then `source` says why."""

    total: int | None
    available: int | None
    source: str
    problems: tuple[str, ...] = ()
    #: /proc/meminfo in bytes; what cannot be true is left out.
    meminfo: Mapping[str, int] | None = None
    use: HostUse | None = None


def read_host(root: Path, *, unmovable: bool, page_size: int = PAGE_SIZE) -> Host:
    """Return the machine's figures, each correction named in `source`. Blocks briefly, raises nothing.

    `unmovable`: memory will be asked for by a GPU driver, whose pages the kernel cannot place in CMA regions.
    `page_size` is in bytes.
    """
    text = read_text(root / "proc/meminfo")
    if text is None:
        return Host(None, None, f"{root / 'proc/meminfo'} cannot be read")
    stated = dict(kib_fields(text))
    total = stated.get("MemTotal")
    if not total or total > MOST_MEMORY:
        return Host(None, None, "/proc/meminfo does not state MemTotal")
    problems: list[str] = []
    meminfo = _believable(stated, total, problems)
    available, source = _available(meminfo, total, text)
    if available is None:
        problems.append(source)
    else:
        cache = _zfs_cache(root, total, problems)
        if cache:
            # It shrinks slowly when others need memory: only half is counted on.
            available = min(total, available + cache // 2)
            source += ", plus half of the ZFS cache above its minimum"
        kept, problem = read_cpu_lists(root, page_size, total)
        problems += [problem] if problem else []
        if kept:
            available = min(total, available + kept)
            source += ", plus free pages on the lists of the CPUs"
        if unmovable and meminfo.get("CmaFree"):
            available = max(0, available - meminfo["CmaFree"])
            source += ", less the free CMA pages, which GPU drivers cannot use"
    use = _use(meminfo, _pools(text, stated), total, available, problems)
    return Host(total, available, source, tuple(problems), meminfo, use)


def read_available(root: Path) -> int | None:
    """Return the machine's available bytes without any correction, None = unknown. Blocks briefly, raises nothing."""
    text = read_text(root / "proc/meminfo")
    if text is None:
        return None
    stated = dict(kib_fields(text))
    return _available(stated, stated.get("MemTotal", 0), text)[0]


def limit(host: Host, found: Limits) -> Memory:
    """Lower the machine's figures to what the control groups above us leave."""
    total, available, files = host.total, host.available, None
    sources = [host.source]
    for level in found.levels:
        if total is not None and level.limit < total:
            total = level.limit
            sources.append(f"limit of control group {level.path}")
        if level.headroom is None:
            available = None
        elif available is not None and level.headroom < available:
            available, files = level.headroom, level.files
            sources.append(f"room left in control group {level.path}")
    source = "; ".join([*sources, *found.problems])
    problems = (*host.problems, *found.problems)
    return Memory(total, available, source, host=host.use, files=files, problems=problems)


def _believable(stated: Mapping[str, int], total: int, problems: list[str]) -> Mapping[str, int]:
    """Return the fields without those that claim more than the machine has; addresses and swap may be more."""
    checked = {
        *_PARTS,
        *_PROGRAMS,
        *_CACHE,
        *_KERNEL,
        "Unevictable",
        "MemAvailable",
        "CmaFree",
        "Slab",
        "Zswap",
    }
    wrong = sorted(key for key in checked if stated.get(key, 0) > total)
    problems.extend(f"/proc/meminfo: {key} is larger than MemTotal, not believed" for key in wrong)
    return {key: size for key, size in stated.items() if key not in wrong}


def _available(meminfo: Mapping[str, int], total: int, text: str) -> tuple[int | None, str]:
    """Return what the kernel offers, or its parts where it does not (old kernels, some containers show 0)."""
    if available := meminfo.get("MemAvailable"):
        return available, "/proc/meminfo"
    if "MemAvailable" not in meminfo and "\nMemAvailable:" in text:
        return None, "/proc/meminfo states a MemAvailable that cannot be understood"
    missing = [name for name in _PARTS if name not in meminfo]
    if missing:
        # MemFree alone calls all page cache used: a figure so far off is worse than none.
        return None, f"/proc/meminfo states neither MemAvailable nor {', '.join(missing)}"
    free_and_cache = min(sum(meminfo[name] for name in _PARTS), total)
    return free_and_cache, "/proc/meminfo (MemAvailable is missing: free + cache)"


def _zfs_cache(root: Path, total: int, problems: list[str]) -> int:
    """Return the bytes that the ZFS cache could give back, which the kernel calls used; 0 where there is none."""
    text = read_text(root / "proc/spl/kstat/zfs/arcstats")
    if text is None:
        return 0
    size, least = (
        whole(found[1]) if (found := re.search(rf"^{name} +[0-9]+ +([0-9]+)$", text, re.MULTILINE)) else None
        for name in ("size", "c_min")
    )
    if size is None or least is None or max(size, least) > total:
        problems.append("size and c_min of the ZFS cache cannot be understood: it counts as used")
        return 0
    return max(0, size - least)


def _pools(text: str, stated: Mapping[str, int]) -> int:
    """Return the bytes of all huge page pools; `Hugetlb` counts every page size, where the kernel states it."""
    pages = field(text, "HugePages_Total:") or 0
    return max(pages * stated.get("Hugepagesize", 0), stated.get("Hugetlb", 0))


def _use(
    meminfo: Mapping[str, int], pools: int, total: int, available: int | None, problems: list[str]
) -> HostUse | None:
    """Return who holds the machine's memory, or None if that cannot be told."""
    if "SUnreclaim" not in meminfo and meminfo.keys() >= {"Slab", "SReclaimable"}:
        meminfo = {**meminfo, "SUnreclaim": max(0, meminfo["Slab"] - meminfo["SReclaimable"])}
    missing = [key for key in (*_PROGRAMS, "SUnreclaim") if key not in meminfo]
    if missing:
        problems.append(f"/proc/meminfo does not state {', '.join(missing)}: the use of the rest is unknown")
    if pools > total:
        problems.append("/proc/meminfo: huge pages are larger than MemTotal, not believed")
    if missing or pools > total or available is None:
        return None
    # Shared pages are not among the anonymous ones. Old kernels do not state each of the kernel's parts.
    programs = sum(meminfo[key] for key in _PROGRAMS) + _locked_files(meminfo)
    kernel = sum(meminfo.get(key, 0) for key in _KERNEL)
    return HostUse(total, available, programs, kernel, pools)


def _locked_files(meminfo: Mapping[str, int]) -> int:
    """Return the bytes of files that programs have locked in memory: file pages on neither of the lists that shrink."""
    if not meminfo.keys() >= {*_CACHE, "Shmem", "Active(file)", "Inactive(file)", "Unevictable"}:
        return 0
    cache = sum(meminfo[key] for key in _CACHE)
    locked = cache - meminfo["Shmem"] - meminfo["Active(file)"] - meminfo["Inactive(file)"]
    return max(0, min(locked, meminfo["Unevictable"]))
