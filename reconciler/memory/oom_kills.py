"""How often the kernel has ended a process for want of memory: in one control group, and on the whole machine."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reconciler.memory.hierarchy import V1, V2, find_groups
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
    groups = find_groups(root).groups
    # Where both versions are mounted only one of them has the memory controller.
    own = [next((g.folder for g in groups if g.files is files), None) for files in (V2, V1)]
    counted = [_counted(folder) for folder in own if folder is not None]
    machine = plain_fields(read_text(root / "proc/vmstat") or "").get("oom_kill")
    return Counters(next((number for number in counted if number is not None), None), machine)


def of_group(folder: Path) -> Kills | None:
    """Return what was done to the processes of a control group; None = it does not say. Blocks briefly."""
    number = _counted(folder)
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


def _counted(folder: Path) -> int | None:
    texts = (read_text(folder / name) for name in ("memory.events", "memory.oom_control"))
    return next((plain_fields(text).get("oom_kill") for text in texts if text is not None), None)
