"""The history of all models as a table; written from its JSON, so both say the same."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from reconciler.render.events_text import clock_text
from reconciler.render.paint import Paint, one_line, painter
from reconciler.render.units import span

Json = Mapping[str, Any]

_HEAD: Final = (
    "MODEL",
    "LOADS",
    "LAST",
    "MEDIAN",
    "95 %",
    "LOADING",
    "EVICTED",
    "REGRETTED",
    "PREWARMED",
    "USED",
    "REQUESTS",
    "COLD",
    "WAITED",
)


def history_text(document: Json, *, colour: bool = False) -> str:
    """Return the history of all models as text without a final newline."""
    paint = painter(colour)
    models = document["models"]
    lines = [since_line(document), ""]
    rows = [_HEAD, *(_cells(model) for model in models)]
    if len(models) > 1:
        rows.append(_total(models))
    lines += _table(rows, paint)
    regret = span(document["regret"])
    return "\n".join([*lines, "", *_legend(regret)])


def since_line(document: Json) -> str:
    """Return from when to when the history is."""
    past = span(document["until"] - document["since"])
    return f"history  {clock_text(document['since'])} to {clock_text(document['until'])}  ({past})"


def seconds_text(seconds: float | None) -> str:
    """Return a duration, or `-` where there is none."""
    return "-" if seconds is None else span(seconds)


def _cells(model: Json) -> tuple[str, ...]:
    loads, evictions, arrivals = model["loads"], model["evictions"], model["arrivals"]
    starts = loads["starts"]
    return (
        one_line(model["model"]),
        str(starts["count"]),
        seconds_text(starts["last"]),
        seconds_text(starts["median"]),
        seconds_text(starts["p95"]),
        _sum(starts["seconds"]),
        str(evictions["count"]),
        str(evictions["regretted"]),
        str(model["prewarms"]["count"]),
        str(model["prewarms"]["used"]),
        str(arrivals["requests"]),
        str(arrivals["cold"]),
        _sum(arrivals["cold_seconds"]),
    )


def _total(models: Sequence[Json]) -> tuple[str, ...]:
    def total(part: str, figure: str) -> int:
        return sum(model[part][figure] for model in models)

    return (
        "total",
        str(sum(model["loads"]["starts"]["count"] for model in models)),
        "",
        "",
        "",
        _sum(sum(model["loads"]["starts"]["seconds"] for model in models)),
        str(total("evictions", "count")),
        str(total("evictions", "regretted")),
        str(total("prewarms", "count")),
        str(total("prewarms", "used")),
        str(total("arrivals", "requests")),
        str(total("arrivals", "cold")),
        _sum(total("arrivals", "cold_seconds")),
    )


def _sum(seconds: float) -> str:
    return span(seconds) if seconds else "-"


def _table(rows: Sequence[Sequence[str]], paint: Paint) -> list[str]:
    widths = [max(len(row[n]) for row in rows) for n in range(len(_HEAD))]
    made = [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]
    return [paint(made[0], "bold"), *(line.rstrip() for line in made[1:])]


def _legend(regret: str) -> list[str]:
    return [
        f"REGRETTED: evictions after which the model was wanted again within {regret}.  USED: of those PREWARMED.",
        "COLD: requests that came while their model took none, and WAITED for it so long together.",
    ]
