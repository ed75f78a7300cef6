"""An examination as JSON and as people read it."""

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from reconciler.render.doctor_shapes import CountsDocument, DoctorDocument, FindingDocument
from reconciler.render.paint import one_line, painter
from reconciler.render.plan_document import as_json

Json = Mapping[str, Any]

WIDTH: Final = 100
_COLOURS: Final = {"ok": "green", "note": "dim", "warning": "yellow", "error": "red"}


def doctor_json(findings: Sequence[FindingDocument], version: str, system: str) -> dict[str, Any]:
    """Return the document of `schemas/doctor.v1.json`."""
    counts = Counter(f.level for f in findings)
    made = CountsDocument(counts["ok"], counts["note"], counts["warning"], counts["error"])
    return as_json(DoctorDocument(version, system, tuple(findings), made))


def doctor_text(document: Json, *, colour: bool = False) -> str:
    """Return the findings as text without a final newline: level, topic, what was seen, and what to do."""
    paint = painter(colour)
    findings = document["findings"]
    topic = max((len(f["topic"]) for f in findings), default=0)
    lines = [paint(f"reconcile {document['version']} on {document['system']}", "bold")]
    indent = " " * (len("warning") + topic + 4)
    for found in findings:
        level = paint(f"{found['level']:<7}", _COLOURS[found["level"]])
        lines += _wrapped(f"{level}  {found['topic']:<{topic}}  ", one_line(found["what"]), indent)
        if found["advice"]:
            lines += _wrapped(f"{indent}do: ", one_line(found["advice"]), indent + " " * 4)
    return "\n".join([*lines, _closing(document["counts"])])


def _wrapped(start: str, text: str, indent: str) -> list[str]:
    """Return a text in lines; `start` may hold colour codes, so its width is that of `indent`."""
    width = max(20, WIDTH - len(indent))
    first, *rest = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]
    return [start + first, *(indent + line for line in rest)]


def _closing(counts: Json) -> str:
    words = [
        f"{counts[level]} {level}{'' if counts[level] == 1 or level == 'ok' else 's'}"
        for level in ("error", "warning", "note", "ok")
        if counts[level]
    ]
    return f"{', '.join(words) or 'nothing was looked at'}."
