"""The memory budget of a manifest: what every model takes, what there is, and what fits together."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from reconciler.core import book
from reconciler.core.diff import Row, compare
from reconciler.core.memory import Estimate
from reconciler.core.plan import plan
from reconciler.core.shares import Files
from reconciler.core.types import Account, Instance, Manifest, Observation, Preflight, Residency, World
from reconciler.render.budget_bar import bar
from reconciler.render.budget_fit import beside, bytes_of, most_of, never, sum_once, together, two_largest
from reconciler.render.budget_shapes import (
    BudgetDocument,
    BudgetMachineDocument,
    BudgetModelDocument,
    BudgetState,
    PartsDocument,
    SeenBy,
    TotalsDocument,
)
from reconciler.render.memory_document import breakdown_document
from reconciler.render.plan_document import as_json, git_document
from reconciler.render.shapes import OriginDocument

if TYPE_CHECKING:
    from reconciler.board import Snapshot
    from reconciler.manifest.applied import Source


def budget_json(snapshot: "Snapshot") -> dict[str, Any]:
    """Return the document of `schemas/budget.v1.json` for what a running loop sees."""
    applied = snapshot.applied
    return as_json(budget(applied.manifest, snapshot.world, applied.source, "loop"))


def budget(manifest: Manifest, world: World, source: "Source", seen_by: SeenBy) -> BudgetDocument:
    """Return the budget of a manifest in a world; `source` names the manifest for people. Bytes, None = unknown."""
    seen = world.observation
    table = compare(manifest, world, seen.at)
    account = plan(manifest, world, seen.at).account
    models = [_model(row) for row in table.rows] + [_stray(s) for s in table.strays]
    stay = (Residency.PINNED, Residency.WARM)
    return BudgetDocument(
        seen_by=seen_by,
        manifest=OriginDocument(source.path, manifest.generation, git_document(source)),
        machine=_machine(manifest, seen, account),
        models=tuple(sorted(models, key=lambda m: (m.name, m.residency is None))),
        totals=_totals(table.rows, models),
        bar=bar(table, account, book.total(manifest, seen.memory), book.reserve(manifest, seen.memory)),
        pinned=together([r for r in table.rows if r.pinned], account.budget),
        pinned_and_warm=together([r for r in table.rows if r.spec.residency in stay], account.budget),
        all=together(table.rows, account.budget),
        two_largest=two_largest(table.rows, account.budget),
        beside=tuple(beside(row, table, account.free) for row in table.rows if _could_come(row)),
        never=never(table, account.budget, seen.at),
    )


def _could_come(row: Row) -> bool:
    startable = row.preflight is None or row.preflight.reason is None
    return row.instance is None and row.need is not None and startable


def _model(row: Row) -> BudgetModelDocument:
    return BudgetModelDocument(
        name=row.name,
        state=_state(row.instance) if row.sleeper is None else "asleep",
        residency=row.spec.residency.value,
        priority=row.spec.priority,
        stated=row.spec.steady,
        hint=_hint(row.preflight, row.size),
        notes=row.preflight.notes if row.preflight is not None else (),
        bytes=_bytes(row),
    )


def _bytes(row: Row) -> PartsDocument:
    parts = _parts(row)
    ready = row.instance is not None and row.instance.ready
    return PartsDocument(
        weights=parts.weights,
        context=parts.context,
        overhead=None if parts.compute is None else parts.compute + parts.cache + parts.overhead,
        peak=row.need,
        measured=_measured(row)[0],
        charged=row.charge if ready else row.size,
    )


def _parts(row: Row) -> Estimate:
    parts = row.preflight.parts if row.preflight is not None else None
    if parts is None:
        return Estimate()
    said = row.entry.said if row.entry is not None else None
    return parts if said is None else book.corrected(parts, said)


def _measured(row: Row) -> tuple[int | None, Files]:
    """Return the most that was measured, and the mapped files among it: those that are resident, if it is held now."""
    peak = row.entry.peak if row.entry is not None else 0
    expected = row.preflight.files if row.preflight is not None else ()
    if row.instance is None or row.instance.digest != row.spec.digest:
        return peak or None, expected
    now = book.held(row.instance)
    if now is not None and now >= peak:
        return now, row.instance.files
    return peak or now, expected or row.instance.files


def _hint(preflight: Preflight | None, size: int | None) -> str:
    """Return what to write where the size is unknown, else why the model could not be started."""
    if preflight is not None and preflight.reason is not None:
        return f"{preflight.reason}: {preflight.message}"
    if size is not None:
        return ""
    return (preflight.message if preflight is not None else "") or "give memory.steady"


def _state(instance: Instance | None) -> BudgetState:
    if instance is None:
        return "cold"
    if instance.broken:
        return "broken"
    if instance.asleep:
        return "asleep"
    return "ready" if instance.ready else "loading"


def _stray(instance: Instance) -> BudgetModelDocument:
    """Return a process that no model of the manifest accounts for: it has the memory until it is gone."""
    charged, held = book.stray_charge(instance), book.held(instance)
    return BudgetModelDocument(
        name=instance.model,
        state=_state(instance),
        residency=None,
        priority=None,
        stated=None,
        hint="",
        notes=(),
        bytes=PartsDocument(None, None, None, peak=None, measured=held, charged=charged),
    )


def _totals(rows: Sequence[Row], models: Iterable[BudgetModelDocument]) -> TotalsDocument:
    named = [m.bytes for m in models if m.residency is not None]
    kinds = ("weights", "context", "overhead", "measured")
    sums = {kind: sum(getattr(b, kind) or 0 for b in named) for kind in ("context", "overhead")}
    sums["weights"] = sum_once(
        (_parts(row).weights, row.preflight.files if row.preflight else ()) for row in rows
    )
    sums["measured"] = sum_once(_measured(row) for row in rows)
    lacking = [k for k in (*kinds, "peak", "charged") if any(getattr(b, k) is None for b in named)]
    return TotalsDocument(
        PartsDocument(**sums, peak=most_of(rows), charged=bytes_of(rows)), incomplete=tuple(sorted(lacking))
    )


def _machine(manifest: Manifest, seen: Observation, account: Account) -> BudgetMachineDocument:
    memory = seen.memory
    whole = memory.total
    marks = _marks(manifest, whole)
    host = breakdown_document(seen)
    return BudgetMachineDocument(
        share=book.total(manifest, memory),
        stated=manifest.memory,
        reserve=book.reserve(manifest, memory),
        budget=account.budget,
        held=account.held,
        reserved=account.reserved,
        headroom=account.free,
        total=whole,
        limited=host is not None and whole is not None and whole < host.total,
        available=memory.available,
        soft=marks.get("soft"),
        hard=marks.get("hard"),
        critical=marks.get("critical"),
        target=marks.get("target"),
        gpu=memory.gpu.ceiling if memory.gpu is not None else None,
        host=host,
        source=memory.source,
        problems=memory.problems,
    )


def _marks(manifest: Manifest, whole: int | None) -> dict[str, int]:
    """Return the watermarks by name, as bytes in use of the whole; none where there are none."""
    marks = manifest.watermarks
    if marks is None or whole is None:
        return {}
    shares = {"soft": marks.soft, "hard": marks.hard, "critical": marks.critical, "target": marks.target}
    return {name: int(whole * share) for name, share in shares.items()}
