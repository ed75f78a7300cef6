"""What trees of processes hold, kept up to date cheaply: a status file each time, page tables only when needed."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from reconciler.core.memory import Basis, MappedFile
from reconciler.memory.hierarchy import memory_filesystems
from reconciler.memory.mapped import TreeFiles, merge, parse_smaps
from reconciler.memory.probe import Held
from reconciler.memory.process import (
    ENDED,
    LIBRARIES,
    Status,
    read_own_shares,
    read_process_file,
    read_status,
)
from reconciler.memory.procfs import MOST_MEMORY

#: The processes of a tree that are alive, by pid in order; None = the status cannot be read.
_Statuses = Mapping[int, Status | None]

#: Page tables of a tree are walked at least this often, seconds.
WALK_SECONDS: Final = 600.0
#: And again when its resident file pages have changed by more than this, bytes and share of what they were.
CHANGED_BYTES: Final = 8 << 20
CHANGED_SHARE: Final = 0.01
#: But so rarely that walking takes less than this share of the time, for each tree.
COST_SHARE: Final = 0.01


@dataclass(frozen=True, slots=True)
class _Walk:
    """What the last walk of one tree found."""

    pids: tuple[int, ...]
    at: float
    #: How long it took, seconds.
    cost: float
    #: Resident file pages of all its processes then, and of the one that had most.
    file: int | None
    largest: int
    #: None = the page tables may not be read.
    files: TreeFiles | None
    #: What the status files say too much, or too little if negative: bytes.
    excess: int
    #: What could not be understood; stands until the next walk.
    problems: tuple[str, ...]


class Walks:
    """Remembers the last walk of each tree. Used by one thread at a time."""

    def __init__(self, root: Path, clock: Callable[[], float] = time.perf_counter) -> None:
        self._root = root
        self._clock = clock
        self._known: dict[str, _Walk] = {}
        self._problems: list[str] = []

    @property
    def problems(self) -> tuple[str, ...]:
        """Return one sentence for each thing that the last `held` could not understand."""
        return tuple(self._problems)

    def held(
        self, trees: Mapping[str, Sequence[int]], now: float, walk: Collection[str], most: int | None
    ) -> dict[str, Held]:
        """Return what each tree holds, and forget trees that are not asked for. Blocks, raises nothing.

        `most` is the memory of the machine in bytes: figures beyond it are not believed.
        """
        self._known = {key: known for key, known in self._known.items() if key in trees}
        self._problems = []
        most = most or MOST_MEMORY
        found = {}
        for key, pids in sorted(trees.items()):
            read = {pid: read_status(pid, self._root, most) for pid in sorted(set(pids))}
            # One that has ended holds nothing, and shares nothing with the others any more.
            statuses = {pid: status for pid, status in read.items() if status is not ENDED}
            known = self._known.get(key)
            if known is None or key in walk or _is_due(known, statuses, now):
                known = self._known[key] = self._walk(statuses, now, most)
            self._problems.extend(known.problems)
            if None in statuses.values():
                self._problems.append(f"what {key} holds is unknown: the status of a process cannot be read")
            found[key] = _combine(known, statuses, now)
        return found

    def _walk(self, statuses: _Statuses, now: float, most: int) -> _Walk:
        """Walk the page tables of a tree, and compare what they say with the cheap figures read just before."""
        began = self._clock()
        problems: list[str] = []
        files = _files(statuses, self._root, most, problems)
        return _Walk(
            pids=tuple(statuses),
            at=now,
            file=_file(statuses),
            largest=_largest(statuses),
            files=files,
            excess=_excess(statuses, files, self._root),
            problems=tuple(problems),
            cost=self._clock() - began,  # evaluated last
        )


def _files(pids: Iterable[int], root: Path, most: int, problems: list[str]) -> TreeFiles | None:
    """Return the mapped files of a tree, or None if those of one process cannot be told."""
    in_memory = memory_filesystems(root)
    maps = []
    for pid in pids:
        text = read_process_file(pid, "smaps", root)
        if not text:
            return None  # may not be read, or the process ends just now and the next look finds it gone
        pages = parse_smaps(text, in_memory)
        if pages is None or any(file.resident > most for file in pages.values()):
            problems.append(f"/proc/{pid}/smaps cannot be understood: warm pages are estimated")
            return None
        maps.append(pages)
    return merge(maps)


def _excess(statuses: _Statuses, files: TreeFiles | None, root: Path) -> int:
    """Return by how much the sum of the status files is more than what the tree really holds.

    A difference, not a ratio: what a tree comes to hold after it forked is private to one of its processes, and
    must be charged in full. Pages that came since the statuses were read make it smaller, which is the safe side.
    """
    read = [status for status in statuses.values() if status is not None]
    if len(read) < len(statuses):
        return 0
    excess = 0
    if files is not None:
        excess += sum(status.locked for status in read) - files.locked
    shares = read_own_shares(tuple(statuses), root) if len(read) > 1 else None
    if shares is not None:
        excess += max(0, sum(status.own for status in read) - shares)
    return excess


def _is_due(known: _Walk, statuses: _Statuses, now: float) -> bool:
    if now - known.at < known.cost / COST_SHARE:
        return False
    return _is_outdated(known, statuses, now)


def _is_outdated(known: _Walk, statuses: _Statuses, now: float) -> bool:
    if tuple(statuses) != known.pids or now - known.at >= WALK_SECONDS:
        return True
    file = _file(statuses)
    if file is None or known.file is None:
        return file is not known.file
    return abs(file - known.file) > max(CHANGED_BYTES, known.file * CHANGED_SHARE)


def _file(statuses: _Statuses) -> int | None:
    sizes = [status.file for status in statuses.values() if status is not None]
    return sum(sizes) if len(sizes) == len(statuses) else None


def _largest(statuses: _Statuses) -> int:
    return max((status.file for status in statuses.values() if status is not None), default=0)


def _combine(known: _Walk, statuses: _Statuses, now: float) -> Held:
    committed = _committed(known, statuses)
    if known.files is None:
        return Held(committed, _guess(statuses), warm_basis=Basis.ESTIMATED, warm_at=now)
    if not _is_outdated(known, statuses, now):
        return Held(committed, known.files.warm, known.files.files, warm_at=known.at)
    warm, files = _scale(known, known.files, statuses)
    return Held(committed, warm, files, warm_basis=Basis.STALE, warm_at=known.at)


def _committed(known: _Walk, statuses: _Statuses) -> int | None:
    read = [status for status in statuses.values() if status is not None]
    if len(read) < len(statuses):
        return None
    total = sum(status.committed for status in read)
    # Once a process has left, what it shared with the others is theirs alone: the old excess is too much.
    if not set(known.pids) <= statuses.keys():
        return total
    # No tree holds less than its largest process does on its own.
    return max(total - known.excess, max((status.own for status in read), default=0))


def _guess(statuses: _Statuses) -> int | None:
    """Return the warm bytes where page tables may not be read: all file pages but some for libraries."""
    total = 0
    for status in statuses.values():
        if status is None:
            return None
        total += max(0, status.file - status.locked - LIBRARIES)
    return total


def _scale(known: _Walk, then: TreeFiles, statuses: _Statuses) -> tuple[int, tuple[MappedFile, ...]]:
    """Return the warm bytes of an old walk, moved by what the largest process gained or lost since.

    Of the file pages that come and go in a loaded server nearly all are weights; the largest process alone counts,
    or pages that several map would be added for each. One that was walked as it began still gets its libraries: so
    much of what has come is none of the weights.
    """
    file = _file(statuses)
    if file is None:
        return then.warm, then.files
    moved = _largest(statuses) - known.largest
    if then.warm == 0 and moved > 0:
        moved = max(0, moved - max(0, LIBRARIES - known.largest))
    warm = max(0, min(then.warm + moved, file))
    if then.warm == 0:
        return warm, ()
    files = (replace(part, size=part.size * warm // then.warm) for part in then.files)
    return warm, tuple(part for part in files if part.size)
