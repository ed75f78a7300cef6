"""The plan: ordered steps, of which only the head is ever performed, and a verdict with a reason for every model."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from reconciler.core import book, crashes
from reconciler.core.changes import next_change
from reconciler.core.crashes import FailureKind
from reconciler.core.details import evict_detail, load_detail, serves_on, use
from reconciler.core.diff import Row, Table, compare
from reconciler.core.leaving import rests_until, stays_for
from reconciler.core.patience import patience
from reconciler.core.select import select
from reconciler.core.selection import Block, Coming, Going, Selection
from reconciler.core.sleeping import asleep_text, may_sleep
from reconciler.core.types import (
    Account,
    Demand,
    Evict,
    Load,
    Manifest,
    Outcome,
    Plan,
    Reason,
    Step,
    Verdict,
    World,
)
from reconciler.core.words import size as size_text
from reconciler.core.words import span

#: Reasons for which a model waits that has failed.
_AFTER_FAILURES: Final = frozenset({Reason.BACKING_OFF, Reason.GIVEN_UP})


def plan(manifest: Manifest, world: World, now: float) -> Plan:
    """Return what should be done, in order, and what becomes of every model. Same input, same plan.

    Nothing is remembered between two calls: performing the head and planning again gives the rest of this plan, if
    the world did as it was told.
    """
    table = compare(manifest, world, now)
    selection = select(manifest, world, table, now)
    steps = tuple(_steps(selection, now))
    return Plan(
        generation=manifest.generation,
        seq=world.observation.seq,
        account=_account(manifest, world, selection),
        steps=steps,
        verdicts=tuple(_verdicts(table, selection, steps, now)),
        changes_at=next_change(table, selection, manifest, world, now),
    )


def _account(manifest: Manifest, world: World, selection: Selection) -> Account:
    free = None if selection.free is None else max(0, selection.free)
    budget = book.budget(manifest, world.observation.memory)
    return Account(budget, selection.held, selection.reserved, free)


def _steps(selection: Selection, now: float) -> Iterator[Step]:
    """Yield relief first, then each load behind those that leave for it, then those that leave for nobody."""
    free = selection.free or 0
    for going in selection.relief:
        free += going.charge
        yield _evict(going, free, now, selection.shortage)
    for coming in selection.coming:
        for going in coming.before:
            free += going.charge
            yield _evict(going, free, now)
        free -= coming.keeps
        yield _load(coming, free, now)
    for going in selection.leftovers:
        free += going.charge
        yield _evict(going, free, now)


def _evict(going: Going, free: int, now: float, shortage: str = "") -> Evict:
    instance, claimant = going.instance, going.claimant
    return Evict(
        model=instance.model,
        pid=instance.pid,
        started=instance.started,
        frees=going.charge,
        reason=going.reason,
        for_model=claimant.name if claimant else None,
        drain=going.busy,
        sleep=may_sleep(going, now),
        last_used=instance.last_used,
        detail=evict_detail(going, now, shortage),
        free=max(0, free),
    )


def _load(coming: Coming, free: int, now: float) -> Load:
    row, woken = coming.row, coming.wakes
    return Load(
        row.name,
        row.spec.digest,
        coming.need,
        coming.reason,
        load_detail(coming, now),
        free,
        size=coming.need if row.size is None else row.size,
        pid=woken.pid if woken is not None else None,
        started=woken.started if woken is not None else None,
        holds=(book.held(woken) or 0) if woken is not None else 0,
    )


def _verdicts(table: Table, selection: Selection, steps: tuple[Step, ...], now: float) -> Iterator[Verdict]:
    loads = {s.model: s for s in steps if isinstance(s, Load)}
    evicts = {s.model: s for s in steps if isinstance(s, Evict)}
    named = set()
    out = []
    for row in table.rows:
        named.add(row.name)
        out.append(
            _noted(_verdict(row, loads.get(row.name), evicts.get(row.name), selection, now), row.demand)
        )
    for stray in table.strays:
        if stray.model not in named:
            named.add(stray.model)
            reason, detail = Reason.REMOVED, "not in the manifest"
            out.append(Verdict(stray.model, Outcome.EVICT, reason, book.stray_charge(stray), detail))
    yield from sorted(out, key=lambda v: v.model)


def _noted(verdict: Verdict, demand: Demand) -> Verdict:
    """Add who is not there now, but comes back."""
    if not demand.away:
        return verdict
    waits = "request waits" if len(demand.away) == 1 else "requests wait"
    note = f"{len(demand.away)} {waits} for a summary by {' and by '.join(sorted(set(demand.away)))}"
    return replace(verdict, detail=f"{verdict.detail}; {note}" if verdict.detail else note)


def _verdict(row: Row, load: Load | None, evict: Evict | None, selection: Selection, now: float) -> Verdict:
    block = selection.blocked.get(row.name)
    if load is not None:
        outcome = Outcome.RELOAD if evict is not None else Outcome.LOAD
        reason, detail = (evict.reason, evict.detail) if evict is not None else (load.reason, load.detail)
        return Verdict(row.name, outcome, reason, row.size, detail)
    if evict is not None and evict.reason not in (Reason.DUPLICATE, Reason.CRASHED):
        detail = f"for {evict.for_model}: {evict.detail}" if evict.for_model else evict.detail
        charge = row.charge if row.sleeper is None else row.sleeper.charge
        if evict.reason is Reason.HUNG:  # a row without a process: it is on its own already
            charge = evict.frees
        return Verdict(row.name, Outcome.EVICT, evict.reason, charge, detail)
    if block is not None:
        return _blocked(row, block, now, selection)
    if row.instance is not None:
        return Verdict(row.name, Outcome.KEEP, *_kept(row, now))
    if row.demand.dismissed:
        text = "evicted by hand: it stays out until a request or `reconcile load` asks for it"
        return Verdict(row.name, Outcome.COLD, Reason.DISMISSED, row.size, text)
    hopeless = selection.hopeless.get(row.name)
    if hopeless is not None:
        return replace(_blocked(row, hopeless, now, selection), outcome=Outcome.COLD)
    asleep = asleep_text(row)
    text = f"{asleep}: wakes when a request asks for it" if asleep else "loads when a request asks for it"
    return Verdict(row.name, Outcome.COLD, Reason.NOT_WANTED, row.size, text)


def _kept(row: Row, now: float) -> tuple[Reason, int | None, str]:
    instance = row.instance
    assert instance is not None, f"{row.name} does not run"
    if not instance.ready:
        return Reason.LOADING, row.charge, "being loaded"
    if row.demand.in_use:
        return Reason.IN_USE, row.charge, use(row.demand) + _only_once(row)
    idle = f"idle {span(max(0.0, now - instance.last_used))}" + _only_once(row)
    if row.pinned:
        return Reason.PINNED, row.charge, idle
    return (Reason.WARM if row.wanted else Reason.RESIDENT), row.charge, idle


def _only_once(row: Row) -> str:
    """Say so of a model that runs, and could not be started again once it has gone."""
    if row.preflight is None or row.preflight.reason is None:
        return ""
    return f"; could not be started again: {row.preflight.message or row.preflight.reason}"


def _blocked(row: Row, block: Block, now: float, selection: Selection) -> Verdict:
    """A model that is wanted and stays out: `!`, or `.` for one that merely would be loaded if there were room."""
    mild = block.reason in (Reason.MEMORY_PRESSURE, Reason.RESTING)
    would = block.reason is Reason.NO_ROOM or (mild and not row.demanded)
    outcome = Outcome.COLD if would and row.instance is None else Outcome.BLOCKED
    retry_in = None
    if block.reason in _AFTER_FAILURES and row.entry is not None and row.entry.retry_at is not None:
        retry_in = row.entry.retry_at - now
    elif block.reason is Reason.RESTING:
        retry_in = (rests_until(row, now) or now) - now
    elif block.reason is Reason.VICTIMS_KEPT and block.stay is not None:
        retry_in = None if block.stay.until is None else block.stay.until - now
    detail = _block_detail(row, block, retry_in, selection)
    if row.instance is not None:
        detail += f"; {serves_on(row)}"
    elif asleep := asleep_text(row):
        detail += f"; {asleep}"
    return Verdict(row.name, outcome, block.reason, row.need, detail, retry_in)


def _size_hint(row: Row) -> str:
    stated = row.preflight.message if row.preflight is not None else ""
    return stated or "give memory.steady"


def _once(row: Row) -> str:
    """Say so where a model is charged what it once held, and that can be taken back."""
    if row.entry is not None and row.size == row.entry.raised:
        over = row.entry.kind is FailureKind.OVER_LIMIT
        what = "it took all that its limits.memory allows" if over else "it ran out of memory with less"
        return f"; {what}: `reconcile forget {row.name}` if that had another reason"
    peak = row.entry.peak if row.entry is not None else 0
    unmeasured = book.size(row.spec, row.preflight, None)
    if unmeasured is None or peak <= unmeasured or row.size != peak:
        return ""
    return (
        f"; it once held {size_text(peak)}, {size_text(unmeasured)} is what is stated or estimated:"
        f" `reconcile forget {row.name}` if that was an accident"
    )


def _rest_held(block: Block) -> str:
    """Say who holds the room that a model lacks whoever makes way: what is loaded before it has it as good as now."""
    names = [*block.behind, f"{block.further} more"] if block.further else block.behind
    first = f"{_listed(names)} {'is' if len(names) == 1 else 'are'} loaded first"
    if block.enough:
        return first
    others = "pinned models and other programs hold the rest"
    return f"{others}, and {first}" if block.behind else others


def _kept_text(victim: Row, row: Row, retry_in: float | None) -> str:
    """Say for whom a model waits that was loaded a moment ago, and until when."""
    if retry_in is None or victim.instance is None:
        again = f"`reconcile load {row.name}` again to have it instead"
        return f"and {victim.name} was loaded after somebody asked for this one: {again}"
    key, seconds = stays_for(victim.spec, victim.instance)
    return (
        f"until {victim.name} has been in memory for its {key} of {span(seconds)}, another {span(retry_in)}"
    )


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def _block_detail(row: Row, block: Block, retry_in: float | None, selection: Selection) -> str:
    if block.reason is Reason.NOT_STARTABLE and row.preflight is not None:
        if row.preflight.reason is None:
            return f"{row.preflight.ports_held}: widen machine.ports, for pinned models keep theirs"
        return row.preflight.message or str(row.preflight.reason)
    if block.reason is Reason.NO_PORT and row.preflight is not None:
        return f"{row.preflight.ports_held}: widen machine.ports, or evict one of them"
    if block.reason is Reason.GIVEN_UP and row.entry is not None and row.entry.kind is not None:
        until = crashes.given_up_text(row.entry.kind, row.entry.failures, retry_in or 0.0)
        helps = crashes.remedy(row.entry.kind, row.name)
        return f"{book.mishap(row.entry)} ({row.entry.kind}), {until}: {book.cause(row.entry)}; what helps: {helps}"
    if block.reason is Reason.BACKING_OFF and row.entry is not None:
        return f"{book.mishap(row.entry)}, tries again in {span(retry_in or 0.0)}: {book.cause(row.entry)}"
    short = f"{size_text(block.short)} short" if block.short else "room is kept for a request that waits"
    if block.reason is Reason.VICTIMS_KEPT and block.stay is not None:
        return f"{short} {_kept_text(block.stay.victim, row, retry_in)}"
    if block.held:
        return f"{short} until the lease on {' and on '.join(block.held)} ends"
    texts = {
        Reason.SIZE_UNKNOWN: f"its size is unknown: {_size_hint(row)}",
        Reason.MEMORY_UNKNOWN: "the machine's memory could not be read",
        Reason.NEVER_FITS: f"can never fit: {short} even with every other model gone that is not pinned{_once(row)}",
        Reason.NO_ROOM: short,
        Reason.VICTIMS_BUSY: f"{short} until a model it may displace is idle, or {span(patience(row))} have passed",
        Reason.RESTING: f"it was unloaded a moment ago, and is not loaded again for another {span(retry_in or 0.0)}",
        Reason.OUTRANKED: f"{short}: it may not displace enough of {selection.holders or 'what holds the memory'}",
        Reason.MEMORY_PRESSURE: f"memory is short: {selection.shortage}",
        Reason.INSUFFICIENT_MEMORY: f"{short}: {_rest_held(block)}",
    }
    return texts.get(block.reason, short)
