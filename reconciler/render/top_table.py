"""The models on a live screen: as many columns as fit, the reason last."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from reconciler.render.cells import padded, width_of
from reconciler.render.paint import Paint, one_line
from reconciler.render.status_text import STATE_COLOURS, last_used_text, verdict_text
from reconciler.render.top_view import Json
from reconciler.render.units import Scale, span

#: Cells that the reason has at least, and a name at most, while other columns could go.
_WHY_LEAST: Final = 24
_NAME_MOST: Final = 32
_GAP: Final = "  "


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the table."""

    head: str
    text: Callable[[Json, Scale], str]
    #: Of those that do not fit the highest go first; 0 = it is always there.
    spare: int = 0
    right: bool = False


def _memory(model: Json, scale: Scale) -> str:
    """Return what it holds; in brackets what it would."""
    if model["held"] == 0 or model["pid"] is None:
        return "-" if model["size"] is None else f"({scale.size(model['size'])})"
    return scale.size(model["held"])


def _count(*keys: str) -> Callable[[Json, Scale], str]:
    return lambda model, _: str(sum(model[key] for key in keys) or "-")


def _retry(model: Json, _: Scale) -> str:
    return "-" if model["retry_in"] is None else f"in {span(model['retry_in'])}"


COLUMNS: Final = (
    Column("MODEL", lambda model, _: one_line(model["name"])),
    Column("STATE", lambda model, _: model["state"]),
    Column("RESIDENCY", lambda model, _: model["residency"] or "-", spare=3),
    Column(
        "PRIORITY", lambda m, _: "-" if m["priority"] is None else str(m["priority"]), spare=6, right=True
    ),
    Column("MEMORY", _memory, right=True),
    Column("SERVED", _count("active", "jobs"), spare=2, right=True),
    Column("QUEUE", _count("waiting", "gated"), spare=1, right=True),
    Column("LEASES", _count("leases"), spare=5, right=True),
    Column("LAST USED", lambda model, _: last_used_text(model), spare=1),
    Column("RETRY", _retry, spare=4),
    Column("WHY", lambda model, _: verdict_text(model)),
)


def table(models: Sequence[Json], scale: Scale, width: int, paint: Paint) -> list[str]:
    """Return the head and a line for each model, none wider than `width`."""
    rows = [[column.text(model, scale) for column in COLUMNS] for model in models]
    widths = [
        max(width_of(text) for text in (column.head, *(row[n] for row in rows)))
        for n, column in enumerate(COLUMNS)
    ]
    widths[0] = min(widths[0], _NAME_MOST)
    kept = _kept(widths, width)
    widths[-1] = max(0, width - sum(widths[n] + len(_GAP) for n in kept[:-1]))
    lines = [paint(_line([c.head for c in COLUMNS], kept, widths, lambda text, _: text), "bold")]
    return lines + [_line(row, kept, widths, paint) for row in rows]


def _kept(widths: Sequence[int], width: int) -> list[int]:
    """Return the columns that fit: the most dispensable go first."""
    kept = list(range(len(COLUMNS)))
    while True:
        others = sum(widths[n] + len(_GAP) for n in kept[:-1])
        spare = max(kept, key=lambda n: COLUMNS[n].spare)
        if others + min(widths[-1], _WHY_LEAST) <= width or COLUMNS[spare].spare == 0:
            return kept
        kept.remove(spare)


def _line(row: Sequence[str], kept: Sequence[int], widths: Sequence[int], paint: Paint) -> str:
    cells = []
    for n in kept:
        text = padded(row[n], widths[n], right=COLUMNS[n].right)
        colour = STATE_COLOURS.get(row[n]) if COLUMNS[n].head == "STATE" else None
        cells.append(paint(text, colour) if colour else text)
    return _GAP.join(cells).rstrip()
