"""What is kept of how the memory was: little while nothing changes, never much, and each change of the level."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from reconciler.core.memory import Memory
from reconciler.core.pressure import Level, Pressure
from reconciler.core.types import Account, Instance, Observation
from reconciler.samples import MOST, PACE_SECONDS, Sample, Samples, sample

TOTAL = 1 << 35
CALM = Sample(1000.0, 100, 50, 0, 10 << 30, 0.5, Level.CALM, relieving=False, models={"a": 1 << 30})


def kept(*noted: Sample) -> tuple[float, ...]:
    """Return the times of what is kept of samples."""
    samples = Samples()
    for one in noted:
        samples.note(one, TOTAL)
    return tuple(one.at for one in samples.since(0.0))


def later(seconds: float, **changes: object) -> Sample:
    return replace(CALM, at=CALM.at + seconds, **changes)  # type: ignore[arg-type]


def test_a_calm_hour_is_one_sample() -> None:
    assert kept(*(later(n, available=(10 << 30) + n * 1000) for n in range(0, 3600, 10))) == (1000.0,)


def test_changes_are_kept_some_seconds_apart() -> None:
    assert kept(CALM, *(later(n, held=n) for n in range(1, 26))) == (1000.0, 1010.0, 1020.0)
    assert kept(CALM, later(20, models={"a": 2 << 30})) == (1000.0, 1020.0)
    assert kept(CALM, later(20, models={"a": None})) == (1000.0, 1020.0)
    assert kept(CALM, later(20, models={})) == (1000.0, 1020.0)
    assert kept(CALM, later(20, available=None)) == (1000.0, 1020.0)


def test_another_level_is_always_kept() -> None:
    hard = later(0.1, level=Level.HARD)
    assert kept(CALM, hard, later(0.2, level=Level.HARD, relieving=True), later(0.3)) == (
        1000.0,
        hard.at,
        1000.2,
        1000.3,
    )


@given(st.lists(st.tuples(st.floats(0.1, 60), st.sampled_from(Level), st.integers(0, 3)), max_size=60))
def test_the_last_that_was_told_is_never_long_out_of_date(moves: list[tuple[float, Level, int]]) -> None:
    samples, now = Samples(), CALM.at
    for seconds, level, held in moves:
        now += seconds
        seen = replace(CALM, at=now, level=level, held=held)
        samples.note(seen, TOTAL)
        last = samples.since(now)[-1]
        assert last.level is level
        assert last.held == held or now - last.at < PACE_SECONDS


def test_it_is_bounded_and_the_newest_stay() -> None:
    samples = Samples()
    for n in range(2000):
        samples.note(later(n * PACE_SECONDS, held=n), TOTAL)
    found = samples.since(0.0)
    assert len(found) == MOST + 2
    assert found[-1].held == 1999


def test_the_one_that_held_when_a_time_began_is_there() -> None:
    samples = Samples()
    for n in range(5):
        samples.note(later(n * 10, held=n), TOTAL)
    assert [one.at for one in samples.since(1015.0)] == [1010.0, 1020.0, 1030.0, 1040.0]
    assert [one.at for one in samples.since(1010.0)] == [1010.0, 1020.0, 1030.0, 1040.0]
    assert [one.at for one in samples.since(9999.0)] == [1040.0]
    assert Samples().since(0.0) == ()


def test_a_sample_is_of_an_account_and_a_look() -> None:
    def process(model: str, pid: int, committed: int | None) -> Instance:
        return Instance(model, "d", pid, 1, 1, True, committed, 0, 0.0, 0.0)

    seen = Observation(
        1,
        0.0,
        Memory(TOTAL, 7),
        (
            process("b", 1, 5),
            process("a", 2, 3),
            process("a", 3, 4),
            process("c", 4, None),
            process("c", 5, 1),
        ),
        pressure=Pressure(Level.SOFT, 0.8, relieving=True),
    )
    assert sample(Account(9, 8, 1, 0), seen, 2.0) == Sample(
        2.0, 9, 8, 1, 7, 0.8, Level.SOFT, relieving=True, models={"a": 7, "b": 5, "c": None}
    )
