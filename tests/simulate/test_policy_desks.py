"""Desks that have a name, each with a figure against LRU."""

from pathlib import Path

import pytest

from benchmarks.policies import VARIANTS
from benchmarks.policy_desks import desk, in_folder
from examples.traces.catalogue import Kind, machine_text, manifest_text
from policy_runs import cold_ratio, outcome, result
from reconciler.core.types import Reason
from reconciler.simulate.adviser import Adviser
from reconciler.simulate.result import Result
from reconciler.simulate.rivals import rivals
from reconciler.simulate.trace import Trace
from reconciler.simulate.trace_read import write_trace

AGENT, RAG, NIGHT = "o03_five_agent", "o02_five_rag", "o07_twelve_night"


@pytest.mark.parametrize("variant", ["off", "free", "full"])
def test_an_agent_that_alternates_between_two_that_exclude_each_other_waits_as_with_lru(variant: str) -> None:
    # No rule helps there: what counts is that none does harm, and that the pair is named.
    assert 0.9 < cold_ratio(AGENT, variant) <= 1.01
    assert outcome(AGENT, variant).loads <= outcome(AGENT, "plain").loads
    layout, _ = desk(AGENT)
    pairs = rivals(Adviser(layout, described=True), result(AGENT, variant))
    assert pairs
    assert pairs[0].models == ("chat-70b", "coder-30b")


@pytest.mark.parametrize(("variant", "most"), [("off", 0.65), ("free", 0.60), ("full", 0.50)])
def test_ingesting_in_bursts_pushes_less_out(variant: str, most: float) -> None:
    assert cold_ratio(RAG, variant) <= most
    assert outcome(RAG, variant).loads < outcome(RAG, "plain").loads
    assert outcome(RAG, variant).regrets <= 0.5 * outcome(RAG, "plain").regrets


@pytest.mark.parametrize(("variant", "most"), [("off", 0.99), ("free", 0.90), ("full", 0.65)])
def test_day_shift_and_night_shift_find_their_models(variant: str, most: float) -> None:
    assert cold_ratio(NIGHT, variant) <= most
    assert outcome(NIGHT, variant).loads <= 1.1 * outcome(NIGHT, "plain").loads


#: 58 of 60 GB are in use when the wrong model is asked for.
FULL_DESK = {
    "regular": Kind(44, 1, 2.0, 1.0, 1000, 50),
    "cheap": Kind(14, 1, 2.0, 1.0, 1000, 50),
    "wrong": Kind(14, 1, 2.0, 1.0, 1000, 50),
}
#: The regular one is asked every four minutes; the cheap one, and by mistake the wrong one, once, after it.
CALLS = [(240.0 * n, "regular") for n in range(20)] + [
    (4660.0, "cheap"),
    (4720.0, "wrong"),
    (4800.0, "regular"),
]


def wrong_call(folder: Path, variant: str) -> Result:
    speeds = {name: kind.speed(3.0) for name, kind in FULL_DESK.items()}
    (folder / "manifest.yaml").write_text(manifest_text(FULL_DESK, 60, "A full desk."), "utf-8")
    (folder / "machine.yaml").write_text(machine_text(speeds, 60), "utf-8")
    trace = Trace(models=sorted(FULL_DESK), clients=["anna"])
    for at, model in CALLS:
        trace.add(9 * 3600.0 + at, trace.models.index(model), 0, seconds=2.0)
    write_trace(trace, folder / "trace.csv.gz")
    return VARIANTS[variant].run(*in_folder(folder))


def gone(found: Result) -> list[str]:
    return [a.model for a in found.actions if a.kind == "evict" and a.reason is Reason.MAKE_ROOM]


def test_a_rare_wrong_call_on_a_full_desk_takes_the_cheap_one_s_place(tmp_path: Path) -> None:
    base, ours = wrong_call(tmp_path, "lru"), wrong_call(tmp_path, "off")
    assert gone(base)[0] == "regular"
    assert gone(ours) == ["cheap"]
    assert ours.models["regular"].cold == 1  # the first call of the day
    assert ours.total.cold_seconds <= 0.7 * base.total.cold_seconds
