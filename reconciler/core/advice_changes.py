"""The single changes that would make a model fit: each is tried by planning the world in which it has been made."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import ceil
from typing import Final

from reconciler.core import book
from reconciler.core.advice_cases import Case, asked, changed
from reconciler.core.advice_sizes import STEP, most, smallest, spare, steps, tokens, unit, units
from reconciler.core.advice_types import Change, ChangeKind
from reconciler.core.advice_waits import moments
from reconciler.core.diff import Row, compare
from reconciler.core.select import select
from reconciler.core.types import MayPreempt, Reason

#: Models other than the one that is asked for whose context is looked at, those with the most to spare first.
OTHERS_ASKED: Final = 8
#: Not even good advice leaves the system with less than this share of what was kept for it.
RESERVE_KEPT: Final = 0.5
#: A share of the memory is given in whole percent.
PERCENT: Final = 100
#: Nothing of what could be changed here lets these in.
_BEYOND_HELP: Final = frozenset(
    {Reason.NOT_STARTABLE, Reason.SIZE_UNKNOWN, Reason.MEMORY_UNKNOWN, Reason.MEMORY_PRESSURE}
)
#: What a model depends on that can never fit: only how large things are, and who is pinned.
_SETTINGS: Final = frozenset(
    {
        ChangeKind.MEMORY,
        ChangeKind.CONTEXT,
        ChangeKind.RESERVE,
        ChangeKind.HARD_MARK,
        ChangeKind.UNPIN,
    }
)


class _EnoughError(Exception):
    """As many changes were tried as may be."""


def changes(case: Case, model: str, tries: int | None = None) -> Iterator[Change]:
    """Yield the smallest single change of each kind that would have a model loaded for a request that came now.

    What asks least of people comes first, and nothing is worked out before it is asked for. Nothing is yielded for a
    model that would be loaded as things are, or that no such change helps. For one that can never fit they are the
    changes with which it could. After so many `tries` no more is looked for; None = all are made.
    """
    search = _Search(asked(case, model), model, tries)
    if not search.hopeful:
        return
    for kind in ChangeKind:
        if not search.ever or kind in _SETTINGS:
            try:
                yield from search.of(kind)
            except _EnoughError:
                return


class _Search:
    """Looks for changes that make one model fit which somebody waits for."""

    def __init__(self, case: Case, model: str, tries: int | None) -> None:
        self.case = case
        self.model = model
        self.tries = tries
        table = compare(case.manifest, case.world, case.now)
        self.rows = table.rows
        self.row = next((r for r in self.rows if r.name == model), None)
        block = select(case.manifest, case.world, table, case.now).blocked.get(model)
        self.reason = block.reason if block is not None else None
        #: Steps that it probably takes: what lacks is usually known.
        self.guess = steps(block.short or 0) if block is not None else 0
        #: It has to do with settings alone: whatever is in use now is another matter.
        self.ever = self.reason is Reason.NEVER_FITS
        self._finders: dict[ChangeKind, Callable[[], Iterator[Change]]] = {
            ChangeKind.WAIT: self._wait,
            ChangeKind.ASK: self._ask,
            ChangeKind.MAY_PREEMPT: self._may_preempt,
            ChangeKind.PRIORITY: self._priority,
            ChangeKind.MEMORY: self._memory,
            ChangeKind.CONTEXT: self._context,
            ChangeKind.RELEASE: self._release,
            ChangeKind.RESERVE: self._reserve,
            ChangeKind.HARD_MARK: self._hard_mark,
            ChangeKind.UNPIN: self._unpin,
            ChangeKind.OTHERS: self._others,
        }

    @property
    def hopeful(self) -> bool:
        """Whether it is blocked for a reason that one of these changes may take away."""
        return self.row is not None and self.reason is not None and self.reason not in _BEYOND_HELP

    def of(self, kind: ChangeKind) -> Iterator[Change]:
        """Yield the smallest changes of one kind: at most one, but for context, one for each model that has enough."""
        return self._finders[kind]()

    def _works(self, change: Change) -> bool:
        fate = self._fate(change)
        return fate is not Reason.NEVER_FITS if self.ever else fate is None

    def _fate(self, change: Change) -> Reason | None:
        if self.tries is not None:
            if self.tries <= 0:
                raise _EnoughError
            self.tries -= 1
        return changed(self.case, change).fate(self.model)

    def _told(self, change: Change) -> Change:
        """Return a change that works with the note whether it works at once."""
        return replace(change, at_once=not self.ever or self._fate(change) is None)

    def _first(self, candidates: Iterator[Change]) -> Iterator[Change]:
        found = next(filter(self._works, candidates), None)
        return iter(() if found is None else (self._told(found),))

    def _least(self, make: Callable[[int], Change], most: int, guess: int | None = None) -> Iterator[Change]:
        """Yield the change with the smallest number from 1 to `most` that works."""
        guess = self.guess if guess is None else guess
        found = smallest(lambda count: self._works(make(count)), most, guess)
        return iter(() if found is None else (self._told(make(found)),))

    def _wait(self) -> Iterator[Change]:
        now = self.case.now
        return self._first(
            Change(ChangeKind.WAIT, seconds=at - now, why=why)
            for at, why in moments(self.rows, self.model, now)
        )

    def _ask(self) -> Iterator[Change]:
        due = {Reason.BACKING_OFF, Reason.GIVEN_UP, Reason.RESTING}
        return self._first(iter((Change(ChangeKind.ASK, self.model),) if self.reason in due else ()))

    def _may_preempt(self) -> Iterator[Change]:
        levels = (MayPreempt.LOWER, MayPreempt.EQUAL)
        now_has = self.row.spec.may_preempt if self.row else MayPreempt.EQUAL
        further = levels[levels.index(now_has) + 1 :] if now_has in levels else levels
        return self._first(Change(ChangeKind.MAY_PREEMPT, self.model, may_preempt=level) for level in further)

    def _priority(self) -> Iterator[Change]:
        if self.row is None:
            return iter(())
        mine = self.row.spec.priority
        # Only how it compares with the others counts: as much as one of them, or just more.
        others = {r.spec.priority for r in self.rows if r.spec.priority >= mine and r is not self.row}
        levels = sorted({level for p in others for level in (p, p + 1) if level > mine})
        return self._first(Change(ChangeKind.PRIORITY, self.model, priority=level) for level in levels)

    def _memory(self) -> Iterator[Change]:
        stated, there = self.case.manifest.memory, self.case.world.observation.memory.total
        if stated is None or there is None:
            return iter(())
        return self._least(
            lambda n: Change(ChangeKind.MEMORY, bytes=min(n * STEP, there - stated)), steps(there - stated)
        )

    def _reserve(self) -> Iterator[Change]:
        kept = book.reserve(self.case.manifest, self.case.world.observation.memory) or 0
        return self._least(
            lambda n: Change(ChangeKind.RESERVE, bytes=n * STEP), int(kept * (1 - RESERVE_KEPT)) // STEP
        )

    def _hard_mark(self) -> Iterator[Change]:
        marks, total = self.case.manifest.watermarks, self.case.world.observation.memory.total
        if marks is None or not total:
            return iter(())
        start = int(marks.hard * PERCENT)
        most = ceil(marks.critical * PERCENT) - 1 - start
        return self._least(
            lambda n: Change(ChangeKind.HARD_MARK, mark=(start + n) / PERCENT),
            most,
            ceil(self.guess * STEP * PERCENT / total),
        )

    def _others(self) -> Iterator[Change]:
        memory = self.case.world.observation.memory
        ours = sum(i.committed or 0 for i in self.case.world.observation.instances)
        taken = (memory.total or 0) - (memory.available or 0) - ours
        return self._least(lambda n: Change(ChangeKind.OTHERS, bytes=n * STEP), max(0, taken) // STEP)

    def _context(self) -> Iterator[Change]:
        """Yield less of this model first, then of those that hold memory or that the manifest keeps it for."""
        others = [r for r in self.rows if r is not self.row and (r.instance is not None or r.pinned)]
        others.sort(key=lambda r: (-spare(r), r.name))
        for row in [r for r in (self.row,) if r is not None] + others[:OTHERS_ASKED]:
            yield from self._less_of(row)

    def _less_of(self, row: Row) -> Iterator[Change]:
        return self._least(lambda n: less(row, n), most(row), units(row, self.guess * STEP))

    def _release(self) -> Iterator[Change]:
        held = [r.name for r in self.rows if r.demand.held]
        return self._first(Change(ChangeKind.RELEASE, name) for name in held)

    def _unpin(self) -> Iterator[Change]:
        pinned = [r for r in self.rows if r.pinned and r is not self.row]
        pinned.sort(key=lambda r: (r.spec.priority, r.charge or r.size or 0, r.name))
        return self._first(Change(ChangeKind.UNPIN, r.name) for r in pinned)


def less(row: Row, count: int) -> Change:
    """Return the change to `count` units less context of a model."""
    fewer, left = tokens(row, count)
    return Change(ChangeKind.CONTEXT, row.name, bytes=count * unit(row).bytes, tokens=fewer, tokens_left=left)
