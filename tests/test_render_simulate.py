"""What people and programs read of a simulation: whole texts as golden files, JSON against its schema."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import simulate_samples as samples
from golden_files import assert_golden
from reconciler.core.types import Reason
from reconciler.render import simulate_text as text
from reconciler.render.schemas import simulate_schema
from reconciler.render.simulate_shapes import SimulateDocument, UnknownDocument
from reconciler.render.simulate_tables import NAMED_CLIENTS
from reconciler.simulate.report import Run, report
from reconciler.simulate.result import Action, Result, Waits
from reconciler.simulate.scene import decisions

LONG = "an-organisation/with-a-rather-long-name-for-its-model-Q4_K_M"


def shown(document: SimulateDocument, **options: Any) -> str:
    return text.simulate_text(text.simulate_json(document), **options)


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("simulate.txt", samples.one_run),
        ("simulate-two.txt", lambda: samples.runs(2)),
        ("simulate-side-by-side.txt", lambda: samples.runs(4)),
        ("simulate-many.txt", lambda: samples.runs(6)),
    ],
)
def test_the_text(name: str, made: Callable[[], SimulateDocument]) -> None:
    said = shown(made())
    assert_golden(name, said + "\n")
    assert max(len(line) for line in said.split("\n")) <= text.WIDTH
    assert "\x1b" not in said


def test_the_json_follows_its_schema() -> None:
    for made in (samples.one_run(), samples.runs(4)):
        document = text.simulate_json(made)
        jsonschema.validate(document, simulate_schema())
    assert_golden("simulate.json", json.dumps(text.simulate_json(samples.one_run()), indent=2) + "\n")


def test_long_names_go_on_in_the_next_line_and_figures_stay_whole() -> None:
    result = samples.result()
    long = replace(
        result,
        models={LONG: replace(result.models["chat"], cold_seconds=123456.0, longest=98765.0)},
        sizes={LONG: None},
        clients={LONG * 2: result.models["chat"]},
    )
    run = Run(f"manifests/{LONG}.yaml", samples.layout("x"), long)
    said = shown(report(samples.trace_document(), None, [run], clients=True))
    assert max(len(line) for line in said.split("\n")) <= text.WIDTH
    assert "123456 s  98765 s" in said
    assert LONG in "".join(line.split()[0] for line in said.split("\n") if line.strip())


def test_a_terminal_is_shown_the_best_in_colour_and_names_cannot_drive_it() -> None:
    made = samples.runs(2)
    odd = replace(made, runs=(replace(made.runs[0], name="\x1b[31mred"), made.runs[1]))
    said = shown(odd, colour=True)
    assert "\x1b[32m" in said
    assert "\x1b[31m" not in said
    assert "\\x1b[31mred" in said


def test_names_that_look_like_markup_are_shown_as_they_are() -> None:
    result = samples.result()
    odd = replace(result, models={"[bold]": result.models["chat"]}, sizes={"[bold]": None})
    assert "[bold]" in shown(
        report(samples.trace_document(), None, [Run("m", samples.layout("x"), odd)], clients=False)
    )


def test_ratios_are_to_the_first_run_and_nothing_is_divided_by_zero() -> None:
    document = text.simulate_json(samples.runs(2))
    assert document["runs"][0]["against"] is None
    assert document["runs"][1]["against"]["cold_seconds"] == pytest.approx(10 / 12)
    assert document["runs"][1]["against"]["p50"] is None


def test_prewarms_are_counted_by_what_became_of_them() -> None:
    result = samples.result()
    more = Action("load", "embed", Reason.PREWARM, result.ended - 20, result.ended - 19)
    run = Run("m", samples.layout("x"), replace(result, actions=(*result.actions, more)))
    found = report(samples.trace_document(), None, [run], clients=False).runs[0].prewarms
    assert (found.begun, found.used, found.in_vain, found.aborted) == (3, 1, 1, 1)
    assert found.precision == 1 / 2
    assert found.recall == 1 / (1 + 6)


def test_nothing_happened() -> None:
    nothing = Result(
        "m", 8 * samples.HOUR, 8 * samples.HOUR, Waits(), {}, {}, (), {}, 0, 0.0, 0, {}, 0.0, 0.0
    )
    made = report(samples.trace_document(), None, [Run("m", samples.layout("x"), nothing)], clients=True)
    run = made.runs[0]
    assert (run.slot_share, run.waits.cold_share, run.prewarms.precision, run.prewarms.recall) == (
        0,
        0,
        None,
        None,
    )
    jsonschema.validate(text.simulate_json(made), simulate_schema())
    assert ["cold", "wait", "0", "s"] in [line.split() for line in shown(made).split("\n")]
    assert "MODEL" not in shown(made)


def test_more_clients_than_are_named_are_counted() -> None:
    result = samples.result()
    waits = Waits(requests=3, served=3, cold=1, cold_seconds=2.0)
    many = replace(result, clients={f"client-{n:03}": waits for n in range(NAMED_CLIENTS + 5)})
    said = shown(
        report(samples.trace_document(), None, [Run("m", samples.layout("x"), many)], clients=True)
    ).split("\n")
    assert next(line for line in said if "5 more" in line).split() == ["5", "more", "15", "10.0", "s"]
    assert sum(line.startswith("client-") for line in said) == NAMED_CLIENTS


def test_names_that_no_model_has_are_said_with_what_was_meant() -> None:
    unknown = [UnknownDocument("choder", 4, "coder"), UnknownDocument("gpt-4\x1b", 1, None)]
    unknown += [UnknownDocument(f"x{n}", 2, None) for n in range(4)]
    assert text.unknown_lines(unknown) == [
        'no model is called "choder": 4 requests refused (did you mean "coder"?)',
        'no model is called "gpt-4\\x1b": 1 request refused',
        'no model is called "x0": 2 requests refused',
        "3 further names of the trace without a model: 6 requests refused",
    ]


def test_the_decisions_say_what_when_why_and_for_whom() -> None:
    result = samples.result("cost")
    lines = list(decisions([result, samples.result("lru")]))
    assert len(lines) == 2 * len(result.actions)
    first = next(line for line in lines if line["action"] == "evict")
    assert first == {
        "run": "cost",
        "t": 28860.0,
        "action": "evict",
        "model": "chat",
        "why": "MakeRoom",
        "for": "coder",
        "seconds": 2.0,
        "aborted": False,
        "wanted_after": 48.0,
        "used_after": None,
    }


def test_the_committed_schema_is_what_the_code_says() -> None:
    committed = Path(__file__).parents[1] / "schemas" / "simulate.v1.json"
    assert json.loads(committed.read_text("utf-8")) == simulate_schema()
