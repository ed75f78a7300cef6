"""The picture of a simulation: for each run one lane a model, and the memory below them, on one axis of time."""

from collections.abc import Iterator, Sequence
from typing import Final

from reconciler.core.words import counted, times
from reconciler.render import simulate_svg as svg
from reconciler.render.simulate_scene import Axis, Lane, Panel, highest, joined, occupied
from reconciler.render.simulate_text import clock
from reconciler.render.units import size

WIDTH: Final = 1200
_LEFT: Final = 170
_RIGHT: Final = 20
_MARGIN: Final = 16
_HEAD: Final = 46
#: A lane: above the marks of those who wait, below them the bar of the model.
_LANE: Final = 36
_WAITS: Final = 15
_BAR: Final = 13
_MEMORY: Final = 96
_FOOT: Final = 30
_LEGEND: Final = 34
_DAY: Final = 86400.0
#: Pixels an instant is wide, and gaps that are not drawn.
_LEAST: Final = 1.0
_GAP: Final = 0.5
_NAME: Final = 23


def picture(panels: Sequence[Panel]) -> str:
    """Return an SVG document of the runs below each other. Light or dark is the viewer's choice."""
    height = _MARGIN + sum(_height(panel) for panel in panels) + _LEGEND
    began, ended = min(p.began for p in panels), max(p.ended for p in panels)
    axis = Axis(began, max(ended, began + 1.0), _LEFT, WIDTH - _LEFT - _RIGHT)
    most = max((w[2] for p in panels for lane in p.lanes for w in lane.waiting), default=0)
    parts = list(_head("; ".join(p.title for p in panels), height))
    top = float(_MARGIN)
    for panel in panels:
        parts += ["<g>", *_panel(panel, axis, top, most), "</g>"]
        top += _height(panel)
    parts += [*_legend(top + 14, most), "</svg>"]
    return "\n".join(part for part in parts if part) + "\n"


def _head(title: str, height: int) -> Iterator[str]:
    area = f'width="{WIDTH}" height="{height}"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" {area} role="img">'
    yield f"<title>{svg.text(title)}</title>"
    yield svg.style()
    yield svg.hatchings()
    yield f'<rect class="page" {area}/>'


def _height(panel: Panel) -> int:
    return _HEAD + len(panel.lanes) * _LANE + _MEMORY + _FOOT


def _panel(panel: Panel, axis: Axis, top: float, most: int) -> Iterator[str]:
    lanes_top = top + _HEAD
    memory_top = lanes_top + len(panel.lanes) * _LANE + 8
    bottom = memory_top + _MEMORY - 8
    yield svg.label(_MARGIN, top + 14, "h", panel.title)
    yield svg.label(_MARGIN, top + 31, "s", panel.told)
    yield from _ticks(axis, lanes_top, bottom)
    for number, lane in enumerate(panel.lanes):
        colour = f"m{number % len(svg.COLOURS)}"
        yield from _lane(lane, axis, lanes_top + number * _LANE, colour, most)
    yield from _memory(panel, axis, memory_top, bottom)


def _ticks(axis: Axis, top: float, bottom: float) -> Iterator[str]:
    """Yield a line and a label for round times, and a stronger line for each midnight."""
    days = axis.ended >= _DAY
    times = axis.ticks(52)
    whole_days = len(times) > 1 and times[1] - times[0] >= _DAY
    yield svg.path("g", (f"M{svg.number(axis.x(at))} {svg.number(top)}V{svg.number(bottom)}" for at in times))
    yield svg.path(
        "d", (f"M{svg.number(axis.x(at))} {svg.number(top)}V{svg.number(bottom)}" for at in axis.midnights())
    )
    seconds = len(times) > 1 and times[1] - times[0] < 60
    for at in times:
        midnight = days and at % _DAY == 0
        told = f"day {int(at // _DAY) + 1}" if midnight else clock(at, days=False)
        if seconds and not midnight:
            told += f":{int(at) % 60:02}"
        if midnight or not whole_days:
            yield svg.label(axis.x(at), bottom + 13, "s", told, anchor="middle")


def _lane(lane: Lane, axis: Axis, top: float, colour: str, most: int) -> Iterator[str]:
    bar, foot = top + _WAITS + 3, top + _WAITS + 3 + _BAR
    yield f'<g class="lane"><title>{svg.text(_told(lane))}</title>'
    yield svg.label(_MARGIN, bar + 2, "t", svg.shortened(lane.name, _NAME))
    yield svg.label(_MARGIN, foot, "s", size(lane.size))
    yield svg.path("g", [f"M{_LEFT} {svg.number(foot + 1.5)}H{WIDTH - _RIGHT}"])
    resident = joined(list(lane.resident), axis, _LEAST, _GAP)
    yield svg.path(colour, (svg.box(left, bar, right, foot) for left, right in resident))
    for kind, spans in (("load", lane.loading), ("evict", lane.evicting)):
        boxes = (svg.box(left, bar, right, foot) for left, right in joined(list(spans), axis, _LEAST, _GAP))
        yield svg.path(kind, boxes, hatched=True)
    yield svg.path("w", _marks(highest(lane.waiting, axis), axis, bar - 1, most))
    yield "</g>"


def _told(lane: Lane) -> str:
    """Return what a viewer says of a lane under the pointer."""
    came, went = counted(len(lane.loading), "load"), counted(len(lane.evicting), "eviction")
    if not lane.waiting:
        return f"{lane.name}: {came}, {went}, never waited for"
    longest = max(until - since for since, until, _ in lane.waiting)
    return f"{lane.name}: {came}, {went}, waited for {times(len(lane.waiting))}, {longest:.0f} s at most"


def _marks(columns: Sequence[int], axis: Axis, foot: float, most: int) -> Iterator[str]:
    """Yield bars whose height is how many waited; neighbours of one height are one bar."""
    start = 0
    for place in range(1, len(columns) + 1):
        if place < len(columns) and columns[place] == columns[start]:
            continue
        if columns[start]:
            height = max(3.0, _WAITS * columns[start] / most)
            yield svg.box(axis.left + start, foot - height, axis.left + place, foot)
        start = place


def _memory(panel: Panel, axis: Axis, top: float, bottom: float) -> Iterator[str]:
    """Yield what models hold, each upon the others, below the line of what they may."""
    yield '<g class="memory"><title>memory</title>'
    columns = [occupied(lane.holding, axis) for lane in panel.lanes]
    sums = [
        sum((lane.size or 0) * c[n] for lane, c in zip(panel.lanes, columns, strict=True))
        for n in range(axis.width)
    ]
    full = max(panel.budget, *sums, 1)
    scale = (bottom - top) / full
    below = [bottom] * axis.width
    for number, (lane, column) in enumerate(zip(panel.lanes, columns, strict=True)):
        above = [y - (lane.size or 0) * share * scale for y, share in zip(below, column, strict=True)]
        yield svg.path(f"m{number % len(svg.COLOURS)}", [svg.band(axis.left, above, below)])
        below = above
    line = bottom - panel.budget * scale
    yield svg.path("b", [f"M{_LEFT} {svg.number(line)}H{WIDTH - _RIGHT}"])
    yield svg.path("d", [f"M{_LEFT} {svg.number(bottom)}H{WIDTH - _RIGHT}"])
    yield svg.label(_MARGIN, line + 11, "t", "memory")
    yield svg.label(_MARGIN, line + 24, "s", f"{size(panel.budget)} for models")
    yield "</g>"


def _legend(y: float, most: int) -> Iterator[str]:
    yield '<g class="legend">'
    x = float(_LEFT)
    entries = [
        (svg.look("m0"), "in memory, a colour a model"),
        (svg.look("load", hatched=True), "being loaded"),
        (svg.look("evict", hatched=True), "being evicted"),
    ]
    if most:
        entries.append((svg.look("w"), f"requests wait for it; the highest marks are {most}"))
    for look, told in entries:
        yield f'<rect x="{svg.number(x)}" y="{svg.number(y)}" width="18" height="11" {look}/>'
        yield svg.label(x + 24, y + 10, "s", told)
        x += 60 + 5.6 * len(told)
    yield f'<path class="b" d="M{svg.number(x)} {svg.number(y + 6)}h18"/>'
    yield svg.label(x + 24, y + 10, "s", "memory for models")
    yield "</g>"
