"""A measurement as a JSON document: estimate against what was seen, and what the manifest should say."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final, Literal

from reconciler.core.memory import Estimate, Said
from reconciler.render.measure_shapes import ComparisonDocument, MeasureDocument, SuggestionDocument
from reconciler.render.plan_document import as_json

#: Practitioners write what they measured and a fifth: a context fills up, a prompt is longer than those tried.
MARGIN: Final = 1.2
_MIB: Final = 1 << 20
_GIB: Final = 1 << 30

Kind = Literal["weights", "context", "compute", "steady", "peak"]


def readable_size(count: int) -> str:
    """Return a size of the manifest that is at least `count` bytes and as short as people write it.

    >>> readable_size(1), readable_size(201 << 20), readable_size(int(4.21 * 2**30)), readable_size(200 << 30)
    ('1MiB', '208MiB', '4.3GiB', '200GiB')
    """
    if count <= 1016 * _MIB:
        step = 1 if count <= 64 * _MIB else 8
        return f"{-(-count // (step * _MIB)) * step}MiB"
    if count <= 100 * _GIB:
        tenths = -(-count * 10 // _GIB)
        return f"{tenths // 10}.{tenths % 10}GiB".replace(".0GiB", "GiB")
    return f"{-(-count // _GIB)}GiB"


def compare(
    estimate: Estimate | None, said: Said | None, steady: int | None, peak: int | None
) -> tuple[ComparisonDocument, ...]:
    """Return estimate against measurement, part by part where the engine tells its parts, then as a whole."""
    guess = estimate or Estimate()
    rows: list[ComparisonDocument] = []
    if estimate is not None or said is not None:
        told = said or Said()
        rows = [
            _row("weights", guess.weights, told.weights, "engine"),
            _row("context", guess.context, told.context, "engine"),
            _row("compute", guess.compute, told.compute, "engine"),
        ]
    rows += [_row("steady", guess.steady, steady, "processes"), _row("peak", guess.peak, peak, "processes")]
    return tuple(rows)


def suggest(comparisons: Iterable[ComparisonDocument], stated_peak: int | None) -> SuggestionDocument:
    """Return what to write: sizes with their margin, the peak only where it says more than `steady`.

    What is padded is the size that was seen, or the sum of what the engine says it set up, if that is more: the short
    requests of a measurement touch little of the context and of the compute buffers, and a real one will touch the
    rest. The fifth is kept in both cases, since the engine does not name all that its process takes (libraries, prompt
    cache). A peak that the manifest states already is raised where the new steady size would pass it.
    """
    rows = {row.kind: row for row in comparisons}
    steady, peak = rows["steady"].measured, rows["peak"].measured
    if steady is None:
        return SuggestionDocument(None, None, "measured")
    told = sum(row.measured or 0 for row in rows.values() if row.source == "engine")
    padded = int(max(steady, told) * MARGIN)
    basis: Literal["measured", "engine"] = "engine" if told > steady else "measured"
    higher = peak is not None and peak > padded
    if peak is None or not (higher or (stated_peak is not None and stated_peak < padded)):
        return SuggestionDocument(readable_size(padded), None, basis)
    return SuggestionDocument(readable_size(padded), readable_size(max(int(peak * MARGIN), padded)), basis)


def measure_json(document: MeasureDocument, notes: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the document of `schemas/measure.v1.json`, with further notes."""
    return as_json(replace(document, notes=(*document.notes, *notes)))


def _row(
    kind: Kind, estimated: int | None, measured: int | None, source: Literal["processes", "engine"]
) -> ComparisonDocument:
    off = None if estimated is None or measured is None else measured - estimated
    return ComparisonDocument(
        kind=kind,
        estimated=estimated,
        measured=measured,
        source=source,
        off=off,
        off_share=off / estimated if off is not None and estimated else None,
    )
