"""The live screen as lines of text: who holds the memory, each model and why, what is done, what happened last."""

import time
from typing import Final

from reconciler.render.cells import cut, width_of
from reconciler.render.events_text import EventLines, clock_text
from reconciler.render.paint import Paint, one_line, painter
from reconciler.render.plan_text import step_lines
from reconciler.render.status_text import action_text, condition_lines, manifest_lines, status_scale
from reconciler.render.stretches import ASCII, BLOCKS
from reconciler.render.top_memory import memory_block
from reconciler.render.top_table import table
from reconciler.render.top_view import Json, View, chosen, older
from reconciler.render.traffic_text import gate_lines
from reconciler.render.units import Scale

#: The smallest screen on which there is anything to be seen.
LEAST_WIDTH, LEAST_HEIGHT = 40, 10
#: Lines of models, and of events, that are there before either gets more.
_MODELS_LEAST: Final = 3
_EVENTS_LEAST: Final = 3
#: Events without a screen to fill.
_EVENTS_PLAIN: Final = 8
#: From this width on an event says its day.
_DATED: Final = 120
#: From this height on there is room for more than one line of each kind.
_TALL: Final = 32
_BAR: Final = 20


def top_text(view: View, width: int, *, colour: bool = False, blocks: bool = False) -> str:
    """Return one picture without a screen to fill: every model, and the newest events."""
    paint = painter(colour)
    view = older(view)
    scale = status_scale(view.status)
    models, events = table(chosen(view), scale, width, paint), _events(view, width, paint)
    lines = [*_head(view, scale, width, paint, blocks), *_doing(view, scale, paint, width), ""]
    lines += [*models, "", *events[-_EVENTS_PLAIN:]]
    return "\n".join(cut(line, width).rstrip() for line in lines).rstrip("\n")


def screen(view: View, width: int, height: int, *, colour: bool = False, blocks: bool = False) -> list[str]:
    """Return a picture of exactly `height` lines, none wider than `width`."""
    paint = painter(colour)
    if width < LEAST_WIDTH or height < LEAST_HEIGHT:
        return _filled([cut(f"make the window {LEAST_WIDTH} x {LEAST_HEIGHT} at least", width)], height)
    view = older(view)
    scale = status_scale(view.status)
    foot, tall = height - 1, height >= _TALL
    lines = _head(view, scale, width, paint, blocks, whole=tall)
    lines += _doing(view, scale, paint, width, max(1, (height - _TALL) // 5 + 2 if tall else 1))
    lines = [cut(line, width) for line in lines][: max(1, foot - _MODELS_LEAST - _EVENTS_LEAST - 1)]
    lines += [""] if tall else []
    models, events = table(chosen(view), scale, width, paint), _events(view, width, paint)
    room = foot - len(lines) - 1  # a blank line before the events
    rows = min(len(models), max(_MODELS_LEAST, room - max(_EVENTS_LEAST, room // 4)))
    first = min(view.offset, max(0, len(models) - rows))
    lines += [models[0], *models[1 + first : first + rows]]
    lines += ["", *events[-max(0, foot - len(lines) - 1) :]] if foot > len(lines) + 1 else []
    filled = _filled(lines, foot)
    return [*filled, cut(_foot(view, len(models) - 1, first, rows - 1, paint), width)]


def _filled(lines: list[str], height: int) -> list[str]:
    return [*lines[:height], *[""] * (height - len(lines))]


def _head(
    view: View, scale: Scale, width: int, paint: Paint, blocks: bool, *, whole: bool = True
) -> list[str]:
    """Return whose picture it is, the manifest (with what is wrong with it if `whole`), and the memory."""
    shown = view.status
    start = f"reconcile {shown['version']}  pid {shown['pid']}  {shown['url']}"
    link = paint(view.link, "red" if view.stale else "dim")
    gap = width - width_of(start) - width_of(view.link)
    first = f"{start}{' ' * gap}{link}" if gap >= 2 else f"{link}  {start}"
    signs = BLOCKS if blocks else ASCII
    return [
        first,
        *manifest_lines(shown["manifest"], paint)[: 3 if whole else 1],
        *memory_block(shown, scale, signs, width, paint),
    ]


def _doing(view: View, scale: Scale, paint: Paint, width: int, most: int | None = None) -> list[str]:
    """Return the action, gates, the steps of the plan, what is not well, and advice; `most` lines of each."""
    shown, steps = view.status, step_lines(view.plan, scale, paint)
    hints = [f"advice: {one_line(hint['text'])}" for hint in shown["advice"]]
    lines = [f"action   {action_text(shown)}{_progress(shown['action'])}"]
    plan = [f"{'plan' if n == 0 else '':<6} {line.strip()}" for n, line in enumerate(steps)]
    for part in (gate_lines(shown["gates"]), plan, condition_lines(shown, paint), hints):
        lines += _few(part, width, most)
    return lines


def _few(lines: list[str], width: int, most: int | None) -> list[str]:
    """Return as many lines as there may be; the last one says how many there are beside."""
    if most is None or len(lines) <= most:
        return lines
    more = f"  (+{len(lines) - most} more)"
    return [*lines[: most - 1], cut(lines[most - 1], width - len(more)) + more]


def _progress(action: Json | None) -> str:
    """Return how far an action is as a bar, where it is known how long it takes."""
    if action is None or not action["expected"]:
        return ""
    done = min(_BAR, round(_BAR * action["elapsed"] / action["expected"]))
    return f"  [{'#' * done}{'.' * (_BAR - done)}]"


def _events(view: View, width: int, paint: Paint) -> list[str]:
    clock = clock_text if width >= _DATED else lambda at: time.strftime("%H:%M:%S", time.localtime(at))
    return [cut(line, width) for line in EventLines(paint, clock).lines(view.events)]


def _foot(view: View, models: int, first: int, rows: int, paint: Paint) -> str:
    if view.typing is not None:
        return f"filter: {one_line(view.typing)}_   Enter keeps it, Esc drops it"
    words: list[str] = ["q quit", f"s sorted by {view.sort}", "/ filter"]
    if view.filter:
        words[-1] = f"/ filter: {one_line(view.filter)}"
    if models > rows:
        words.append(f"arrows: models {first + 1}-{first + rows} of {models}")
    return paint("   ".join(words), "dim")
