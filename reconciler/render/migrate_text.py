"""A conversion's report as people read it."""

import textwrap
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from reconciler.core.words import counted
from reconciler.render.paint import one_line, painter

Json = Mapping[str, Any]

WIDTH: Final = 110
_COLOURS: Final = {
    "error": "red",
    "lost": "yellow",
    "dead": "yellow",
    "to do": "yellow",
    "differs": "dim",
    "note": "dim",
}
_MEANS: Final = {
    "error": "in the way",
    "lost": "not carried over",
    "dead": "without effect before, too",
    "to do": "to do",
    "differs": "work in another way",
    "note": "to know",
}


def import_text(document: Json, *, colour: bool = False) -> str:
    """Return the findings as text without a final newline: place, kind, key, what became of it, what to do."""
    paint = painter(colour)
    lines = []
    for found in document["findings"]:
        place = found["file"] + (f":{found['line']}:{found['col']}" if found["line"] else "")
        kind, key = (
            paint(found["kind"], _COLOURS[found["kind"]]),
            f"{one_line(found['key'])}: " if found["key"] else "",
        )
        lines += [f"{place}: {kind}: {key}{one_line(found['what'])}"]
        if found["advice"]:
            lines += textwrap.wrap(
                one_line(found["advice"]),
                WIDTH,
                initial_indent="    do: " if found["kind"] in ("error", "to do") else "    ",
                subsequent_indent="    ",
                break_long_words=False,
                break_on_hyphens=False,
            )
    lines += [line for refused in document["refused"] for line in refused.split("\n")]
    return "\n".join([*lines, _closing(document)])


def _closing(document: Json) -> str:
    counts = Counter(found["kind"] for found in document["findings"])
    parts = [f"{counts[kind]} {words}" for kind, words in _MEANS.items() if counts[kind]]
    if not document["models"] or counts["error"] or document["refused"]:
        return f"nothing was written: {', '.join(parts) or 'the manifest would be refused'}."
    made = counted(len(document["models"]), "model")
    path = document["written"]
    where = f" in {path}" if path else ""
    said = f"{made}{where}: {', '.join(parts) or 'all carried over'}."
    return said + (f"\nnext: reconcile validate {path}; reconcile --dry-run {path}" if path else "")
