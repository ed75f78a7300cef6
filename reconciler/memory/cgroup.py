"""Memory limits of the control groups above this process, version 1 and 2, at every ancestor.

A limit and the usage it binds are read at the same level: a parent's limit does not bind a child's usage.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reconciler.memory.hierarchy import V1, V2, Files, Found, Group, find_groups
from reconciler.memory.procfs import MOST_MEMORY, plain_fields, read_text, whole

#: Which groups are above us is found out this often; in between only their figures are read.
FIND_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Level:
    """One control group that limits memory; bytes."""

    path: str
    limit: int
    #: What can still be had below the limit, droppable file pages included; None = usage unreadable.
    headroom: int | None
    #: The file pages among it: weights of running models may be there, or be charged to another group.
    files: int | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """All limits found, innermost first, and one sentence for each thing that could not be understood."""

    levels: tuple[Level, ...] = ()
    problems: tuple[str, ...] = ()


class ControlGroups:
    """The control groups above this process; remembers which they are, since finding them is the dear part."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._found = Found()
        self._found_at: float | None = None

    def limits(self, machine: int | None, now: float) -> Limits:
        """Return the limits on this process. `machine` is the memory of the machine in bytes, None = unknown.

        A limit above the machine's memory binds nobody and is left out. Raises nothing; blocks for a few small
        reads.
        """
        found_now = self._find(now)
        while True:
            levels: list[Level] = []
            problems = list(self._found.problems)
            vanished = _read_levels(self._found.groups, machine or MOST_MEMORY, levels, problems)
            if not vanished or found_now:
                return Limits(tuple(levels), tuple(problems))
            # We were moved, or a group was made anew under another name: find out where we are now.
            self._found_at = None
            found_now = self._find(now)

    def pressure_files(self, now: float) -> tuple[Path, ...]:
        """Return where the pressure of our own group is stated: version 2 only, innermost group only."""
        self._find(now)
        own = next((group for group in self._found.groups if group.files is V2), None)
        return () if own is None else (own.folder / "memory.pressure",)

    def _find(self, now: float) -> bool:
        if self._found_at is not None and 0 <= now - self._found_at < FIND_SECONDS:
            return False
        self._found, self._found_at = find_groups(self._root), now
        return True


def _read_levels(groups: tuple[Group, ...], machine: int, levels: list[Level], problems: list[str]) -> bool:
    """Read each group into `levels`; return whether one that had limits is no longer there."""
    unlimited: Files | None = None
    for group in groups:
        if not group.limits or group.files is unlimited:
            continue
        limit, stat, said = _read_limit(group)
        problems += said
        if limit is None:
            return True
        if limit >= machine:
            # The smallest limit up to the root (version 1) is no limit: neither is any further up.
            if group.files is V1 and stat is not None and "hierarchical_memory_limit" in plain_fields(stat):
                unlimited = V1
        else:
            level, problem = _read_headroom(group, limit, stat, machine)
            levels.append(level)
            if problem is not None:
                problems.append(problem)
    return False


def _read_limit(group: Group) -> tuple[int | None, str | None, list[str]]:
    """Return the limit, `memory.stat`, and one sentence for each limit that cannot be believed: the others bind.

    The limit is `MOST_MEMORY` or more where there is none, and None where the group is gone.
    """
    limits, said = [MOST_MEMORY], []
    for name in group.limits:
        text = read_text(group.folder / name)
        if text is None:
            return None, None, []
        limit = whole(text)
        if limit:
            limits.append(limit)
        elif text.strip() != "max":
            said.append(_not_applied(group, name, text))
    stat = None
    if group.files is V1:
        # Version 1 states the smallest limit above it too, also of groups that are not visible from in here.
        stat = read_text(group.folder / "memory.stat")
        hierarchical = plain_fields(stat or "").get("hierarchical_memory_limit")
        if hierarchical:
            limits.append(hierarchical)
    return min(limits), stat, said


def _not_applied(group: Group, name: str, text: str) -> str:
    if whole(text) == 0:
        # No memory.max of ours: we run in this group. A memory.high of 0 is legal, but it is how everything that can
        # be given back is squeezed out of a group, for a moment: to take it for the limit would evict every model.
        return f"degraded: {name} of control group {group.path} is 0, which leaves nothing: not applied"
    return f"degraded: {name} of control group {group.path} is unreadable, not applied: {text.strip()[:40]!r}"


def _read_headroom(group: Group, limit: int, stat: str | None, machine: int) -> tuple[Level, str | None]:
    """Return the level with what is left below its limit, None if usage cannot be believed, and a problem."""
    unknown = Level(group.path, limit, None)
    usage = whole(read_text(group.folder / group.files.usage) or "")
    if usage is None or usage > machine:
        return unknown, f"usage of control group {group.path} cannot be read"
    if stat is None:
        stat = read_text(group.folder / "memory.stat")
    if stat is None:
        # Some sandboxes have no such file. All usage counts as used then: too careful, but no guess.
        left = Level(group.path, limit, max(0, limit - usage), 0)
        return left, f"control group {group.path} does not say what of its usage is cache"
    fields = plain_fields(stat)
    if not fields or max(_reclaimable_parts(group.files, fields)) > machine:
        return unknown, f"memory.stat of control group {group.path} cannot be understood: {stat[:40]!r}"
    inactive, active, slab = _reclaimable_parts(group.files, fields)
    held = max(0, usage - inactive - active - slab)
    return Level(group.path, limit, max(0, limit - held), inactive + active), None


def _reclaimable_parts(files: Files, stat: Mapping[str, int]) -> tuple[int, int, int]:
    """Return the bytes of a group's usage that a new allocation would get, by kind.

    Active file pages are among them, as they are in MemAvailable of the whole machine: mapped ones are above all
    weights of running models, which the ledger sets aside itself, and the others what models that have gone, or that
    read their weights instead of mapping them, left behind. Counted as used, such a rest would keep every model out
    for good, because only a load makes the kernel drop it. Imitations of control groups that do not tell mapped pages
    from others are believed about inactive ones alone.
    """
    active = stat.get(files.active, 0) if files.mapped in stat else 0
    return stat.get(files.inactive, 0), active, stat.get(files.slab, 0)
