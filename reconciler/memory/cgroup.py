"""Memory limits of the control groups above this process, version 1 and 2, at every ancestor.

A limit and the usage it binds are read at the same level: a parent's limit does not bind a child's usage.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from reconciler.memory.procfs import plain_fields, read_text


@dataclass(frozen=True, slots=True)
class Level:
    """One control group that limits memory; bytes."""

    path: str
    limit: int
    #: What can still be had below the limit, droppable file pages included; None = usage unreadable.
    headroom: int | None


@dataclass(frozen=True, slots=True)
class Limits:
    """All limits found, innermost first, and one sentence for each thing that could not be understood."""

    levels: tuple[Level, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Files:
    """What one version of control groups calls its files and the fields of `memory.stat`."""

    limits: tuple[str, ...]
    usage: str
    inactive: str
    active: str
    mapped: str
    slab: str


_V1: Final = _Files(
    ("memory.limit_in_bytes",),
    "memory.usage_in_bytes",
    "total_inactive_file",
    "total_active_file",
    "total_mapped_file",
    "slab_reclaimable",
)
# Above memory.high the kernel throttles until pages are given back: for starting a model that is the limit.
_V2: Final = _Files(
    ("memory.max", "memory.high"),
    "memory.current",
    "inactive_file",
    "active_file",
    "file_mapped",
    "slab_reclaimable",
)


@dataclass(frozen=True, slots=True)
class _Mount:
    """Where a hierarchy is mounted, and which of its groups lies at the mount point."""

    point: str
    root: str


def read_limits(root: Path = Path("/")) -> Limits:
    """Return the limits on this process. Raises nothing; blocks for a few small reads."""
    levels: list[Level] = []
    problems: list[str] = []
    memberships = _memberships(read_text(root / "proc/self/cgroup") or "")
    for files, path in memberships:
        mount = _choose(_mounts(root, files), path)
        if mount is None:
            continue
        for group, folder in _ancestors(mount, path):
            found = _read_level(files, group, root / folder.lstrip("/"))
            if isinstance(found, Level):
                levels.append(found)
            elif found is not None:
                problems.append(found)
    return Limits(tuple(levels), tuple(problems))


def _memberships(text: str) -> Iterator[tuple[_Files, str]]:
    """Yield our group in each hierarchy that can limit memory: `0::/path` (v2), `4:memory:/path` (v1)."""
    for line in sorted(text.splitlines()):
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            yield _V2, path
        elif "memory" in controllers.split(","):
            yield _V1, path


def _mounts(root: Path, files: _Files) -> Iterator[_Mount]:
    wanted = "cgroup2" if files is _V2 else "cgroup"
    for kind, mount, options in _mount_table(root):
        if kind == wanted and (files is _V2 or "memory" in options.split(",")):
            yield mount


def _mount_table(root: Path) -> Iterator[tuple[str, _Mount, str]]:
    """Yield file system type, mount and options; `mounts` knows no root field, so `mountinfo` comes first."""
    text = read_text(root / "proc/self/mountinfo")
    if text is not None:
        for line in text.splitlines():
            before, separator, after = line.partition(" - ")
            fields, tail = before.split(), after.split()
            if separator and len(fields) >= 5 and len(tail) >= 3:
                yield tail[0], _Mount(_unescape(fields[4]), _unescape(fields[3])), tail[2]
        return
    text = read_text(root / "proc/self/mounts") or read_text(root / "proc/mounts") or ""
    for line in text.splitlines():
        fields = line.split()
        if len(fields) >= 4:
            yield fields[2], _Mount(_unescape(fields[1]), "/"), fields[3]


def _unescape(text: str) -> str:
    """Undo the kernel's octal escapes for blanks in paths."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


def _choose(mounts: Iterator[_Mount], path: str) -> _Mount | None:
    """Return the mount that shows most of the groups above `path`."""
    ordered = sorted(mounts, key=lambda mount: (len(mount.root), mount.point))
    inside = (mount for mount in ordered if PurePosixPath(path).is_relative_to(mount.root))
    # A group outside every mount (a container with its own group namespace) still has the mount's limits.
    return next(inside, ordered[0] if ordered else None)


def _ancestors(mount: _Mount, path: str) -> Iterator[tuple[str, str]]:
    """Yield (group, folder) from our group up to the mount point."""
    inside = PurePosixPath(path)
    if inside.is_relative_to(mount.root) and ".." not in inside.parts:
        below = inside.relative_to(mount.root)
    else:
        below = PurePosixPath(".")
    for part in (below, *below.parents):
        yield str(PurePosixPath(mount.root) / part), str(PurePosixPath(mount.point) / part)
        if part == PurePosixPath("."):
            return


def _read_level(files: _Files, group: str, folder: Path) -> Level | str | None:
    """Return the limit of one group, a sentence if it cannot be understood, or None if it has none."""
    limits: list[int] = []
    for name in files.limits:
        text = (read_text(folder / name) or "max").strip()
        if text.isdecimal():
            limits.append(int(text))
        elif text != "max":
            return (
                f"degraded: limit of control group {group} is unreadable, not applied ({name}: {text[:40]!r})"
            )
    stat = plain_fields(read_text(folder / "memory.stat") or "")
    # Version 1 states the smallest limit above it too, also of groups that are not visible from in here.
    if files is _V1 and "hierarchical_memory_limit" in stat:
        limits.append(stat["hierarchical_memory_limit"])
    if not limits:
        return None
    usage = (read_text(folder / files.usage) or "").strip()
    if not usage.isdecimal():
        return Level(group, min(limits), None)
    held = max(0, int(usage) - _reclaimable(files, stat))
    return Level(group, min(limits), max(0, min(limits) - held))


def _reclaimable(files: _Files, stat: Mapping[str, int]) -> int:
    """Return the bytes of a group's usage that a new allocation would get.

    Active file pages that nobody maps are somebody's hot cache and count as used. Active ones that are mapped
    are above all weights of running models: the ledger sets those aside itself, so here they count as
    reclaimable, or they would be taken away twice.
    """
    active_and_mapped = min(stat.get(files.active, 0), stat.get(files.mapped, 0))
    return stat.get(files.inactive, 0) + active_and_mapped + stat.get(files.slab, 0)
