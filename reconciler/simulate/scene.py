"""Simulations as the picture shows them, and as the log of what was decided."""

from collections.abc import Iterator, Sequence
from typing import Any

from reconciler.core.words import counted
from reconciler.render.simulate_figures import seconds
from reconciler.render.simulate_scene import Lane, Panel
from reconciler.simulate.result import Result


def panels(results: Sequence[Result]) -> list[Panel]:
    """Return one panel a run; a model has the same lane in all of them, also where it did nothing."""
    names = sorted({name for r in results for name in r.sizes})
    return [_panel(result, names) for result in results]


def _panel(result: Result, names: Sequence[str]) -> Panel:
    total = result.total
    told = (
        f"{counted(total.requests, 'request')}, {total.cold} waited for a load, {seconds(total.cold_seconds)}"
        f" together; wait 95 % {seconds(total.p95)}, longest {seconds(total.longest)};"
        f" {counted(result.loads, 'load')} in {seconds(result.load_seconds)}, {counted(result.regrets, 'regret')}"
    )
    lanes = tuple(_lane(name, result) for name in names)
    return Panel(result.name, told, result.began, result.ended, result.budget, lanes)


def _lane(name: str, result: Result) -> Lane:
    own = [a for a in result.actions if a.model == name]
    return Lane(
        name=name,
        size=result.sizes.get(name),
        resident=tuple(result.residency.get(name, ())),
        loading=tuple((a.began, a.ended) for a in own if a.kind == "load"),
        evicting=tuple((a.began, a.ended) for a in own if a.kind == "evict"),
        waiting=tuple(result.waiting.get(name, ())),
    )


def decisions(results: Sequence[Result]) -> Iterator[dict[str, Any]]:
    """Yield every action of every run as plain data, in order: what, when, why and for whom. Times of the trace."""
    for result in results:
        for action in result.actions:
            yield {
                "run": result.name,
                "t": round(action.began, 3),
                "action": action.kind,
                "model": action.model,
                "why": action.reason.value,
                "for": action.for_model or None,
                "seconds": round(action.ended - action.began, 3),
                "aborted": action.aborted,
                "wanted_after": action.wanted_after,
                "used_after": action.used_after,
            }
