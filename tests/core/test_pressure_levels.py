"""Looks at a machine over time, and what is made of them. A second is a second; use is the share of 100 GiB."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest

from reconciler.core.memory import Memory, Stall, Swap, Watermarks
from reconciler.core.pressure import Level, Pressure, evicted, next_look, observe, share_used
from worlds import GIB, MIB

TOTAL = 100 * GIB
MARKS = Watermarks()


def memory(used: float | None, swap: Swap | None = None, stall: Stall | None = None) -> Memory:
    available = None if used is None else round((1 - used) * TOTAL)
    return Memory(TOTAL, available, swap=swap or Swap(), stall=stall or Stall())


Look = tuple[float, Memory]


def judge(
    looks: Iterable[Look],
    before: Pressure | None = None,
    marks: Watermarks | None = MARKS,
    max_swap: int | None = None,
) -> Pressure:
    """What stands after the last of these looks."""
    found = before or Pressure()
    for at, seen in looks:
        found = observe(found, seen, 0, marks, max_swap, at)
    return found


def steady(used: float | None, start: float, end: float, pace: float = 1.0) -> Iterator[Look]:
    """The same use at every look of this time, both ends included."""
    count = round((end - start) / pace)
    return ((start + i * pace, memory(used)) for i in range(count + 1))


# -- the marks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("used", "level", "relieving", "excess", "cause"),
    [
        (0.5, Level.CALM, False, 0, ""),
        (0.74, Level.CALM, False, 0, ""),
        (0.75, Level.SOFT, False, 0, "75 % of the memory is in use, the soft mark is 75 %"),
        (0.84, Level.SOFT, False, 9 * GIB, "84 % of the memory is in use, the soft mark is 75 %"),
        (0.851, Level.HARD, True, round(10.1 * GIB), "85 % of the memory is in use, the hard mark is 85 %"),
        (0.97, Level.CRITICAL, True, 22 * GIB, "97 % of the memory is in use, the critical mark is 95 %"),
    ],
)
def test_the_mean_use_of_the_window_decides_the_level(
    used: float, level: Level, relieving: bool, excess: int, cause: str
) -> None:
    found = judge(steady(used, 0, 20))
    assert (found.level, found.relieving, found.evident) == (level, relieving, relieving)
    assert found.used == pytest.approx(used)
    assert found.excess == pytest.approx(excess, abs=MIB)
    assert found.cause == cause


def test_without_marks_nothing_is_ever_the_matter() -> None:
    stalled = memory(0.99, stall=Stall(some=90.0, full=90.0, level=4))
    found = judge(((t, stalled) for t in range(30)), marks=None)
    assert found == Pressure()
    assert next_look(found, None, 30.0) is None


def test_warm_pages_of_our_models_count_as_used_though_the_kernel_calls_them_free() -> None:
    half = memory(0.5)
    assert share_used(half, 0) == pytest.approx(0.5)
    assert share_used(half, 30 * GIB) == pytest.approx(0.8)
    assert share_used(half, 80 * GIB) == 1.0
    assert share_used(Memory(TOTAL, TOTAL + GIB), 0) == 0.0
    assert share_used(Memory(TOTAL, None), 0) is None
    assert share_used(Memory(None, GIB), 0) is None
    assert share_used(Memory(0, 0), 0) is None


# -- one reading is not enough ---------------------------------------------------------------------------------

CALM_STALL = Stall(some=0.0, full=0.0, level=1, compressed=0)
WORST = [
    memory(1.0),
    memory(0.8, stall=Stall(level=4)),
    memory(0.8, stall=Stall(some=99.0, full=99.0)),
    memory(0.8, stall=Stall(compressed=50 * GIB)),
    memory(0.8, swap=Swap(used=90 * GIB, written=50 * GIB, read=50 * GIB)),
]


@pytest.mark.parametrize("pace", [0.2, 1.0, 10.0])
@pytest.mark.parametrize("worst", WORST)
def test_one_reading_evicts_nobody_whatever_it_says(worst: Memory, pace: float) -> None:
    """Between the target and the hard mark, where a latch would hold for ever once it had fallen."""
    normal = memory(0.8, Swap(used=90 * GIB, written=0, read=0), CALM_STALL)
    after = replace(normal, swap=worst.swap if worst.swap.written else normal.swap)
    looks = [(t * pace, normal) for t in range(-100, 0)] + [(0.0, worst)]
    found = judge(looks, max_swap=10 * GIB)
    assert not found.evident
    assert not found.relieving
    for second in range(1, 40):
        found = judge([(float(second), after)], found, max_swap=10 * GIB)
        assert not found.relieving, f"after {second} s"


def test_many_looks_within_a_moment_weigh_no_more_than_one() -> None:
    """Every request wakes the loop, and the loop looks."""
    burst = [(9.5 + i / 100, memory(0.99)) for i in range(50)]
    found = judge([*steady(0.7, 0, 9), *burst])
    assert found.level < Level.HARD
    first = judge([(0.0, memory(0.7)), *((20.0 + i / 100, memory(0.99)) for i in range(50))])
    assert first.level is Level.CRITICAL
    assert not first.evident


# -- when the first goes ---------------------------------------------------------------------------------------


def _goes_at(found: Pressure, used: float, start: float, pace: float = 1.0) -> float | None:
    """Seconds from `start` on at which a model would go, were this the use from then on."""
    for count in range(round(60 / pace)):
        found = judge([(start + count * pace, memory(used))], found)
        if found.evident:
            return count * pace
    return None


@pytest.mark.parametrize(
    ("normal", "used", "seconds"),
    [
        # The look before is older than the window: what counts is how long the looks since then say so.
        (0.5, 0.90, 5.0),
        (0.8, 0.90, 5.0),
        (0.5, 0.97, 2.0),
        (0.5, 0.84, None),
    ],
)
def test_a_jump_seen_by_the_first_look_in_ten_seconds(
    normal: float, used: float, seconds: float | None
) -> None:
    calm = judge(steady(normal, 0, 50, pace=10))
    first = judge([(60.0, memory(used))], calm)
    assert not first.evident
    assert next_look(first, MARKS, 60.0) == 61.0
    assert _goes_at(calm, used, 60.0) == seconds


def _first(found: dict[int, Pressure], *, evident: bool = False) -> int:
    return next(t for t, p in found.items() if (p.evident if evident else p.level >= Level.HARD))


def test_a_jump_is_judged_by_its_share_of_the_window() -> None:
    """From 70 % to 94 % the mean passes 85 % with the seventh look; by then all looks have said so for 6 seconds."""
    before = judge(steady(0.7, 0, 20))
    seen = {t: judge([*steady(0.94, 21, 20 + t)], before) for t in range(1, 14)}
    assert (_first(seen), _first(seen, evident=True)) == (7, 7)


def test_where_looks_differ_the_mean_itself_must_have_said_it_for_a_while() -> None:
    before = judge(steady(0.7, 0, 20))
    looks = [(20.0 + t, memory(0.80 if t % 3 == 0 else 0.94)) for t in range(1, 20)]
    seen = {t: judge(looks[:t], before) for t in range(1, 20)}
    assert _first(seen, evident=True) == _first(seen) + 5


def test_critical_needs_less_evidence_than_hard() -> None:
    assert _goes_at(Pressure(), 0.9, 0.0, pace=0.5) == 5.0
    assert _goes_at(Pressure(), 0.96, 0.0, pace=0.5) == 2.0


def test_a_break_begins_the_evidence_anew() -> None:
    looks = [*steady(0.86, 0, 4), (4.5, memory(0.1)), *steady(0.86, 5, 20)]
    times = [at for at, _seen in looks if judge(x for x in looks if x[0] <= at).evident]
    assert times[0] > 5 + 4.5


# -- down to the target ----------------------------------------------------------------------------------------


def test_it_is_relieved_down_to_the_target_and_not_only_below_the_hard_mark() -> None:
    found = judge(steady(0.9, 0, 10))
    between = judge(steady(0.8, 11, 40), found)
    assert (between.level, between.relieving, between.evident) == (Level.SOFT, True, True)
    assert between.cause == "80 % of the memory is in use, to be brought below 75 %"
    assert between.excess == pytest.approx(5 * GIB, abs=MIB)
    below = judge(steady(0.74, 41, 60), between)
    assert (below.level, below.relieving, below.evident, below.cause) == (Level.CALM, False, False, "")


def test_below_the_hard_mark_nothing_is_relieved_that_had_not_passed_it() -> None:
    assert not judge(steady(0.84, 0, 60)).relieving


def test_after_one_has_gone_there_must_be_new_evidence() -> None:
    gone = evicted(judge(steady(0.9, 0, 10)))
    assert (gone.relieving, gone.evident, gone.samples) == (True, False, ())
    assert _goes_at(gone, 0.88, 11.0) == 5.0
    assert _goes_at(gone, 0.80, 11.0) == 5.0, "it is not below the target yet"
    assert _goes_at(gone, 0.97, 11.0) == 2.0
    assert _goes_at(gone, 0.70, 11.0) is None


def test_that_it_is_over_needs_evidence_too() -> None:
    """Otherwise the model that went would come back before the looks could say anything of swap."""
    gone = evicted(judge(steady(0.9, 0, 10)))
    assert [judge(steady(0.4, 11, 11 + t), gone).relieving for t in range(7)] == [True] * 5 + [False] * 2


# -- what is not known -----------------------------------------------------------------------------------------


def test_unknown_memory_has_no_level_and_evicts_nobody() -> None:
    found = judge(steady(None, 0, 30))
    assert (found.level, found.used, found.relieving, found.evident) == (Level.CALM, None, False, False)


def test_unknown_looks_among_known_ones_are_left_out() -> None:
    looks = [(float(t), memory(None if t % 2 else 0.9)) for t in range(21)]
    found = judge(looks)
    assert found.used == pytest.approx(0.9)
    assert found.level is Level.HARD


def test_memory_that_becomes_unknown_is_neither_relieved_further_nor_called_relieved() -> None:
    found = judge(steady(None, 11, 40), judge(steady(0.9, 0, 10)))
    assert (found.relieving, found.evident) == (True, False)
    assert not judge(steady(0.5, 41, 60), found).relieving


# -- swap ------------------------------------------------------------------------------------------------------


def swapping(
    out: float, back: float = 0.0, *, pace: float = 1.0, seconds: float = 20, used: int = 0
) -> list[Look]:
    """So many MiB a second written and read, on a machine that is half empty."""
    times = [i * pace for i in range(round(seconds / pace) + 1)]
    return [
        (t, memory(0.5, Swap(used=used, written=int(out * t * MIB), read=int(back * t * MIB)))) for t in times
    ]


@pytest.mark.parametrize("pace", [0.5, 1.0, 10.0])
@pytest.mark.parametrize(
    ("out", "level", "cause"),
    [
        (0.0, Level.CALM, ""),
        (0.05, Level.CALM, ""),
        (0.2, Level.SOFT, "the machine swaps out 0.2 MiB/s"),
        (20.0, Level.HARD, "the machine swaps out 20.0 MiB/s"),
    ],
)
def test_growth_of_swap_counts_also_where_use_looks_fine(
    out: float, level: Level, cause: str, pace: float
) -> None:
    found = judge(swapping(out, pace=pace))
    assert (found.level, found.cause) == (level, cause)
    # At ten seconds from look to look the second one is the first that can tell, the third that it lasts.
    assert found.evident == (level is Level.HARD)
    assert found.excess == 0


def test_swap_that_lies_there_is_no_pressure() -> None:
    lying = memory(0.5, Swap(total=100 * GIB, used=90 * GIB, written=80 * GIB, read=70 * GIB))
    assert judge((float(t), lying) for t in range(30)).level is Level.CALM


def test_a_burst_of_swap_that_has_ended_evicts_nobody() -> None:
    looks = [(0.0, memory(0.5, Swap(written=0)))]
    looks += [(10.0 + t, memory(0.5, Swap(written=500 * MIB))) for t in range(30)]
    assert judge(looks[:2]).level is Level.HARD
    assert not any(judge(looks[:n]).evident for n in range(len(looks)))
    assert judge(looks).level is Level.CALM


@pytest.mark.parametrize(
    ("used", "max_swap", "back", "level"),
    [
        (11 * GIB, 10 * GIB, 0.1, Level.HARD),
        (11 * GIB, 10 * GIB, 0.0, Level.CALM),
        (9 * GIB, 10 * GIB, 0.1, Level.CALM),
        (11 * GIB, None, 0.1, Level.CALM),
    ],
)
def test_the_bound_on_swap_in_use_holds_only_while_the_machine_swaps(
    used: int, max_swap: int | None, back: float, level: Level
) -> None:
    assert judge(swapping(0.0, back, used=used), max_swap=max_swap).level is level


def test_counters_that_are_missing_or_begin_anew_say_nothing() -> None:
    missing = [(float(t), memory(0.5, Swap(written=None if t < 15 else 10 * GIB))) for t in range(20)]
    assert judge(missing).level is Level.CALM
    anew = [(float(t), memory(0.5, Swap(written=9 * GIB if t < 15 else 0))) for t in range(20)]
    assert judge(anew).level is Level.CALM


# -- stalls ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stall", "level", "cause"),
    [
        (Stall(some=4.0, full=4.0), Level.CALM, ""),
        (Stall(some=30.0, full=0.0), Level.SOFT, "tasks waited for memory 30 % of the last 10 s"),
        (Stall(some=60.0, full=20.0), Level.HARD, "all tasks waited for memory 20 % of the last 10 s"),
        (Stall(level=1), Level.CALM, ""),
        (Stall(level=2), Level.SOFT, "the system reports memory pressure level 2"),
        (Stall(level=4), Level.HARD, "the system reports memory pressure level 4"),
        (Stall(), Level.CALM, ""),
    ],
)
def test_what_the_system_says_of_waiting_counts_as_a_mark(stall: Stall, level: Level, cause: str) -> None:
    found = judge((float(t), memory(0.5, stall=stall)) for t in range(12))
    assert (found.level, found.cause) == (level, cause)
    assert found.evident == found.relieving == (level is Level.HARD)


def test_all_tasks_waiting_must_be_seen_twice() -> None:
    full = memory(0.5, stall=Stall(full=50.0))
    calm = memory(0.5, stall=Stall(full=0.0))
    assert judge([(0.0, full)]).level is Level.CALM
    assert judge([(0.0, calm), (10.0, full)]).level is Level.CALM
    assert judge([(0.0, full), (1.0, calm), (2.0, full)]).level is Level.CALM
    assert judge([(0.0, calm), (10.0, full), (11.0, full)]).level is Level.HARD


def test_growth_of_the_compressor_within_a_window_counts() -> None:
    looks = [(float(t), memory(0.5, stall=Stall(compressed=t * 200 * MIB))) for t in range(20)]
    assert judge(looks).level is Level.SOFT
    assert judge(looks).cause == "the memory compressor grows"
    slowly = [(float(t), memory(0.5, stall=Stall(compressed=8 * GIB + t * 20 * MIB))) for t in range(20)]
    assert judge(slowly).level is Level.CALM


def test_the_worst_sign_gives_level_and_cause() -> None:
    both = [(float(t), memory(0.9, stall=Stall(some=50.0, level=2))) for t in range(12)]
    assert judge(both).cause.startswith("90 % of the memory")
    other = [(float(t), memory(0.8, stall=Stall(level=4))) for t in range(12)]
    assert judge(other).cause == "the system reports memory pressure level 4"


# -- the pace --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("used", "window", "wait"),
    [
        (0.5, 10.0, None),
        (0.76, 10.0, 1.0),
        (0.9, 10.0, 1.0),
        (0.9, 2.0, 0.2),
        (0.9, 60.0, 1.0),
        (0.9, 0.01, 0.1),
    ],
)
def test_the_next_look_is_soon_only_where_memory_is_nearly_short(
    used: float, window: float, wait: float | None
) -> None:
    marks = Watermarks(window=window)
    found = judge(steady(used, 0, 20), marks=marks)
    assert next_look(found, marks, 20.0) == (None if wait is None else 20.0 + wait)


def test_a_single_high_look_brings_the_next_one_near_though_the_mean_is_low() -> None:
    found = judge([*steady(0.3, 0, 9), (10.0, memory(0.9))])
    assert found.level is Level.CALM
    assert next_look(found, MARKS, 10.0) == 11.0


def test_while_it_is_relieved_the_looks_stay_near() -> None:
    gone = judge([(11.0, memory(0.4))], evicted(judge(steady(0.9, 0, 10))))
    assert gone.relieving
    assert next_look(gone, MARKS, 11.0) == 12.0


def test_only_looks_within_the_window_and_the_last_before_it_are_kept() -> None:
    assert [s.at for s in judge(steady(0.5, 0, 30)).samples] == [float(t) for t in range(20, 31)]
    assert [s.at for s in judge(steady(0.5, 0, 60, pace=20)).samples] == [40.0, 60.0]


def test_a_look_that_is_not_newer_replaces_nothing_before_it() -> None:
    found = judge([(5.0, memory(0.5)), (5.0, memory(0.6)), (4.0, memory(0.7))])
    assert [s.at for s in found.samples] == [4.0]


def test_the_critical_mark_is_judged_over_the_last_part_of_the_window() -> None:
    """While memory fills fast the mean over all of it says so only when it is too late."""
    before = judge(steady(0.5, 0, 20))
    looks = [(20.0 + t, memory(0.97)) for t in range(1, 6)]
    seen = {t: judge(looks[:t], before) for t in range(1, 6)}
    assert seen[2].level is Level.CRITICAL
    assert seen[2].used is not None
    assert seen[2].used < 0.85
    assert _first(seen, evident=True) <= 4


def test_nobody_goes_for_a_shortage_that_has_just_ended() -> None:
    """The mean is still above the target, but whoever took the memory has left."""
    short = judge(steady(0.9, 0, 20))
    assert (short.relieving, short.evident) == (True, True)
    after = judge([(21.0, memory(0.2)), (22.0, memory(0.2)), (23.0, memory(0.2))], short)
    assert after.used is not None
    assert after.used > 0.6
    assert not after.evident


def test_swapping_does_not_end_because_memory_is_free() -> None:
    looks = [(float(t), memory(0.3, Swap(written=t * (50 << 20)))) for t in range(12)]
    assert judge(looks).evident


@pytest.mark.parametrize(("files", "used"), [(None, 0.8), (0, 0.3), (TOTAL // 10, 0.4), (TOTAL, 0.8)])
def test_weights_that_another_group_is_charged_for_take_nothing_from_this_one(
    files: int | None, used: float
) -> None:
    """After a restart of the service the page cache belongs to the group of the run before."""
    seen = Memory(TOTAL, round(TOTAL * 0.7), files=files)
    assert share_used(seen, round(TOTAL * 0.5)) == pytest.approx(used, abs=0.01)
