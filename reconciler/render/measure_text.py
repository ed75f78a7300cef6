"""A measurement as people read it. Written from the JSON document, so both always say the same."""

from collections.abc import Mapping
from typing import Any, Final

from reconciler.render.paint import Paint, one_line, painter
from reconciler.render.units import size, span

Json = Mapping[str, Any]

_LABELS: Final = {"peak": "load peak"}
#: Share by which an estimate may be off before it is coloured.
_FINE: Final = 0.05


def measure_text(measure: Json, *, colour: bool = False) -> str:
    """Return the measurement as text without a final newline."""
    paint = painter(colour)
    loop = "the running loop" if measure["by"] == "loop" else "a loop of our own"
    load = f", loaded in {span(measure['load_seconds'])}" if measure["load_seconds"] is not None else ""
    lines = [
        f"{paint(measure['model'], 'bold')}  measured with {loop}{load}, watched for {span(measure['seconds'])}"
    ]
    lines += _table(measure["comparisons"], paint)
    lines.append(_held(measure))
    suggestion = measure["suggestion"]
    if suggestion["steady"] is None:
        lines.append(paint("its memory could not be read", "red"))
    else:
        peak = f", memory.peak: {suggestion['peak']}" if suggestion["peak"] else ""
        stated = f" (it says {size(measure['stated'])})" if measure["stated"] is not None else ""
        basis = "measured" if suggestion["basis"] == "measured" else _told(measure["comparisons"])
        lines.append(f"{basis} and a fifth: memory.steady: {suggestion['steady']}{peak}{stated}")
    lines += [f"note: {one_line(text)}" for text in measure["notes"]]
    return "\n".join([*lines, *_written(measure["written"], paint)])


def _table(comparisons: list[Json], paint: Paint) -> list[str]:
    rows = [("", "ESTIMATED", "MEASURED", "OFF", "")]
    for kind in comparisons:
        if kind["estimated"] is None and kind["measured"] is None:
            continue
        source = "says the engine" if kind["source"] == "engine" and kind["measured"] is not None else ""
        label = str(_LABELS.get(kind["kind"], kind["kind"]))
        rows.append((label, _size(kind["estimated"]), _size(kind["measured"]), _off(kind), source))
    widths = [max(len(row[n]) for row in rows) for n in range(4)]
    lines = []
    for number, row in enumerate(rows):
        cells = [
            f"{cell:<{w}}" if n == 0 else f"{cell:>{w}}"
            for n, (cell, w) in enumerate(zip(row, widths, strict=False))
        ]
        if number and row[3].startswith("+") and not _is_fine(row[3]):
            cells[3] = paint(cells[3], "yellow")
        lines.append(("  " + "  ".join([*cells, row[4]])).rstrip())
    return [paint(lines[0], "bold"), *lines[1:]]


def _told(comparisons: list[Json]) -> str:
    told = sum(row["measured"] or 0 for row in comparisons if row["source"] == "engine")
    return f"the {size(told)} of the engine (more than was in use)"


def _is_fine(off: str) -> bool:
    """Tell whether an estimate was too low by so little that nobody need look."""
    return (
        float(off.rpartition(" ")[0].rpartition(" ")[2].lstrip("+")) <= _FINE * 100
        if off.endswith("%")
        else True
    )


def _size(count: int | None) -> str:
    return "?" if count is None else size(count)


def _off(row: Json) -> str:
    if row["off"] is None:
        return ""
    sign = "+" if row["off"] >= 0 else ""
    share = f"  {sign}{row['off_share'] * 100:.1f} %" if row["off_share"] is not None else ""
    return f"{sign}{size(row['off'])}{share}"


def _held(measure: Json) -> str:
    if measure["committed"] is None:
        return "held: unknown"
    device = f" ({size(measure['device'])} of it by drivers)" if measure["device"] else ""
    warm = f" and {size(measure['warm'])} of mapped weights" if measure["warm"] else ""
    fell = f"; available memory fell by {size(measure['fell'])}" if measure["fell"] is not None else ""
    return f"held: {size(measure['committed'])} committed{device}{warm}{fell}"


def _written(written: Json | None, paint: Paint) -> list[str]:
    if written is None:
        return []
    if not written["diff"]:
        return [f"{written['file']} says so already"]
    colours = {"+": "green", "-": "red"}
    diff = [
        paint(line, colours[line[0]]) if line[:1] in colours else line for line in written["diff"].split("\n")
    ]
    return [f"written to {written['file']}:", *diff]
