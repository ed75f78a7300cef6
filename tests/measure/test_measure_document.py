"""Estimate against measurement, and what to write into the manifest."""

import json
from dataclasses import replace

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from golden_files import assert_golden
from reconciler.core.memory import Estimate, Said
from reconciler.manifest.sizes import parse_size
from reconciler.render import schemas
from reconciler.render.measure_document import compare, measure_json, readable_size, suggest
from reconciler.render.measure_shapes import MeasureDocument, WrittenDocument
from reconciler.render.measure_text import measure_text

MIB = 1 << 20
GIB = 1 << 30


@given(st.integers(0, 400 * GIB))
def test_a_written_size_is_never_below_the_measured_and_little_above(count: int) -> None:
    written = parse_size(readable_size(count))
    assert written >= count
    assert written - count < max(MIB, count * 0.15)
    assert len(readable_size(count)) <= 7


@pytest.mark.parametrize(
    ("steady", "peak", "stated_peak", "expected"),
    [
        (1000 * MIB, 1000 * MIB, None, ("1.2GiB", None)),
        (1000 * MIB, 1199 * MIB, None, ("1.2GiB", None)),
        (1000 * MIB, 2000 * MIB, None, ("1.2GiB", "2.4GiB")),
        # A stated peak below the new steady size would make the manifest invalid.
        (1000 * MIB, 1000 * MIB, 1000 * MIB, ("1.2GiB", "1.2GiB")),
        (1000 * MIB, 1000 * MIB, 1300 * MIB, ("1.2GiB", None)),
        (1000 * MIB, None, None, ("1.2GiB", None)),
        (None, 5, None, (None, None)),
    ],
)
def test_what_to_write(
    steady: int | None, peak: int | None, stated_peak: int | None, expected: tuple[str | None, str | None]
) -> None:
    made = suggest(compare(None, None, steady, peak), stated_peak)
    assert (made.steady, made.peak) == expected
    assert made.basis == "measured"


@given(st.builds(Said, *(st.none() | st.integers(0, GIB) for _ in range(3))), st.integers(1, GIB))
def test_no_less_is_written_than_the_engine_says_it_set_up(said: Said, steady: int) -> None:
    made = suggest(compare(None, said, steady, steady), None)
    told = sum(part or 0 for part in (said.weights, said.context, said.compute))
    assert made.steady is not None
    assert parse_size(made.steady) >= int(max(told, steady) * 1.2)
    assert made.basis == ("engine" if told > steady else "measured")


def test_buffers_that_short_requests_did_not_touch_are_written_too() -> None:
    said = Said(weights=200 * MIB, context=256 * MIB, compute=486 * MIB)
    rows = compare(None, said, 566 * MIB, 570 * MIB)
    made = suggest(rows, None)
    assert (made.steady, made.peak, made.basis) == ("1.2GiB", None, "engine")
    text = measure_text(measure_json(replace(sample(), comparisons=rows, suggestion=made, stated=None)))
    assert "the 942 MiB of the engine (more than was in use) and a fifth: memory.steady: 1.2GiB" in text
    assert suggest(compare(None, said, None, None), None).steady is None, "nothing was measured"


def test_each_part_is_compared_with_what_the_engine_says_of_it() -> None:
    estimate = Estimate(100, 50, 10, 5, 5, loading=30)
    rows = {r.kind: r for r in compare(estimate, Said(weights=100, context=60), 180, 190)}
    assert (rows["context"].off, rows["context"].off_share, rows["context"].source) == (10, 0.2, "engine")
    assert (rows["compute"].measured, rows["compute"].off) == (None, None)
    assert (rows["steady"].estimated, rows["steady"].off) == (170, 10)
    assert (rows["peak"].estimated, rows["peak"].off) == (200, -10)
    assert [r.kind for r in compare(None, None, 1, 1)] == ["steady", "peak"]
    assert compare(None, None, 1, None)[0].off_share is None


def sample() -> MeasureDocument:
    estimate = Estimate(40 * GIB, int(2.5 * GIB), 400 * MIB, 0, 100 * MIB, loading=GIB)
    said = Said(weights=40 * GIB, context=int(2.6 * GIB), compute=600 * MIB)
    comparisons = compare(estimate, said, int(45.4 * GIB), int(45.9 * GIB))
    return MeasureDocument(
        model="chat",
        by="loop",
        seconds=10.0,
        load_seconds=18.2,
        comparisons=comparisons,
        committed=int(5.4 * GIB),
        warm=40 * GIB,
        device=GIB,
        fell=int(45.2 * GIB),
        stated=43 * GIB,
        suggestion=suggest(comparisons, None),
        written=None,
        notes=("a request was not answered (404: no): what it would have taken is not measured",),
    )


def test_as_people_read_it() -> None:
    document = measure_json(sample())
    jsonschema.Draft202012Validator(schemas.measure_schema()).validate(json.loads(json.dumps(document)))
    assert_golden("measure.txt", measure_text(document) + "\n")
    diff = "--- a\n+++ a\n@@ -1,2 +1,2 @@\n models:\n-  x: 1\n+  x: 2"
    written = replace(
        sample(), by="own", load_seconds=None, written=WrittenDocument("desk.yaml", diff), notes=()
    )
    assert_golden("measure-written.txt", measure_text(measure_json(written)) + "\n")
    same = replace(written, written=WrittenDocument("desk.yaml", ""))
    assert measure_text(measure_json(same)).endswith("desk.yaml says so already")


def test_nothing_measured_is_said() -> None:
    blind = replace(
        sample(),
        comparisons=compare(None, None, None, None),
        committed=None,
        suggestion=suggest(compare(None, None, None, None), None),
    )
    assert "its memory could not be read" in measure_text(measure_json(blind))


def test_colour_adds_codes_and_nothing_else() -> None:
    import re

    coloured = measure_text(measure_json(sample()), colour=True)
    assert "\x1b[33m" in coloured
    assert re.sub(r"\x1b\[\d+m", "", coloured) == measure_text(measure_json(sample()))
