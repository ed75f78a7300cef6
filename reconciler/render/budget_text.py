"""The budget as people read it: a table, a bar, and what fits together. Written from the JSON document."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from reconciler.render.budget_lines import memory_lines
from reconciler.render.notes import note_lines
from reconciler.render.paint import Paint, one_line, painter
from reconciler.render.stretches import ASCII, BLOCKS, Signs, Stretch, drawn, legend_of, of_models
from reconciler.render.units import Scale, scale_for

Json = Mapping[str, Any]

#: Columns of the bar.
WIDTH: Final = 60
#: Names a line gives before it only counts.
_NAMED: Final = 6
_KINDS: Final = ("weights", "context", "overhead", "peak", "measured", "charged")
_HEAD: Final = (
    "MODEL",
    "STATE",
    "RESIDENCY",
    "WEIGHTS",
    "KV",
    "OVERHEAD",
    "LOAD PEAK",
    "MEASURED",
    "CHARGED",
)
_STATE_COLOURS: Final = {"ready": "green", "loading": "yellow", "broken": "red"}


def budget_text(budget: Json, *, colour: bool = False, blocks: bool = False) -> str:
    """Return the budget document as text without a final newline; `blocks` = the output can show them."""
    paint = painter(colour)
    machine = budget["machine"]
    scale = scale_for(
        [machine["share"] if machine["share"] is not None else budget["totals"]["bytes"]["charged"]]
    )
    lines = [paint(_origin(budget), "bold"), *memory_lines(machine, scale), ""]
    lines += _table(budget, scale, paint)
    lines += ["", *_bar(budget, scale, BLOCKS if blocks else ASCII), ""]
    lines += _fits(budget, scale, paint)
    lines += [f"{m['name']}: {one_line(m['hint'])}" for m in budget["models"] if m["hint"]]
    lines += note_lines((m["name"], m["notes"]) for m in budget["models"])
    lines += [f"warning: {one_line(problem)}" for problem in machine["problems"]]
    return "\n".join(lines)


def _origin(budget: Json) -> str:
    manifest = budget["manifest"]
    git = manifest["git"]
    commit = f"  git {git['commit']}{'+dirty' if git['dirty'] else ''}" if git else ""
    seen = {
        "loop": "as the running loop sees it",
        "files": "no loop runs: read from the files",
        "description": "on the machine as it is described",
    }[budget["seen_by"]]
    number = f"  generation {manifest['generation']}" if manifest["generation"] else ""
    return f"manifest {manifest['path']}{number}{commit}  ({seen})"


def _table(budget: Json, scale: Scale, paint: Paint) -> list[str]:
    rows = [_HEAD, *(_cells(model, scale) for model in budget["models"])]
    if len(budget["models"]) > 1:
        rows.append(_total_cells(budget["totals"], scale))
    widths = [max(len(row[n]) for row in rows) for n in range(len(_HEAD))]
    lines = []
    for row in rows:
        texts = [
            f"{cell:<{w}}" if n < 3 else f"{cell:>{w}}"
            for n, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        texts[1] = paint(texts[1], _STATE_COLOURS[row[1]]) if row[1] in _STATE_COLOURS else texts[1]
        lines.append("  ".join(texts).rstrip())
    return [paint(lines[0], "bold"), *lines[1:]]


def _cells(model: Json, scale: Scale) -> tuple[str, ...]:
    bytes_ = model["bytes"]
    # What a stated size consists of is not known and need not be; an unknown size has to be given.
    unknown = "?" if bytes_["charged"] is None else "-"
    sizes = [unknown if bytes_[kind] is None else scale.size(bytes_[kind]) for kind in _KINDS]
    if bytes_["measured"] is None:
        sizes[_KINDS.index("measured")] = "-"
    return (model["name"], model["state"], model["residency"] or "not in manifest", *sizes)


def _total_cells(totals: Json, scale: Scale) -> tuple[str, ...]:
    """Return the sums; one that lacks an unknown part carries a plus: it is at least that."""
    sizes = []
    for kind in _KINDS:
        lacks = kind in totals["incomplete"]
        text = scale.size(totals["bytes"][kind])
        sizes.append(("-" if totals["bytes"][kind] == 0 else f"{text}+") if lacks else text)
    return ("total", "", "", *sizes)


def _bar(budget: Json, scale: Scale, signs: Signs) -> list[str]:
    """Return the memory as one line, and below it what each stretch stands for.

    Shown are the models that are loaded or that the manifest wants loaded from the start.
    """
    bar = budget["bar"]
    if bar is None:
        return ["memory   the machine's memory is unknown: " + one_line(budget["machine"]["source"])]
    models = of_models([(m["name"], m["bytes"]) for m in bar["models"]], signs)
    rest = [
        Stretch("free", bar["free"], signs.free),
        Stretch("not available", bar["unavailable"], signs.taken),
        Stretch("reserve", bar["reserve"], signs.reserve),
    ]
    legend = [*legend_of(models, scale), *(part.text(scale) for part in rest if part.bytes)]
    if bar["over"]:
        legend.append(f"over by {scale.size(bar['over'])}")
    return [f"memory   [{drawn([*models, *rest], WIDTH)}]", "         " + "  ".join(legend)]


def _fits(budget: Json, scale: Scale, paint: Paint) -> list[str]:
    lines = []
    for key, label in (("pinned", "pinned"), ("pinned_and_warm", "pinned + warm"), ("all", "all models")):
        fit = budget[key]
        if fit["models"] and (key == "pinned" or fit["models"] != budget["pinned"]["models"]):
            lines.append(f"{label:<14} {_verdict(fit, budget['machine']['budget'], scale, paint)}")
    pair = budget["two_largest"]
    if pair and pair["fits"] is False:
        never = paint("never together", "yellow")
        lines.append(
            f"{'two largest':<14} {' and '.join(pair['models'])}: {never}, {scale.size(pair['short'])} short"
        )
    return lines + _alone(budget, scale)


def _alone(budget: Json, scale: Scale) -> list[str]:
    """Return which models could be loaded now, which not now, and which never."""
    never = {f["models"][0] for f in budget["never"]}
    might = [f for f in budget["beside"] if f["models"][0] not in never]
    lines = []
    if fitting := [f["models"][0] for f in might if f["fits"]]:
        lines.append(f"{'fits now':<14} {_named(fitting)}, each beside what is loaded")
    if lacking := [_short(f, scale) for f in might if f["fits"] is False]:
        lines.append(f"{'not now':<14} {_named(lacking)}")
    if hopeless := [_short(f, scale) for f in budget["never"]]:
        lines.append(f"{'never':<14} {_named(hopeless)}, even with only the pinned models there")
    return lines


def _short(fit: Json, scale: Scale) -> str:
    return f"{fit['models'][0]} ({scale.size(fit['short'])} short)"


def _verdict(fit: Json, budget: int | None, scale: Scale, paint: Paint) -> str:
    if fit["unknown"]:
        return f"cannot be told: the size of {_named(fit['unknown'])} is unknown"
    if fit["fits"] is None:
        return f"need {scale.size(fit['need'])} together; the budget is unknown"
    figures = f"need {scale.size(fit['need'])} of {scale.size(budget)}"
    if fit["fits"]:
        return f"{paint('fit together', 'green')}: {figures}"
    return f"{paint('do not fit together', 'red')}: {figures}, {scale.size(fit['short'])} short"


def _named(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
