"""Models that are used at once and can never stand in memory together: no rule of who gives way helps them."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Final

from reconciler.core import book
from reconciler.core.advice_cases import Case, changed
from reconciler.core.advice_changes import less
from reconciler.core.advice_sizes import STEP, most, smallest, spare, steps, units
from reconciler.core.advice_types import Change, ChangeKind, Rivalry
from reconciler.core.diff import Row, compare
from reconciler.core.reach import Pinned
from reconciler.core.swaps import WINDOW, recent, taking_turns
from reconciler.core.types import Instance, Manifest, ModelSpec, Residency, World

#: More of them than these are not told at once.
MOST: Final = 3
#: Groups of more models than this are not looked into: so many do not take turns by chance.
GROUP: Final = 12

Names = tuple[str, ...]


def rivals(manifest: Manifest, world: World, now: float, *, waiting: bool = False) -> tuple[Rivalry, ...]:
    """Return those who take turns in the memory and could never share it, the most often first; `MOST` at most.

    With `waiting` also those of whom one was in use in the last ten minutes while the other is waited for, before
    either has gone for the other.
    """
    groups = taking_turns(world.swaps, now)
    if not groups and not (waiting and any(d.waiting or d.wanted for d in world.observation.demands)):
        return ()
    case = Case(manifest, world, now)
    rows = {r.name: r for r in compare(manifest, world, now).rows if r.size is not None}
    swaps = recent(world.swaps, now)
    turns = Counter(tuple(sorted((s.victim, s.for_model))) for s in swaps)
    found: set[Names] = set()
    for group in groups:
        found.update(_apart(case, tuple(n for n in group if n in rows and not rows[n].pinned), turns))
    if waiting:
        found.update(_waiting(case, rows, now))
    ordered = sorted(found, key=lambda names: (-turns[names], names))
    return tuple(_rivalry(case, names, rows) for names in ordered[:MOST])


def rivalry(manifest: Manifest, world: World, now: float, names: Names) -> Rivalry | None:
    """Return what models lack that cannot stand together, each of which could alone, and what would let them.

    None = they can stand together, or one of them never stands at all, is pinned, or has a size that nobody knows.
    """
    case = Case(manifest, world, now)
    rows = {r.name: r for r in compare(manifest, world, now).rows if r.size is not None and not r.pinned}
    if not all(name in rows for name in names) or not _never(case, names):
        return None
    return _rivalry(case, names, rows)


def _apart(case: Case, group: Names, turns: Mapping[Names, int]) -> Iterator[Names]:
    """Yield the pairs of a group that went for each other and cannot stand together, else the fewest that cannot."""
    group = group[:GROUP]
    pairs = [pair for pair in combinations(group, 2) if pair in turns and _never(case, pair)]
    yield from pairs
    if pairs or len(group) < 3 or not _never(case, group):
        return
    for name in group:
        fewer = tuple(n for n in group if n != name)
        if len(fewer) > 1 and _never(case, fewer):
            group = fewer
    yield group


def _waiting(case: Case, rows: Mapping[str, Row], now: float) -> Iterator[Names]:
    """Yield the pairs of a model somebody waits for and one in memory that was used lately."""
    waits = [r for r in rows.values() if r.instance is None and (r.demand.waiting or r.demand.wanted)]
    used = [
        r
        for r in rows.values()
        if not r.pinned
        and r.instance is not None
        and (r.busy or (r.instance.served > 0 and now - r.instance.last_used < WINDOW))
    ]
    for one in (r for r in waits if not r.pinned):
        for other in used:
            pair = (min(one.name, other.name), max(one.name, other.name))
            if _never(case, pair):
                yield pair


def _never(case: Case, names: Names) -> bool:
    """Return whether models cannot stand together that could each stand alone, beside the pinned ones."""
    return lack(case, names) > 0 and all(lack(case, (name,)) <= 0 for name in names)


def lack(case: Case, names: Names) -> int:
    """Return the bytes that models lack to be loaded one after the other, with only the pinned ones there besides.

    They are loaded in the order that takes least room, and as if no other program held any memory: not above 0 = they
    can stand together.
    """
    manifest, seen = case.manifest, case.world.observation
    rows = {r.name: r for r in compare(manifest, case.world, case.now).rows}
    order = sorted(names, key=lambda n: ((rows[n].size or 0) - (rows[n].need or 0), n))
    budget = book.budget(manifest, seen.memory)
    there = tuple(_pinned_there(case, rows.values(), budget))
    worst = 0
    for count, name in enumerate(order):
        before = order[:count]
        specs = tuple(_pinned(m) if m.name in before else m for m in manifest.models)
        stand = (*there, *(_standing(rows[n]) for n in before))
        world = replace(case.world, observation=replace(seen, instances=stand))
        table = compare(replace(manifest, models=specs), world, case.now)
        row = next(r for r in table.rows if r.name == name)
        worst = max(worst, Pinned(table, budget, case.now).short(row))
    return worst


def _pinned_there(case: Case, rows: Iterable[Row], budget: int | None) -> Iterator[Instance]:
    """Yield the processes of the pinned models: those that run, and those that will."""
    reach = Pinned(compare(case.manifest, case.world, case.now), budget, case.now)
    for row in rows:
        if row.pinned and row.instance is not None:
            yield row.instance
        elif row.pinned and reach.short(row) <= 0:
            yield _standing(row)


def _pinned(spec: ModelSpec) -> ModelSpec:
    return replace(spec, residency=Residency.PINNED)


def _standing(row: Row) -> Instance:
    """Return the process that a model would have once it is loaded."""
    weights = row.preflight.weights if row.preflight is not None else ""
    digest, size = row.spec.digest, row.size or 0
    return Instance(row.name, digest, 0, 0, 0, True, size, 0, 0.0, 0.0, weights=weights)


def _rivalry(case: Case, names: Names, rows: Mapping[str, Row]) -> Rivalry:
    """Return what models lack that cannot stand together, and what would let them."""
    changes = tuple(_changes(case, names, rows))
    enough = any(change.kind is ChangeKind.CONTEXT for change in changes)
    return Rivalry(names, lack(case, names), changes, () if enough else _together(case, names, rows))


def _together(case: Case, names: Names, rows: Mapping[str, Row]) -> tuple[Change, ...]:
    """Return less context of each of them, in proportion to what it could do without; empty = that is not enough."""
    spares = {name: spare(rows[name]) for name in names if most(rows[name])}
    whole, wanted = sum(spares.values()), lack(case, names)
    if wanted > whole:
        return ()
    counts = {name: units(rows[name], -(-wanted * spared // whole)) for name, spared in spares.items()}
    changes = tuple(less(rows[name], min(count, most(rows[name]))) for name, count in counts.items())
    for change in changes:
        case = changed(case, change)
    return changes if lack(case, names) <= 0 else ()


def _changes(case: Case, names: Names, rows: Mapping[str, Row]) -> Iterator[Change]:
    """Yield less context of one of them, of whom can best do without it first; and more memory, if there is any."""
    lacking = lack(case, names)

    def fewest(make: Callable[[int], Change], limit: int, guess: int) -> int | None:
        return smallest(lambda n: lack(changed(case, make(n)), names) <= 0, limit, guess)

    found = []
    for name in names:
        row = rows[name]
        count = fewest(partial(less, row), most(row), units(row, lacking))
        if count is not None:
            found.append((count / most(row), less(row, count)))
    yield from (change for _, change in sorted(found, key=lambda f: (f[0], f[1].model or "")))
    stated, there = case.manifest.memory, case.world.observation.memory.total
    if stated is not None and there is not None and there > stated:
        more = fewest(_more, (there - stated) // STEP, steps(lacking))
        if more is not None:
            yield _more(more)


def _more(count: int) -> Change:
    return Change(ChangeKind.MEMORY, bytes=count * STEP)
