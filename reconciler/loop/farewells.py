"""Evictions, from their begin until their model is wanted again: what is written down of them, and what is rued."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from reconciler.core.regrets import CHOSEN, WINDOW, Gone, Regret, awaited, circles, regret, rued
from reconciler.core.types import Demand, Evict, Observation, Reason
from reconciler.counts import Counts
from reconciler.loop.keeper import Keeper
from reconciler.store import AsyncStore, EvictionRecord

#: Evictions that wait to be written; the oldest are lost where the disk stays full.
UNWRITTEN = 200


@dataclass(slots=True)
class _Farewell:
    """One eviction. `began` is monotonic seconds; `id` is 0 until it is written, `noted` = with all that is known."""

    record: EvictionRecord
    began: float
    id: int = 0
    noted: bool = False

    def wanted(self, at: float) -> bool:
        """Note that its model is wanted; return whether that makes it one too many."""
        if self.record.wanted_after is not None:
            return False
        self.record = replace(self.record, wanted_after=max(0.0, at - self.began))
        self.noted = False
        return self.rued

    @property
    def rued(self) -> bool:
        return rued(Reason(self.record.reason), self.record.wanted_after)


class Farewells:
    """Follows evictions. Of each model only the newest one that was not called off is waited for."""

    def __init__(self, store: AsyncStore, keeper: Keeper, counts: Counts) -> None:
        self._store, self._keeper, self._counts = store, keeper, counts
        self._going: _Farewell | None = None
        self._last: dict[str, _Farewell] = {}
        self._unwritten: list[_Farewell] = []
        #: What was chosen to go in the last hour, oldest first.
        self._chosen: list[_Farewell] = []

    def restore(
        self, last: Iterable[EvictionRecord], recent: Iterable[EvictionRecord], wall: float, now: float
    ) -> None:
        """Go on where an earlier run ended. `wall` is the wall-clock time of `now`."""
        known = {}
        for record in (*recent, *last):
            began = now - max(0.0, wall - record.at)
            known[record.id] = _Farewell(record, began, record.id, noted=True)
        self._last = {r.model: known[r.id] for r in last}
        self._chosen = [known[r.id] for r in recent if r.outcome != "given-up"]

    def begun(self, step: Evict, seen: Observation | None, wall: float, now: float) -> None:
        """Note that an eviction was begun in the world that was `seen`."""
        record = _record(step, seen, wall, now)
        self._going = _Farewell(record, now)
        if seen is not None and awaited(seen.demands, step.model):
            self._going.wanted(now)

    def ended(self, step: Evict, outcome: str, seconds: float) -> None:
        """Note how the eviction went that was begun last: `gone`, `asleep` or `given-up`."""
        going, self._going = self._going, None
        if going is None or going.record.model != step.model:
            return
        called_off = outcome == "given-up"
        wanted = None if called_off else going.record.wanted_after
        going.record = replace(going.record, outcome=outcome, seconds=seconds, wanted_after=wanted)
        self._unwritten = [*self._unwritten, going][-UNWRITTEN:]
        if called_off:
            return
        self._last[step.model] = going
        if going.rued:
            self._counts.regretted(step.model)
        if step.reason in CHOSEN:
            self._chosen.append(going)

    def wanted(self, model: str, at: float) -> None:
        """Note that somebody wants a model. Monotonic seconds; before its eviction began they mean nothing."""
        going = self._going
        if going is not None and going.record.model == model and at >= going.began:
            going.wanted(at)
        last = self._last.get(model)
        if last is not None and at >= last.began and last.wanted(at):
            self._counts.regretted(model)

    def asked(self, demands: Iterable[Demand], now: float) -> None:
        """Note who is wanted although no request came: somebody holds it, or a person asked for it."""
        for demand in demands:
            if demand.waiting or demand.wanted:
                self.wanted(demand.model, now if demand.oldest is None else demand.oldest)

    def regrets(self, now: float) -> tuple[Regret, ...]:
        """Return what is to be told of models that were wanted again at once, sorted by name."""
        self._chosen = [f for f in self._chosen if f.began > now - WINDOW]
        gone: dict[str, list[Gone]] = {}
        for farewell in self._chosen:
            record = farewell.record
            gone.setdefault(record.model, []).append(
                Gone(Reason(record.reason), record.for_model, farewell.began, record.wanted_after)
            )
        found = (regret(model, one, now) for model, one in sorted(gone.items()))
        return tuple(r for r in found if r is not None)

    def circles(self) -> tuple[tuple[str, ...], ...]:
        """Return the groups of models that went for each other and were wanted again at once."""
        return circles((f.record.model, f.record.for_model) for f in self._chosen if f.rued)

    def forgive(self, group: Iterable[str]) -> None:
        """Tell nothing any more of the evictions of these models for each other."""
        names = set(group)
        self._chosen = [f for f in self._chosen if not names >= {f.record.model, f.record.for_model}]

    async def write(self) -> None:
        """Write what is not written yet; what cannot be is tried again at the next call."""
        while self._unwritten:
            if not await self._keeper.keep(self._append(self._unwritten[0])):
                return
            del self._unwritten[0]
        for _, last in sorted(self._last.items()):
            seconds = last.record.wanted_after
            if last.id and not last.noted and seconds is not None:
                last.noted = await self._keeper.keep(self._store.wanted_again(last.id, seconds))

    async def _append(self, farewell: _Farewell) -> None:
        written = farewell.record
        farewell.id = await self._store.add_eviction(written)
        farewell.noted = farewell.record is written


def _demand(seen: Observation | None, model: str) -> Demand:
    demands = seen.demands if seen is not None else ()
    return next((d for d in demands if d.model == model), Demand(model))


def _record(step: Evict, seen: Observation | None, wall: float, now: float) -> EvictionRecord:
    instances = seen.instances if seen is not None else ()
    known = next((i for i in instances if (i.pid, i.started) == (step.pid, step.started)), None)
    used_at = max(known.last_used if known is not None else step.last_used, step.last_used)
    quiet = known is not None and not _demand(seen, step.model).in_use
    pressure = seen.pressure if seen is not None else None
    return EvictionRecord(
        id=0,
        at=wall,
        model=step.model,
        reason=str(step.reason),
        for_model=step.for_model or "",
        frees=step.frees,
        used=pressure.used if pressure is not None else None,
        pressure=(pressure.level.name if pressure is not None else "calm").lower(),
        seconds=0.0,
        resident=max(0.0, now - known.loaded_at) if known is not None else 0.0,
        idle=max(0.0, now - used_at) if quiet else 0.0,
        wanted_after=None,
        outcome="",
    )
