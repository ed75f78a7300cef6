"""Where the figures of a simulation come from, as people read it."""

from dataclasses import replace
from typing import Any

import pytest

import simulate_samples as samples
from reconciler.render import simulate_text as text
from reconciler.render.simulate_origins import origin_lines
from reconciler.simulate.layout import Origin, Origins, Speed
from reconciler.simulate.report import Run, report

MEASURED, STATED = Origin.MEASURED, Origin.STATED
ALL = {name: Origins(*[MEASURED] * 5) for name in samples.SIZES}
MIXED = {
    "chat": Origins(load=MEASURED, evict=MEASURED),
    "coder": Origins(load=STATED, output=STATED),
    "embed": Origins(),
}


def made(origins: dict[str, Origins], manifest: str = "desk.yaml") -> Run:
    speeds = {name: Speed(10.0, origins=found) for name, found in origins.items()}
    return Run(manifest, replace(samples.layout("desk.yaml"), speeds=speeds), samples.result())


def lines(*runs: Run, **trace: Any) -> list[str]:
    document = text.simulate_json(report(samples.trace_document(**trace), None, list(runs), clients=False))
    return origin_lines(document["trace"], document["runs"])


@pytest.mark.parametrize(
    ("origins", "timed", "told"),
    [
        (ALL, 0, ["loads, evictions and answers: measured here"]),
        (
            ALL,
            12,
            [
                "loads, evictions and answers: measured here",
                "answers to 12 requests: as long as the trace says",
            ],
        ),
        (ALL, 240, ["loads and evictions: measured here", "answers: as long as the trace says"]),
        (
            MIXED,
            0,
            [
                "loads: measured here for chat; as described for coder; assumed by size for embed",
                "evictions: measured here for chat; assumed by size for coder, embed",
                "answers: in part as described for coder; assumed by size for chat, embed",
            ],
        ),
    ],
)
def test_what_is_measured_stated_and_assumed(
    origins: dict[str, Origins], timed: int, told: list[str]
) -> None:
    assert lines(made(origins), timed=timed) == told


def test_manifests_that_differ_in_it_are_told_apart_and_others_are_not_repeated() -> None:
    assert lines(made(ALL), made(ALL, "smaller.yaml")) == ["loads, evictions and answers: measured here"]
    assert lines(made(ALL), made({name: Origins() for name in samples.SIZES}, "smaller.yaml")) == [
        "desk.yaml: loads, evictions and answers: measured here",
        "smaller.yaml: loads, evictions and answers: assumed by size",
    ]


def test_a_model_that_was_neither_asked_for_nor_loaded_is_left_out() -> None:
    run = made({**ALL, "idle": Origins()})
    run = replace(run, result=replace(run.result, sizes={**samples.SIZES, "idle": 1}))
    assert lines(run) == ["loads, evictions and answers: measured here"]
