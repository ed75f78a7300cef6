"""What `reconcile init` did, as people read it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from reconciler.render.init_shapes import MOST_LEFT_OUT
from reconciler.render.paint import one_line, painter
from reconciler.render.units import scale_for

Json = Mapping[str, Any]

#: More lines than that of what was left out hide the rest; the manifest names them, or the JSON.
_MOST: Final = 12


def init_text(document: Json, *, colour: bool = False) -> str:
    """Return the report as text without a final newline."""
    paint = painter(colour)
    lines = [paint(f"wrote    {one_line(document['manifest'])}", "bold")]
    if document["kept"]:
        lines.append(f"kept     {one_line(document['kept'])}: what was there before")
    lines.append(
        f"searched {', '.join(map(one_line, document['searched'])) or 'nothing: no usual folder is here'}"
    )
    lines.append(f"machine  {_machine(document)}")
    lines.append(f"engines  {_engines(document['engines'])}")
    lines += ["", *(_table(document["models"]) if document["models"] else [_nothing(document)])]
    lines += _left_out(document["left_out"])
    lines += [f"note: {one_line(hint)}" for hint in document["hints"]]
    lines += ["", "next", *(f"  {one_line(command)}" for command in document["next"])]
    lines.append(f"  clients connect to {document['address']} (OpenAI's API under /v1)")
    return "\n".join(lines)


def _machine(document: Json) -> str:
    if document["budget"] is None:
        return "its memory could not be read: state machine.memory in the manifest"
    scale = scale_for([document["total"]])
    return f"{scale.size(document['total'])}, of which models may use {scale.size(document['budget'])}"


def _engines(engines: Sequence[Json]) -> str:
    texts = [f"{e['name']} {e['version']}" if e["version"] else e["name"] for e in engines]
    return ", ".join(map(one_line, texts)) or "none is here"


def _nothing(document: Json) -> str:
    if document["left_out"]:
        return "no model can be served here as things are; the manifest has none"
    return "no model was found; the manifest has none, and says where to put files"


def _table(models: Sequence[Json]) -> list[str]:
    scale = scale_for([m["need"] for m in models])
    rows = [("MODEL", "ENGINE", "ROLE", "PRIORITY", "CONTEXT", "NEEDS")]
    rows += [
        (
            one_line(m["name"]) + (" (pinned)" if m["residency"] == "pinned" else ""),
            m["engine"],
            m["role"],
            m["priority"],
            "-" if m["context"] is None else str(m["context"]),
            scale.size(m["need"]),
        )
        for m in models
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(6)]
    return [
        "  ".join(
            cell.rjust(width) if place > 3 else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _left_out(left: Sequence[Json]) -> Iterator[str]:
    if left:
        yield ""
        yield "left out"
    for one in left[:_MOST]:
        yield f"  {one_line(one['path'])}: {one_line(one['why'])}"
    if len(left) > _MOST:
        yield f"  and {len(left) - _MOST} more: {'the manifest' if len(left) <= MOST_LEFT_OUT else '--json'} names them"
