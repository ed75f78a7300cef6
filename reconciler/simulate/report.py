"""Simulations as the document that people and programs read."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reconciler.core.types import Reason
from reconciler.render.simulate_shapes import (
    AgainstDocument,
    ClientRunDocument,
    FigureDocument,
    ModelRunDocument,
    NotLoadedDocument,
    PrewarmsDocument,
    RunDocument,
    SimulateDocument,
    SpeedDocument,
    TraceDocument,
    WaitsDocument,
)
from reconciler.simulate.adviser import Adviser
from reconciler.simulate.layout import Layout, Speed
from reconciler.simulate.result import Action, Result, Waits
from reconciler.simulate.rivals import rivals


@dataclass(frozen=True, slots=True)
class Run:
    """One simulation: what was simulated, and what came of it."""

    #: Path of the manifest.
    manifest: str
    layout: Layout
    result: Result


def report(
    trace: TraceDocument, machine: str | None, runs: Sequence[Run], *, clients: bool
) -> SimulateDocument:
    """Return the document of all runs; the first is what the others are compared with. `clients`: name them too."""
    base = runs[0].result
    # Neither the policy nor what is loaded in advance changes what fits together.
    advisers = {run.manifest: Adviser(run.layout, described=machine is not None) for run in runs}
    made = tuple(
        _run(run, clients, advisers[run.manifest], _against(run.result, base) if number else None)
        for number, run in enumerate(runs)
    )
    return SimulateDocument(trace, machine, made)


def _run(run: Run, clients: bool, adviser: Adviser, against: AgainstDocument | None) -> RunDocument:
    result, manifest = run.result, run.layout.manifest
    evictions = Counter(a.reason.value for a in result.actions if a.kind == "evict" and not a.aborted)
    acted = result.load_seconds + result.evict_seconds
    return RunDocument(
        name=result.name,
        manifest=run.manifest,
        policy=manifest.policy.value,
        prewarm=manifest.prewarm.value,
        began=result.began,
        ended=result.ended,
        budget=result.budget,
        held_mean=result.held_mean,
        held_most=result.held_most,
        waits=_waits(result.total),
        loads=result.loads,
        load_seconds=result.load_seconds,
        evict_seconds=result.evict_seconds,
        slot_share=_share(acted, result.ended - result.began),
        evictions=dict(sorted(evictions.items())),
        not_loaded=_not_loaded(result, adviser),
        regrets=result.regrets,
        prewarms=_prewarms(result.actions),
        rivals=rivals(adviser, result),
        models=tuple(_model(name, result, run.layout.speeds.get(name)) for name in sorted(result.sizes)),
        clients=_clients(result.clients) if clients else None,
        against=against,
    )


def _waits(waits: Waits) -> WaitsDocument:
    return WaitsDocument(
        requests=waits.requests,
        served=waits.served,
        refused=dict(sorted(waits.refused.items())),
        cold=waits.cold,
        cold_share=_share(waits.cold, waits.requests),
        cold_seconds=waits.cold_seconds,
        wait_seconds=waits.wait_seconds,
        p50=waits.p50,
        p95=waits.p95,
        longest=waits.longest,
        busy_seconds=waits.busy_seconds,
    )


def _not_loaded(result: Result, adviser: Adviser) -> tuple[NotLoadedDocument, ...]:
    """Return the models that could never be loaded, those that most were asked for first."""
    found = (
        NotLoadedDocument(
            model=name,
            requests=result.models.get(name, Waits()).requests,
            reason=verdict.reason.value,
            detail=verdict.detail,
            fix=adviser.fix(verdict),
        )
        for name, verdict in result.barred.items()
    )
    return tuple(sorted(found, key=lambda n: (-n.requests, n.model)))


def _prewarms(actions: Sequence[Action]) -> PrewarmsDocument:
    begun = [a for a in actions if a.kind == "load" and a.reason is Reason.PREWARM]
    aborted = sum(a.aborted for a in begun)
    used = sum(a.used_after is not None and not a.aborted for a in begun)
    finished = len(begun) - aborted
    waited_for = sum(a.kind == "load" and a.reason is Reason.DEMANDED and not a.aborted for a in actions)
    return PrewarmsDocument(
        begun=len(begun),
        used=used,
        in_vain=finished - used,
        aborted=aborted,
        precision=used / finished if finished else None,
        recall=used / (used + waited_for) if used + waited_for else None,
    )


def _model(name: str, result: Result, speed: Speed | None) -> ModelRunDocument:
    own = [a for a in result.actions if a.model == name]
    loads = [a for a in own if a.kind == "load"]
    evictions = [a for a in own if a.kind == "evict" and not a.aborted]
    resident = sum(until - since for since, until in result.residency.get(name, ()))
    return ModelRunDocument(
        name=name,
        size=result.sizes.get(name),
        speed=None if speed is None else _speed(speed),
        waits=_waits(result.models.get(name, Waits())),
        loads=sum(not a.aborted for a in loads),
        load_seconds=sum(a.ended - a.began for a in loads),
        evictions=len(evictions),
        regrets=sum(a.regretted for a in own),
        prewarms=sum(a.reason is Reason.PREWARM for a in loads),
        resident_seconds=resident,
        resident_share=_share(resident, result.ended - result.began),
    )


def _speed(speed: Speed) -> SpeedDocument:
    whence = speed.origins
    return SpeedDocument(
        load=FigureDocument(speed.load, whence.load.value),
        evict=FigureDocument(speed.evict, whence.evict.value),
        prompt=FigureDocument(speed.prompt, whence.prompt.value),
        output=FigureDocument(speed.output, whence.output.value),
        fixed=FigureDocument(speed.fixed, whence.fixed.value),
    )


def _clients(clients: Mapping[str, Waits]) -> tuple[ClientRunDocument, ...]:
    return tuple(ClientRunDocument(name, _waits(waits)) for name, waits in sorted(clients.items()))


def _against(result: Result, base: Result) -> AgainstDocument:
    return AgainstDocument(
        cold_seconds=_ratio(result.total.cold_seconds, base.total.cold_seconds),
        cold=_ratio(result.total.cold, base.total.cold),
        p50=_ratio(result.total.p50, base.total.p50),
        p95=_ratio(result.total.p95, base.total.p95),
        longest=_ratio(result.total.longest, base.total.longest),
        loads=_ratio(result.loads, base.loads),
        load_seconds=_ratio(result.load_seconds, base.load_seconds),
        regrets=_ratio(result.regrets, base.regrets),
    )


def _ratio(value: float, base: float) -> float | None:
    return value / base if base else None


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0
