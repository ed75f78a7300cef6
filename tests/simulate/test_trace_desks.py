"""Made-up traces are the same for the same seed, and of the kind that they are called."""

import hashlib
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from examples.traces import desks, kinds
from examples.traces.days import DAY
from reconciler.manifest import load_manifest
from reconciler.manifest.machine_file import load_machine
from reconciler.simulate.trace import Trace
from reconciler.simulate.trace_order import ascends
from reconciler.simulate.trace_read import read_trace
from trace_files import OPEN, columns

REPOSITORY = Path(__file__).resolve().parents[2]


def asked(trace: Trace) -> Counter[str]:
    """Return how often each model is asked for."""
    return Counter({trace.models[number]: count for number, count in Counter(trace.model).items()})


@pytest.mark.parametrize("kind", sorted(kinds.KINDS))
def test_a_kind_is_the_same_for_the_same_seed(kind: str, tmp_path: Path) -> None:
    made, again, other = kinds.make(kind, 5), kinds.make(kind, 5), kinds.make(kind, 6)
    assert (made.manifest, made.machine, columns(made.trace)) == (
        again.manifest,
        again.machine,
        columns(again.trace),
    )
    assert columns(made.trace) != columns(other.trace)
    assert ascends(made.trace.at)
    assert 300 < len(made.trace) < 15_000
    (tmp_path / "manifest.yaml").write_text(made.manifest)
    (tmp_path / "machine.yaml").write_text(made.machine)
    applied = load_manifest(tmp_path / "manifest.yaml", environ=os.environ)
    machine = load_machine(tmp_path / "machine.yaml", applied.launches, os.environ)
    assert set(machine.speeds) == set(applied.launches) >= set(made.trace.models)
    assert machine.memory == applied.manifest.memory
    # All together do not fit, or there would be nothing to decide; the largest does.
    sizes = [model.steady or 0 for model in applied.manifest.models]
    assert max(sizes) <= machine.memory < sum(sizes)


def test_the_seed_alone_decides(tmp_path: Path) -> None:
    """Not the order of hashes, not the clock: the same bytes from another process."""
    digests = set()
    for seed in ("1", "2"):
        command = [sys.executable, "examples/traces/desks.py", "desk-b", "--days", "2", "--seed", "3"]
        out = subprocess.run(
            command,
            cwd=REPOSITORY,
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        digests.add(hashlib.sha256(out).hexdigest())
    (tmp_path / "x.csv").write_bytes(out)
    assert len(digests) == 1
    assert columns(read_trace(tmp_path / "x.csv")) == columns(desks.desk("desk-b", 2, 3))


@pytest.mark.parametrize("name", sorted(desks.DESKS))
def test_the_desks_ask_for_models_they_have(name: str) -> None:
    applied = load_manifest(REPOSITORY / "examples" / name / "manifest.yaml", environ=os.environ)
    names = set(applied.launches) | set(applied.virtual)
    trace = desks.desk(name, 7, 1)
    assert set(trace.models) <= names
    assert len(asked(trace)) >= 5
    assert 6 * DAY < trace.at[-1] < 7.5 * DAY
    assert columns(trace) != columns(desks.desk(name, 7, 2))


def test_a_large_one_has_as_many_requests_as_are_asked_for(tmp_path: Path) -> None:
    assert desks.main(["large", "--requests", "20000", "--to", str(tmp_path / "x.csv.gz")]) == 0
    trace = read_trace(tmp_path / "x.csv.gz")
    assert len(trace) == 20_000
    assert len(asked(trace)) == 12
    assert columns(trace) == columns(desks.large(20_000, 1))


def test_more_days_begin_like_fewer() -> None:
    """A day's requests do not depend on how many days there are."""
    two, five = desks.desk("desk-a", 2, 1), desks.desk("desk-a", 5, 1)
    before = sum(at < DAY for at in two.at)
    assert two.at[:before] == five.at[:before]


def test_kinds_do_what_they_are_called() -> None:
    drift = kinds.make("drift", 2).trace
    begin = next(i for i, at in enumerate(drift.at) if at >= 3 * DAY + 8 * 3600)
    late = {drift.models[number] for number in drift.model[begin:]}
    early = {drift.models[number] for number in drift.model[:begin]}
    assert "plan-70b" in late - early
    night = kinds.make("night", 2).trace
    big = night.models.index("big-120b")
    assert {
        int(at % DAY // 3600) for at, model in zip(night.at, night.model, strict=True) if model == big
    } <= {1, 2}
    weekend = kinds.make("weekend", 2).trace
    coder = weekend.models.index("coder-30b")
    assert {
        int(at // DAY) for at, model in zip(weekend.at, weekend.model, strict=True) if model == coder
    } <= {*range(5)}


def test_the_files_of_a_kind_are_written(tmp_path: Path) -> None:
    assert kinds.main(["agent", "--seed", "4", "--to", str(tmp_path / "new")]) == 0
    made = kinds.make("agent", 4)
    assert (tmp_path / "new/manifest.yaml").read_text() == made.manifest
    assert columns(read_trace(tmp_path / "new/trace.csv.gz")) == columns(made.trace)


@pytest.mark.parametrize("folder", sorted(OPEN.glob("*/")), ids=lambda p: p.name)
def test_the_open_traces_have_a_budget_of_exactly_the_memory(folder: Path) -> None:
    applied = load_manifest(folder / "manifest.yaml", environ=os.environ)
    machine = load_machine(folder / "machine.yaml", applied.launches, os.environ)
    assert machine.memory == applied.manifest.memory
    assert applied.manifest.reserve == 0
    assert set(machine.speeds) == set(applied.launches)
    assert {model.priority for model in applied.manifest.models} == {500}
    assert set(read_trace(folder / "trace.csv.gz").models) <= set(applied.launches)


def test_the_open_traces_are_small() -> None:
    assert sum(path.stat().st_size for path in OPEN.rglob("*") if path.is_file()) < 600_000
