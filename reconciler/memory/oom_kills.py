"""How often the kernel has ended a process for want of memory: in our control group, and on the whole machine."""

from pathlib import Path

from reconciler.memory.hierarchy import V2, find_groups
from reconciler.memory.procfs import plain_fields, read_text


def count(root: Path = Path("/")) -> tuple[int, ...]:
    """Return the counters there are, each of which only grows; () where the system has none. Blocks briefly.

    Those of version 2 of control groups contain the groups below, those of version 1 do not: the machine's does.
    """
    found = []
    groups = find_groups(root).groups
    for group in groups[:1]:
        name = "memory.events" if group.files is V2 else "memory.oom_control"
        found.append(plain_fields(read_text(group.folder / name) or "").get("oom_kill"))
    found.append(plain_fields(read_text(root / "proc/vmstat") or "").get("oom_kill"))
    return tuple(number for number in found if number is not None)
