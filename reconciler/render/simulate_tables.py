"""The tables of a simulation: one run, some side by side, many below each other; models and clients."""

from collections.abc import Mapping, Sequence
from io import StringIO
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from reconciler.render.paint import one_line
from reconciler.render.simulate_figures import Figure, figures, seconds, share, whole

Json = Mapping[str, Any]

#: Runs that stand side by side; more stand below each other.
SIDE_BY_SIDE: Final = 4
#: Clients that are named; the others are counted.
NAMED_CLIENTS: Final = 30
#: Stands behind the best of several values, and of no more than that: the output may have no colours.
BEST: Final = "*"
_RATIO: Final = len("0.92*")
#: The figures of many runs, and their columns.
_MANY: Final = {
    "cold wait": "COLD WAIT",
    "wait, 95 %": "WAIT 95 %",
    "wait, longest": "LONGEST",
    "loads": "LOADS",
    "regrets": "REGRETS",
}


def run_table(runs: Sequence[Json]) -> Table:
    """Return the figures of up to `SIDE_BY_SIDE` runs, a column each."""
    made = _table("", *_heads(runs))
    made.show_header = len(runs) > 1  # a single run was named already
    for figure in figures(runs):
        made.add_row(Text(figure.label), *_cells(figure, runs))
    return made


def many_runs_table(runs: Sequence[Json]) -> Table:
    """Return the most important figures of any number of runs, a row each."""
    chosen = {figure.label: figure for figure in figures(runs)}
    lost = [sum(run["waits"]["refused"].values()) for run in runs]
    # A run that refuses everybody has nobody wait: the figures after it mean nothing without this one.
    made = _table("RUN", *(["REFUSED"] if any(lost) else []), *_MANY.values())
    columns = [_plain(*map(whole, lost))] if any(lost) else []
    columns += [_cells(chosen[label], runs) for label in _MANY]
    for number, run in enumerate(runs):
        made.add_row(Text(one_line(run["name"])), *(column[number] for column in columns))
    return made


def model_table(run: Json) -> Table:
    """Return one run's models, those that made people wait most first."""
    made = _table(
        "MODEL", "REQUESTS", "WAITED", "COLD", "LONGEST", "LOADS", "EVICTED", "REGRETS", "IN\nMEMORY"
    )
    for model in sorted(run["models"], key=lambda m: (-m["waits"]["cold_seconds"], m["name"])):
        waits = model["waits"]
        made.add_row(
            Text(one_line(model["name"])),
            *_plain(whole(waits["requests"]), whole(waits["cold"]), seconds(waits["cold_seconds"])),
            *_plain(seconds(waits["longest"]), whole(model["loads"]), whole(model["evictions"])),
            *_plain(whole(model["regrets"]), share(model["resident_share"])),
        )
    return made


def models_by_run_table(runs: Sequence[Json]) -> Table:
    """Return the seconds that requests waited for a load of each model, a column a run."""
    waited = [{m["name"]: m["waits"]["cold_seconds"] for m in run["models"]} for run in runs]
    names = {name for of_run in waited for name in of_run}
    made = _table("COLD WAIT", *_heads(runs))
    for name in sorted(names, key=lambda n: (-max(w.get(n, 0) for w in waited), n)):
        values = [of_run.get(name) for of_run in waited]
        cells = ["-" if value is None else seconds(value) for value in values]
        marks = _marks(values, cells)
        made.add_row(
            Text(one_line(name)), *(_cell(c, m, len(BEST)) for c, m in zip(cells, marks, strict=True))
        )
    return made


def client_table(run: Json) -> Table:
    """Return one run's clients, those that waited longest first."""
    made = _table("CLIENT", "REQUESTS", "REFUSED", "WAITED", "COLD", "WAIT 95 %", "LONGEST")
    ordered = sorted(run["clients"], key=lambda c: (-c["waits"]["cold_seconds"], c["name"]))
    for client in ordered[:NAMED_CLIENTS]:
        waits = client["waits"]
        made.add_row(
            Text(one_line(client["name"]) or "(no name)"),
            *_plain(whole(waits["requests"]), whole(sum(waits["refused"].values())), whole(waits["cold"])),
            *_plain(seconds(waits["cold_seconds"]), seconds(waits["p95"]), seconds(waits["longest"])),
        )
    if more := ordered[NAMED_CLIENTS:]:
        requests = sum(c["waits"]["requests"] for c in more)
        cold = sum(c["waits"]["cold_seconds"] for c in more)
        made.add_row(Text(f"{len(more)} more"), *_plain(whole(requests), "", "", seconds(cold), "", ""))
    return made


def as_lines(table: Table, width: int, colour: bool) -> list[str]:
    """Return a table as lines no wider than `width`: names that are too long go on in the next line."""
    stream = StringIO()
    console = Console(
        file=stream,
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        no_color=not colour,
        legacy_windows=False,
        _environ={},
    )
    console.print(table)
    return [line.rstrip() for line in stream.getvalue().rstrip("\n").split("\n")]


def _heads(runs: Sequence[Json]) -> list[str]:
    """Return the names of runs, one part a line: columns are to be no wider than their figures."""
    return [one_line(run["name"]).replace(", ", ",\n") for run in runs]


def _table(first: str, *others: str) -> Table:
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    made.add_column(Text(first), overflow="fold", min_width=6)
    for head in others:
        # A name of a run gives way, figures do not: they would be misread.
        made.add_column(Text(head), justify="right", overflow="fold")
    return made


def _plain(*cells: str) -> list[Text]:
    return [Text(cell, no_wrap=True) for cell in cells]


def _cells(figure: Figure, runs: Sequence[Json]) -> list[Text]:
    """Return a figure of every run; behind it its ratio to the first run's, and a mark at the best."""
    values = [figure.value(run) for run in runs]
    shown = ["-" if value is None else figure.shown(value) for value in values]
    marks = _marks(values, shown) if figure.low else [""] * len(runs)
    cells = []
    for run, text, mark in zip(runs, shown, marks, strict=True):
        ratio = run["against"][figure.ratio] if run["against"] and figure.ratio else None
        after = f"{ratio:.2f}" if ratio is not None else ""
        room = 0 if len(runs) == 1 else _RATIO if run["against"] else len(BEST)
        cells.append(_cell(text, after + mark, room))
    return cells


def _cell(shown: str, after: str, room: int) -> Text:
    """Return a cell whose figures end where those above and below it end, whatever follows them in `room` columns."""
    padded = f"{shown} {after:<{room}}" if room else shown
    return Text(padded, style="green" if after.endswith(BEST) else "", no_wrap=True)


def _marks(values: Sequence[float | None], shown: Sequence[str]) -> list[str]:
    """Return a mark for all that look like the lowest value; none where nothing else is shown."""
    known = [(value, text) for value, text in zip(values, shown, strict=True) if value is not None]
    best = min(known)[1] if len({text for _, text in known}) > 1 else None
    return [BEST if text == best else "" for text in shown]
