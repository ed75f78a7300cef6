"""Which models fit together. A file that several map is in memory once; they load one at a time."""

from collections.abc import Iterable, Sequence

from reconciler.core import book
from reconciler.core.diff import Row, Table
from reconciler.core.reach import Pinned
from reconciler.core.shares import Files, Shares, own, within
from reconciler.render.budget_shapes import FitDocument


def together(rows: Sequence[Row], budget: int | None) -> FitDocument:
    """Return whether these models can be loaded at the same time, whichever of them comes last.

    The last one's load peak is needed while all the others are there already, so the need in bytes is the sum of the
    sizes and the largest difference between a peak and a size.
    """
    unknown = tuple(row.name for row in rows if row.size is None)
    need = None if unknown else most_of(rows)
    return _fit(tuple(row.name for row in rows), need, budget, unknown)


def beside(row: Row, table: Table, headroom: int | None) -> FitDocument:
    """Return whether a cold model can be loaded into `headroom` bytes, beside everything that runs, and sleeps.

    What its own process holds in its sleep is not needed again.
    """
    holders = [r.held_files for r in table.rows if r.instance] + [s.files for s in table.strays]
    holders += [r.sleeper.held_files for r in table.rows if r.sleeper is not None]
    shares = Shares()
    for files in holders:
        shares.hold(files)
    has = row.sleeper.own_charge if row.sleeper is not None else 0
    need = None if row.need is None else max(0, own(row.need, row.files) - has) + shares.hold(row.files)
    return _fit((row.name,), need, headroom, () if need is not None else (row.name,))


def never(table: Table, budget: int | None, now: float) -> tuple[FitDocument, ...]:
    """Return the models for which there could never be room, as a plan would say of them."""
    reach = Pinned(table, budget, now)
    cold = (r for r in table.rows if r.need is not None and r.instance is None)
    lacking = ((r.name, reach.short(r)) for r in cold if r.preflight is None or r.preflight.reason is None)
    return tuple(
        FitDocument((name,), fits=False, need=short + (budget or 0), short=short, unknown=())
        for name, short in lacking
        if short > 0
    )


def two_largest(rows: Iterable[Row], budget: int | None) -> FitDocument | None:
    """Return whether the two models that need most can be loaded together, or None with fewer than two."""
    known = sorted((r for r in rows if r.size is not None), key=lambda r: (-(r.size or 0), r.name))
    return together(sorted(known[:2], key=lambda r: r.name), budget) if len(known) > 1 else None


def bytes_of(rows: Iterable[Row]) -> int:
    """Return the bytes models are charged together; unknown counts 0, a shared file once."""
    return sum_once((_size(row), _files(row)) for row in rows)


def sum_once(parts: Iterable[tuple[int | None, Files]]) -> int:
    """Return the sum of some bytes, each with the mapped files among them, of which each counts once; None counts 0."""
    shares, total = Shares(), 0
    for size, files in parts:
        among = within(files, size or 0)
        total += own(size or 0, among) + shares.hold(among)
    return total


def most_of(rows: Sequence[Row]) -> int:
    """Return the bytes models need together while the last of them loads; unknown counts 0."""
    return bytes_of(rows) + max((_extra(row) for row in rows), default=0)


def _size(row: Row) -> int | None:
    """Return what a model is charged; a running one that outgrew its size is charged what it holds."""
    if row.instance is None or row.instance.digest != row.spec.digest:
        return row.size
    held = book.charge(row.instance, row.size)
    # What it holds cannot be read: it takes its size at least.
    return row.size if held is None else held


def _files(row: Row) -> Files:
    """Return the mapped files among that."""
    if row.instance is None or row.instance.digest != row.spec.digest:
        return row.files
    return row.held_files or row.files


def _extra(row: Row) -> int:
    return max(0, (row.need or 0) - (row.size or 0))


def _fit(
    models: tuple[str, ...], need: int | None, room: int | None, unknown: tuple[str, ...]
) -> FitDocument:
    short = None if need is None or room is None else max(0, need - room)
    return FitDocument(models, None if short is None else short == 0, need, short, unknown)
