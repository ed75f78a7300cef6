"""Two manifests compared, as people read it: what changed, what would be done, what it does to the memory."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from reconciler.render.paint import Paint, one_line, painter
from reconciler.render.units import Scale, scale_for

Json = Mapping[str, Any]

_SIGNS: Final = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "yellow")}
#: Longer values are cut: the file has them whole.
_LONGEST: Final = 60


def diff_text(document: Json, plan: Iterable[str], *, colour: bool = False) -> str:
    """Return the comparison as text without a final newline. `plan` are the lines of the plan, below its heading."""
    paint = painter(colour)
    before, after = document["before"], document["after"]
    lines = [paint(f"manifest {one_line(after['path'])}  {_side(before)} -> {_side(after)}", "bold")]
    lines.append(f"machine  {_machine(document)}")
    if not document["changes"]:
        lines += ["", "No difference: both mean the same."]
    else:
        lines += ["", *_changes(document["changes"], paint)]
        lines += ["", *plan]
        lines += ["", *_sizes(document)]
    if document["lost"]:
        lines += ["", paint("can no longer be in memory", "red")]
        lines += [
            f"  ! {one_line(v['model'])}  {v['reason']}: {one_line(v['detail'])}" for v in document["lost"]
        ]
    lines += [f"warning: {one_line(text)}" for text in document["warnings"]]
    return "\n".join(lines)


def _side(side: Json) -> str:
    git = side["git"]
    commit = f"{git['commit']}{'+dirty' if git['dirty'] else ''}" if git else ""
    if side["rev"] is None:
        return f"the files ({commit})" if commit else "the files"
    return (
        f"{one_line(side['rev'])} ({commit})" if commit and commit != side["rev"] else one_line(side["rev"])
    )


def _machine(document: Json) -> str:
    return "as it is described" if document["described"] else "this one, with nothing else in its memory"


def _changes(changes: Sequence[Json], paint: Paint) -> Iterator[str]:
    keys = [key for change in changes for key in change["keys"]]
    name = max((len(one_line(key["key"])) for key in keys), default=0)
    values = max((len(_values(key)) for key in keys if key["key"]), default=0)
    for change in changes:
        sign, hue = _SIGNS[change["change"]]
        virtual = "  (virtual)" if change["section"] == "virtual" else ""
        restarts = "  restarts if it is loaded" if change["restarts"] else ""
        whole = "" if change["change"] == "changed" else f"  {one_line(change['keys'][0]['place'])}"
        yield f"  {paint(sign, hue)} {one_line(change['name'])}{virtual}{restarts}{whole}"
        for key in change["keys"] if change["change"] == "changed" else ():
            label = one_line(key["key"] or "(value)")
            yield f"      {label:<{name}}  {_values(key):<{values}}  {one_line(key['place'])}".rstrip()


def _values(key: Json) -> str:
    return f"{_value(key['before'])} -> {_value(key['after'])}"


def _value(text: str | None) -> str:
    if text is None:
        return "(none)"
    line = one_line(text)
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."


def _sizes(document: Json) -> Iterator[str]:
    """Yield what each model takes before and after, and what is held and free once each manifest has its way."""
    sizes, first, second = document["sizes"], document["account_before"], document["account_after"]
    scale = scale_for([first["budget"], second["budget"]])
    rows = [("MODEL", "BEFORE", "AFTER", "CHANGE", "IN MEMORY")]
    for size in sizes:
        stays = f"{_there(size['held_before'])} -> {_there(size['held_after'])}"
        rows.append((one_line(size["name"]), *_figures(size["before"], size["after"], scale), stays))
    totals = ("held", "free", "budget")
    rows += [(name, *_figures(first[name], second[name], scale), "") for name in totals]
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    for row in rows:
        cells = [
            cell.ljust(width) if place in (0, 4) else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def _there(held: bool) -> str:
    return "yes" if held else "no"


def _figures(before: int | None, after: int | None, scale: Scale) -> tuple[str, str, str]:
    change = "-"
    if before is not None and after is not None and before != after:
        change = f"{'+' if after > before else '-'}{scale.size(abs(after - before))}"
    return (
        "-" if before is None else scale.size(before),
        "-" if after is None else scale.size(after),
        change,
    )
