"""How often the kernel has ended a process for want of memory: in one control group, and on the whole machine."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reconciler.memory.hierarchy import V1, V2, Group, find_groups, membership
from reconciler.memory.procfs import plain_fields, read_text, whole

#: Bytes asked for at once at most, as a huge page: so close to its limit a group is full.
CHUNK: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class Counters:
    """Counters that only grow; None = the system has no such thing."""

    #: Of our own control group. What it counts was in that group: a process in it that is not counted, was not ended
    #: for want of memory.
    group: int | None = None
    #: Of the machine, other control groups with limits of their own included.
    machine: int | None = None


@dataclass(frozen=True, slots=True)
class Kills:
    """What the kernel did, for want of memory, to the processes of one control group that has a limit."""

    count: int = 0
    #: The limit in bytes, if the group itself was full; None = it was not, or its limit cannot be read.
    limit: int | None = None


def count(root: Path = Path("/")) -> Counters:
    """Return the counters there are. Blocks briefly.

    Those of version 2 of control groups contain the groups below, those of version 1 do not: the machine's does.
    """
    own = [counted(group.folder) for group in _innermost(root)]
    machine = plain_fields(read_text(root / "proc/vmstat") or "").get("oom_kill")
    return Counters(next((number for number in own if number is not None), None), machine)


def elsewhere(pid: int, root: Path = Path("/")) -> Path | None:
    """Return the control group that counts for a process, if that is not ours; None = it is ours, or cannot be told.

    A process that is about to end is said to be in the root of version 1, wherever it is. Blocks briefly.
    """
    if read_text(root / membership(pid)) == read_text(root / membership()):
        return None
    ours = {group.folder for group in _innermost(root)}
    others = (g.folder for g in _innermost(root, pid) if g.path != "/" and g.folder not in ours)
    return next((folder for folder in others if counted(folder) is not None), None)


def _innermost(root: Path, pid: int | None = None) -> list[Group]:
    """Return the group of a process, or ours: where both versions are mounted only one of them counts memory."""
    groups = find_groups(root, pid).groups
    found = (next((g for g in groups if g.files is files), None) for files in (V2, V1))
    return [group for group in found if group is not None]


def of_group(folder: Path) -> Kills | None:
    """Return what was done to the processes of a control group; None = it does not say. Blocks briefly."""
    number = counted(folder)
    if number is None:
        return None
    texts = (read_text(folder / name) for name in (V2.limits[0], V1.limits[0]))
    limit = next((whole(text) for text in texts if text is not None), None)
    return Kills(number, limit if number and limit is not None and _full(folder, limit) else None)


def _full(folder: Path, limit: int) -> bool:
    """Return whether a group met its own limit: a kill is also counted for a limit above it, or for the machine."""
    events = plain_fields(read_text(folder / "memory.events") or "")
    if events:
        return events.get("oom", 1) > 0
    # `memory.failcnt` stays 0 in some kernels.
    most = whole(read_text(folder / "memory.max_usage_in_bytes") or "")
    return most is None or most >= limit - CHUNK


def counted(folder: Path) -> int | None:
    """Return how often the kernel ended a process of a control group; None = it does not say. Blocks briefly."""
    texts = (read_text(folder / name) for name in ("memory.events", "memory.oom_control"))
    return next((plain_fields(text).get("oom_kill") for text in texts if text is not None), None)
