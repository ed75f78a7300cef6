"""The memory as one line of stretches: loaded and wanted models, what is free, what is not; each file counts once."""

from collections.abc import Iterable

from reconciler.core import book
from reconciler.core.diff import Row, Table
from reconciler.core.shares import Files, Shares, own, within
from reconciler.core.types import Account, Residency
from reconciler.render.budget_shapes import BarDocument, StretchDocument

#: (name, bytes charged, mapped files among them)
_Charge = tuple[str, int, Files]


def bar(table: Table, account: Account, total: int | None, reserve: int | None) -> BarDocument | None:
    """Return the stretches in bytes, or None where the machine's memory is unknown.

    The loaded models together are `held` and `reserved` of the account. What could be loaded beside them is its `free`:
    of that the models the manifest wants loaded from the start take theirs, and the rest is free.
    """
    if total is None or reserve is None:
        return None
    shares = Shares()
    loaded = _stretches(_loaded(table), shares)
    wanted = _stretches(_wanted(table.rows), shares)
    taken, more = (sum(stretch.bytes for stretch in part) for part in (loaded, wanted))
    unavailable = 0 if account.free is None else max(0, total - reserve - taken - account.free)
    left = total - reserve - taken - unavailable - more
    return BarDocument(
        models=tuple(sorted((*loaded, *wanted), key=lambda stretch: stretch.name)),
        free=max(0, left),
        unavailable=unavailable,
        reserve=reserve,
        over=max(0, -left),
    )


def _stretches(charges: Iterable[_Charge], shares: Shares) -> list[StretchDocument]:
    found = [StretchDocument(name, own(size, files) + shares.hold(files)) for name, size, files in charges]
    return [stretch for stretch in found if stretch.bytes]


def _loaded(table: Table) -> list[_Charge]:
    """Return what runs, in the order of the account: what is ready first, so that files count there."""
    running = [(r.instance.ready, r.name, r.charge, r.held_files) for r in table.rows if r.instance]
    sleeping = (r.sleeper for r in table.rows if r.sleeper is not None)
    running += [(True, r.name, r.charge, r.held_files) for r in sleeping]
    for stray in table.strays:
        charge = book.stray_charge(stray)
        running.append((True, stray.model, charge, within(stray.files, charge)))
    running.sort(key=lambda one: not one[0])
    return [(name, charge or 0, files) for _, name, charge, files in running]


def _wanted(rows: Iterable[Row]) -> list[_Charge]:
    stay = (Residency.PINNED, Residency.WARM)
    cold = (row for row in rows if row.instance is None and row.spec.residency in stay)
    return [(row.name, row.size, row.files) for row in cold if row.size is not None]
