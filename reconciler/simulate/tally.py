"""From what happened to figures."""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from math import isnan

from reconciler.core.types import Residency, Verdict
from reconciler.simulate.crowd import SERVED, Crowd
from reconciler.simulate.desk import Desk
from reconciler.simulate.layout import Layout
from reconciler.simulate.log import Log
from reconciler.simulate.result import Result, Waits
from reconciler.simulate.stretches import stretches
from reconciler.simulate.trace import Trace


def tally(
    layout: Layout, trace: Trace, crowd: Crowd, desk: Desk, log: Log, barred: Mapping[str, Verdict]
) -> Result:
    """Return the figures of a run that is over. `barred` is what was said last of models that were not loaded."""
    began, ended = trace.at[0], max(_last_end(crowd), max((a.ended for a in log.actions), default=0.0))
    desk.close(ended)
    models: dict[str, list[int]] = {}
    clients: dict[str, list[int]] = {}
    # Under the name of the model, whichever of its names they used.
    names = [layout.routes.get(name, name) for name in trace.models]
    for row in range(len(trace)):
        models.setdefault(names[trace.model[row]], []).append(row)
        clients.setdefault(trace.clients[trace.client[row]], []).append(row)
    return Result(
        name=layout.name,
        began=began,
        ended=ended,
        total=_waits(crowd, range(len(trace))),
        models={name: _waits(crowd, rows) for name, rows in sorted(models.items())},
        clients={name: _waits(crowd, rows) for name, rows in sorted(clients.items())},
        actions=tuple(log.actions),
        residency={
            name: tuple((start, ended if isnan(end) else end) for start, end in stays)
            for name, stays in sorted(desk.stays.items())
        },
        budget=desk.budget,
        held_mean=desk.held_seconds / max(ended - began, 1e-9),
        held_most=desk.most,
        sizes=desk.sizes,
        load_seconds=sum(a.ended - a.began for a in log.actions if a.kind == "load"),
        evict_seconds=sum(a.ended - a.began for a in log.actions if a.kind == "evict"),
        waiting={name: stretches(_colds(crowd, rows)) for name, rows in sorted(models.items())},
        barred=_barred(layout, models, log, barred),
    )


def _barred(
    layout: Layout, asked: Container[str], log: Log, verdicts: Mapping[str, Verdict]
) -> dict[str, Verdict]:
    """Return the models that should have been there at some time and never were."""
    loaded = {a.model for a in log.actions if a.kind == "load" and not a.aborted}
    wanted = [m.name for m in layout.manifest.models if m.name in asked or m.residency is Residency.PINNED]
    return {name: verdicts[name] for name in sorted(wanted) if name in verdicts and name not in loaded}


def _colds(crowd: Crowd, rows: Iterable[int]) -> Iterator[tuple[float, float]]:
    """Yield from when until when each request waited for a model that took none."""
    return ((crowd.came[row], crowd.came[row] + crowd.cold[row]) for row in rows if crowd.cold[row] > 0)


def _last_end(crowd: Crowd) -> float:
    """Return when the last request was over."""
    return max(came + crowd.waited[row] + crowd.served[row] for row, came in enumerate(crowd.came))


def _waits(crowd: Crowd, rows: Iterable[int]) -> Waits:
    waited: list[float] = []
    refused: Counter[str] = Counter()
    cold, cold_seconds, busy, count = 0, 0.0, 0.0, 0
    for row in rows:
        count += 1
        outcome = crowd.outcome[row]
        if outcome == SERVED:
            waited.append(crowd.waited[row])
        else:
            refused[crowd.outcomes[outcome]] += 1
        busy += crowd.served[row]
        if not isnan(crowd.cold[row]):
            cold += 1
            cold_seconds += crowd.cold[row]
    waited.sort()
    return Waits(
        requests=count,
        served=len(waited),
        refused=dict(sorted(refused.items())),
        cold=cold,
        cold_seconds=cold_seconds,
        wait_seconds=sum(waited),
        p50=_quantile(waited, 0.50),
        p95=_quantile(waited, 0.95),
        longest=waited[-1] if waited else 0.0,
        busy_seconds=busy,
    )


def _quantile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
