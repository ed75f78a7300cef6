"""What the machine offers, and what a model is charged before it has run here."""

from dataclasses import replace

import pytest

from reconciler.core import book
from reconciler.core.memory import Estimate, GpuPool, Memory, Said, Watermarks
from reconciler.core.types import LedgerEntry, Manifest, Preflight
from worlds import GIB, MIB, model, running

MARKS = Watermarks(soft=0.6, hard=0.8, critical=0.9, target=0.6)


def manifest(
    memory: int | None = None, reserve: float | int = 0.1, marks: Watermarks | None = MARKS
) -> Manifest:
    return Manifest((), 1, None if memory is None else memory * GIB, reserve, watermarks=marks)


def machine(total: int | None, available: int | None = None, gpu: GpuPool | None = None) -> Memory:
    return Memory(
        None if total is None else total * GIB, None if available is None else available * GIB, gpu=gpu
    )


@pytest.mark.parametrize(
    ("wanted", "memory", "budget", "floor"),
    [
        # The hard mark leaves less than the reserve would.
        (manifest(), machine(100), 80, 20),
        (manifest(marks=None), machine(100), 90, 10),
        # The reserve is the larger: it binds both.
        (manifest(reserve=0.3), machine(100), 70, 30),
        (manifest(reserve=30 * GIB), machine(100), 70, 30),
        # A stated memory bounds what models hold together; the mark is of the whole machine.
        (manifest(50), machine(100), 45, 20),
        (manifest(500), machine(100), 80, 20),
        # A GPU's ceiling is inside the memory, not on top of it.
        (manifest(), machine(100, gpu=GpuPool(60 * GIB)), 60, 20),
        (manifest(), machine(100, gpu=GpuPool(96 * GIB)), 80, 20),
        (manifest(), machine(100, gpu=GpuPool(None)), 80, 20),
        (manifest(), machine(None), None, None),
        (manifest(50), machine(None), 45, 5),
        (manifest(reserve=200 * GIB), machine(100), 0, 200),
    ],
)
def test_budget_and_floor(wanted: Manifest, memory: Memory, budget: int | None, floor: int | None) -> None:
    assert book.budget(wanted, memory) == (None if budget is None else budget * GIB)
    assert book.floor(wanted, memory) == (None if floor is None else floor * GIB)


def test_the_soft_mark_never_offers_more_than_the_hard_one() -> None:
    assert [book.mark(manifest(), soft=soft) for soft in (False, True)] == [0.8, 0.6]
    assert [book.mark(manifest(marks=None), soft=soft) for soft in (False, True)] == [1.0, 1.0]
    assert book.mark(manifest(marks=replace(MARKS, soft=0.9)), soft=True) == 0.8


@pytest.mark.parametrize(
    ("memory", "share", "capacity"),
    [
        # 30 available and 20 held, less the floor.
        (machine(100, 30), None, 30),
        (machine(100, 30), 0.6, 10),
        (machine(100, 100), None, 80),
        (machine(100, 5), None, 5),
        (machine(100, 0), None, 0),
        (machine(100, None), None, None),
        # Others hold 40 of the 60 that the GPU may use; 10 of what is in use there is ours.
        (machine(100, 100, GpuPool(60 * GIB, 50 * GIB)), None, 20),
        (machine(100, 100, GpuPool(60 * GIB, 5 * GIB)), None, 60),
        (machine(100, 100, GpuPool(60 * GIB, None)), None, 60),
    ],
)
def test_capacity_is_bounded_by_what_is_really_there(
    memory: Memory, share: float | None, capacity: int | None
) -> None:
    ours = [replace(running("a", 20 * 1024), device=10 * GIB), running("b", None)]
    assert book.capacity(manifest(), memory, ours, share) == (None if capacity is None else capacity * GIB)


# -- size ----------------------------------------------------------------------------------------------------------

PARTS = Estimate(weights=300 * MIB, context=100 * MIB, compute=50 * MIB, loading=40 * MIB)
FLIGHT = Preflight("a", steady=PARTS.steady, peak=PARTS.peak, parts=PARTS, build="b2")
ENTRY = LedgerEntry("a", "a-v1", build="b2")


@pytest.mark.parametrize(
    ("entry", "size", "need"),
    [
        (None, 450, 490),
        (ENTRY, 450, 490),
        # What the engine said it took stands in place of what was worked out, more or less.
        (replace(ENTRY, said=Said(context=20 * MIB)), 370, 410),
        (replace(ENTRY, said=Said(context=200 * MIB, compute=80 * MIB)), 580, 620),
        (replace(ENTRY, said=Said(weights=999 * MIB)), 450, 490),
        # What was measured counts where it is more.
        (replace(ENTRY, peak=600 * MIB), 600, 600),
        (replace(ENTRY, peak=400 * MIB), 450, 490),
        (replace(ENTRY, peak=400 * MIB, said=Said(context=20 * MIB)), 400, 410),
        # Another build of the engine: nothing it held or said counts.
        (replace(ENTRY, peak=600 * MIB, said=Said(context=MIB), build="b1"), 450, 490),
        # Not known which build: it counts.
        (replace(ENTRY, peak=600 * MIB, build=""), 600, 600),
    ],
)
def test_an_estimate_is_corrected_by_what_was_said_and_measured(
    entry: LedgerEntry | None, size: int, need: int
) -> None:
    spec = model("a", None)
    found = book.size(spec, FLIGHT, entry)
    assert found == size * MIB
    assert book.load_need(spec, FLIGHT, entry, found) == need * MIB


def test_what_was_said_completes_an_estimate_that_was_unknown() -> None:
    parts = replace(PARTS, context=None)
    flight = replace(FLIGHT, steady=None, peak=None, parts=parts)
    assert book.size(model("a", None), flight, None) is None
    assert book.size(model("a", None), flight, replace(ENTRY, said=Said(context=MIB))) == 351 * MIB


def test_a_stated_size_is_not_corrected_by_an_estimate() -> None:
    said = replace(ENTRY, said=Said(context=900 * MIB))
    assert book.size(model("a", 200), FLIGHT, said) == 200 * MIB
    assert book.size(model("a", 200), None, replace(said, peak=210 * MIB)) == 210 * MIB


@pytest.mark.parametrize(("build", "kept"), [("b2", True), ("", True), ("b3", False)])
def test_a_load_with_another_build_forgets_what_the_old_one_held(build: str, kept: bool) -> None:
    entry = replace(ENTRY, peak=9 * MIB, said=Said(context=MIB), failures=2)
    begun = book.begun(entry, build)
    assert begun == (entry if kept else replace(entry, peak=0, said=None, build="b3"))


def test_a_load_notes_its_build_and_what_was_said() -> None:
    done = book.loaded(replace(ENTRY, retry_at=9.0, failures=1), 3.0, "b3", Said(context=MIB))
    assert (done.load_seconds, done.build, done.said, done.retry_at, done.failures) == (
        3.0,
        "b3",
        Said(context=MIB),
        None,
        1,
    )


@pytest.mark.parametrize(
    ("ready", "mib", "peak"),
    [
        (True, 60, 60),  # it serves: what it holds is what it takes
        (False, 0, 0),  # it ended at once, and held next to nothing
        (False, 60, 0),  # it may be half loaded
        (False, 101, 101),  # more than it was let in at is known to be possible
    ],
)
def test_what_a_model_holds_counts_once_it_is_ready_or_beyond_what_it_was_let_in_at(
    ready: bool, mib: int, peak: int
) -> None:
    seen = running("chat", mib, ready=ready, admitted=100 * MIB)
    assert book.measured(LedgerEntry("chat", "chat-v1"), seen).peak == peak * MIB
