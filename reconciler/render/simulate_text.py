"""A simulation as people read it. Written from the JSON document, so both always say the same."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from reconciler.core.words import counted
from reconciler.render import simulate_tables as tables
from reconciler.render.paint import one_line, painter
from reconciler.render.plan_document import as_json
from reconciler.render.simulate_origins import origin_lines
from reconciler.render.simulate_shapes import SimulateDocument, UnknownDocument
from reconciler.render.units import span

Json = Mapping[str, Any]

#: Columns where nothing else is known.
WIDTH: Final = 80
#: Names of the trace that no model has, and pairs of models, that are named at most.
_NAMED: Final = 3
_DAY: Final = 86400


def simulate_json(document: SimulateDocument) -> dict[str, Any]:
    """Return the document of `schemas/simulate.v1.json`."""
    return as_json(document)


def simulate_text(simulation: Json, *, colour: bool = False, width: int = WIDTH) -> str:
    """Return the simulation as text without a final newline, no wider than `width` columns where names allow it."""
    paint = painter(colour)
    runs = simulation["runs"]
    lines = [paint(line, "bold") if not n else line for n, line in enumerate(_head(simulation, width))]
    if barred := list(_not_loaded(runs, width)):
        lines += ["", *barred]
    for head, table in _tables(runs):
        lines += ["", *([paint(head, "bold")] if head else []), *tables.as_lines(table, width, colour)]
    advice = list(_advice(runs, width))
    return "\n".join([*lines, *([""] if advice else []), *advice])


def unknown_lines(unknown: Sequence[UnknownDocument]) -> list[str]:
    """Return what is to be said of names in the trace that no model has."""
    lines = []
    for found in unknown[:_NAMED]:
        meant = f' (did you mean "{one_line(found.nearest)}"?)' if found.nearest else ""
        lines.append(
            f'no model is called "{one_line(found.name)}": {_requests(found.requests)} refused{meant}'
        )
    if more := unknown[_NAMED:]:
        count = _requests(sum(u.requests for u in more))
        lines.append(f"{counted(len(more), 'further name')} of the trace without a model: {count} refused")
    return lines


def clock(at: float, *, days: bool) -> str:
    """Return a time of a trace: `08:30`, or with its day (the trace begins on day 1) `day 2, 08:30`.

    >>> clock(30600, days=False), clock(117000.4, days=True)
    ('08:30', 'day 2, 08:30')
    """
    minutes = int(at // 60)
    time = f"{minutes // 60 % 24:02}:{minutes % 60:02}"
    return f"day {minutes // 1440 + 1}, {time}" if days else time


def _head(simulation: Json, width: int) -> Iterator[str]:
    trace, runs = simulation["trace"], simulation["runs"]
    days = trace["ended"] >= _DAY
    times = f"{clock(trace['began'], days=days)} to {clock(trace['ended'], days=days)}"
    lasts = span(trace["ended"] - trace["began"])
    yield from _wrap(
        f"trace {one_line(trace['source'])}: {_requests(trace['requests'])} from {counted(trace['clients'], 'client')}"
        f" for {counted(trace['models'], 'model')}, {times} ({lasts})",
        width,
    )
    where = f"the machine of {one_line(simulation['machine'])}" if simulation["machine"] else "this machine"
    only = runs[0]
    if len(runs) == 1:
        told = f"{one_line(only['manifest'])} on {where}, policy {only['policy']}, prewarm {only['prewarm']}"
    else:
        told = f"{len(runs)} runs on {where}; ratios are to the first, {tables.BEST} = best"
    yield from _wrap(told, width)
    for line in origin_lines(trace, runs):
        yield from _wrap(line, width)


def _tables(runs: list[Json]) -> Iterator[tuple[str, Any]]:
    """Yield the tables, each with the line that stands above it, "" = none."""
    if len(runs) > tables.SIDE_BY_SIDE:
        yield "", tables.many_runs_table(runs)
    else:
        yield "", tables.run_table(runs)
    if len(runs) == 1 and runs[0]["models"]:
        yield "", tables.model_table(runs[0])
    elif 1 < len(runs) <= tables.SIDE_BY_SIDE:
        yield "", tables.models_by_run_table(runs)
    for run in runs:
        if run["clients"]:
            yield f"clients with {one_line(run['name'])}" if len(runs) > 1 else "", tables.client_table(run)


def _not_loaded(runs: Sequence[Json], width: int) -> Iterator[str]:
    """Yield what could never be loaded, why, and what would help; each once, with the runs it is true of."""
    found: dict[str, list[str]] = {}
    for run in runs:
        for barred in run["not_loaded"]:
            found.setdefault(_barred(barred), []).append(one_line(run["name"]))
    for text, names in found.items():
        where = "" if len(names) == len(runs) else f"with {', '.join(names)}: "
        yield from _wrap(f"{where}{text}", width)


def _barred(barred: Json) -> str:
    count = barred["requests"]
    lost = f"{_requests(count)} in vain" if count else "it is pinned"
    fix = f"; {one_line(barred['fix'])}" if barred["fix"] else ""
    name, detail = one_line(barred["model"]), one_line(barred["detail"])
    return f"{name} was never loaded ({lost}): {barred['reason']}: {detail}{fix}"


def _advice(runs: list[Json], width: int) -> Iterator[str]:
    """Yield what no policy helps against, each pair once, as the run tells it in which they swapped most."""
    worst: dict[tuple[str, ...], tuple[Json, Json]] = {}
    for run in runs:
        for rivals in run["rivals"]:
            pair = tuple(rivals["models"])
            if pair not in worst or rivals["swaps"] > worst[pair][0]["swaps"]:
                worst[pair] = (rivals, run)
    ordered = sorted(worst.values(), key=lambda w: (-w[0]["swaps"], w[0]["models"]))
    for rivals, run in ordered[:_NAMED]:
        where = f" with {one_line(run['name'])}" if len(runs) > 1 else ""
        yield from _wrap(
            f"{one_line(rivals['text'])}. One gave way to the other {rivals['swaps']} times{where}, and was wanted"
            " again within 10 minutes: no policy helps them.",
            width,
        )
    if (more := len(ordered) - _NAMED) > 0:
        yield f"{counted(more, 'further pair')} of models: see --json"


def _wrap(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(width, 20), break_long_words=False, break_on_hyphens=False)


def _requests(count: int) -> str:
    return counted(count, "request")
