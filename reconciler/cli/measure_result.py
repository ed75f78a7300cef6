"""What a measurement comes to: the document, and the size written into the manifest."""

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.cli.output import CliError

if TYPE_CHECKING:
    from reconciler.core.types import Preflight, World
    from reconciler.manifest.applied import Applied
    from reconciler.manifest.edit import Edit
    from reconciler.measure import Measured
    from reconciler.render.measure_shapes import MeasureDocument, SuggestionDocument


def document(
    name: str,
    measured: "Measured",
    world: "World",
    seconds: float,
    load_seconds: float | None,
    problems: tuple[str, ...],
    stated: int | None,
) -> "MeasureDocument":
    """Return what was measured beside what was worked out. Bytes and seconds."""
    from reconciler.render.measure_document import compare, suggest
    from reconciler.render.measure_shapes import MeasureDocument

    preflight: Preflight | None = next((p for p in world.observation.preflights if p.model == name), None)
    digest = next((i.digest for i in world.observation.instances if i.model == name), "")
    entry = next((e for e in world.ledger if (e.model, e.digest) == (name, digest)), None)
    comparisons = compare(
        preflight.parts if preflight is not None else None,
        entry.said if entry is not None else None,
        measured.steady,
        measured.peak,
    )
    return MeasureDocument(
        model=name,
        by="own",
        seconds=seconds,
        load_seconds=load_seconds,
        comparisons=comparisons,
        committed=measured.committed,
        warm=measured.warm,
        device=measured.device,
        fell=measured.fell,
        stated=stated,
        suggestion=suggest(comparisons, None),
        written=None,
        notes=problems,
    )


def with_note(made: "MeasureDocument", text: str) -> "MeasureDocument":
    """Return the document with one more note."""
    return replace(made, notes=(*made.notes, text))


def finished(made: "MeasureDocument", applied: "Applied | None") -> "MeasureDocument":
    """Return the document, its suggestion written into the manifest if one is given. Raises CliError."""
    from reconciler.manifest.edit import EditError, plan_edit, write_edit
    from reconciler.render.measure_document import suggest
    from reconciler.render.measure_shapes import WrittenDocument

    if applied is None or made.suggestion.steady is None:
        return made
    spec = next(s for s in applied.manifest.models if s.name == made.model)
    suggestion = suggest(made.comparisons, spec.peak)
    try:
        edit = plan_edit(Path(applied.source.path), made.model, _values(suggestion), os.environ)
        if edit.after != edit.before:
            write_edit(edit)
    except EditError as error:
        raise CliError(str(error)) from error
    return replace(made, suggestion=suggestion, written=WrittenDocument(str(edit.path), edit.diff))


def _values(suggestion: "SuggestionDocument") -> dict[str, str]:
    given = {"steady": suggestion.steady, "peak": suggestion.peak}
    return {key: value for key, value in given.items() if value is not None}


def check_editable(applied: "Applied", model: str) -> "Edit":
    """Raise CliError if the size could not be written: better before a model is loaded than after."""
    from reconciler.manifest.edit import EditError, find_edit

    try:
        return find_edit(Path(applied.source.path), model, {"steady": "1GiB"})
    except EditError as error:
        raise CliError(str(error)) from error
