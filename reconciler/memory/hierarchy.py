"""Which control groups this process is in, up to the mount point, and where their files are."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from reconciler.memory.procfs import read_text

#: Longest path that the kernel takes; what is longer came out of a file that is garbage.
_LONGEST_PATH: Final = 4096
_MEMBERSHIP: Final = re.compile(r"^[0-9]+:[^:\n]*:/", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Files:
    """What one version of control groups calls its files and the fields of `memory.stat`."""

    limits: tuple[str, ...]
    usage: str
    inactive: str
    active: str
    mapped: str
    slab: str


V1: Final = Files(
    ("memory.limit_in_bytes",),
    "memory.usage_in_bytes",
    "total_inactive_file",
    "total_active_file",
    "total_mapped_file",
    "slab_reclaimable",
)
# Above memory.high the kernel throttles until pages are given back: for starting a model that is the limit.
V2: Final = Files(
    ("memory.max", "memory.high"),
    "memory.current",
    "inactive_file",
    "active_file",
    "file_mapped",
    "slab_reclaimable",
)


@dataclass(frozen=True, slots=True)
class Group:
    """One control group that we are in, directly or through groups below it."""

    files: Files
    path: str
    folder: Path
    #: Those of `files.limits` that exist; a root group has none.
    limits: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Mount:
    """Where a hierarchy is mounted, and which of its groups lies at the mount point."""

    point: str
    root: str


@dataclass(frozen=True, slots=True)
class Found:
    """Our groups, innermost first within each hierarchy, and one sentence for each file that is garbage."""

    groups: tuple[Group, ...] = ()
    problems: tuple[str, ...] = ()


def find_groups(root: Path, pid: int | None = None) -> Found:
    """Return the groups that we are in, or that another process is in. Raises nothing; blocks for a few small reads."""
    groups = []
    problems = []
    text = read_text(root / membership(pid)) or ""
    if text.strip() and not _MEMBERSHIP.search(text):
        problems.append(f"degraded: /{membership(pid)} cannot be understood, no limit applied: {text[:40]!r}")
    table = list(_mount_table(root))
    for files, path in _memberships(text):
        mount = _choose(_mounts(table, files), path)
        if mount is None and not table:
            problems.append("degraded: no file of /proc tells where control groups are, no limit applied")
        if mount is None:
            continue
        for group, inside in _ancestors(mount, path):
            folder = root / inside.lstrip("/")
            limits = tuple(name for name in files.limits if read_text(folder / name) is not None)
            groups.append(Group(files, group, folder, limits))
    return Found(tuple(groups), tuple(sorted(set(problems))))


def membership(pid: int | None = None) -> str:
    """Return the file that says which groups a process is in, or we are, below the root."""
    return f"proc/{'self' if pid is None else pid}/cgroup"


def memory_filesystems(root: Path) -> frozenset[str]:
    """Return the devices (`0:25`) of file systems that live in memory: pages of their files cannot be dropped."""
    kinds = {"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"}
    found = set()
    for line in (read_text(root / "proc/self/mountinfo") or "").splitlines():
        before, _, after = line.partition(" - ")
        fields, tail = before.split(), after.split()
        if len(fields) >= 3 and tail and tail[0] in kinds:
            found.add(fields[2])
    return frozenset(found)


def _memberships(text: str) -> Iterator[tuple[Files, str]]:
    """Yield our group in each hierarchy that can limit memory: `0::/path` (v2), `4:memory:/path` (v1)."""
    for line in sorted(text.splitlines()):
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if len(path) > _LONGEST_PATH:
            continue
        if number == "0" and not controllers:
            yield V2, path
        elif "memory" in controllers.split(","):
            yield V1, path


def _mounts(table: list[tuple[str, _Mount, str]], files: Files) -> Iterator[_Mount]:
    wanted = "cgroup2" if files is V2 else "cgroup"
    for kind, mount, options in table:
        if kind == wanted and (files is V2 or "memory" in options.split(",")):
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
