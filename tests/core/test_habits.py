"""How soon a model is expected again: sessions, the time of the day, what recurs, who follows whom; and its bounds."""

from math import exp

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.core.daytime import DAY, Daytime
from reconciler.core.gaps import HORIZON, Pauses, untold
from reconciler.core.habits import Habits, sobered
from reconciler.core.pipelines import BURST, Pipelines

HOUR = 3600.0
#: The evening of some day.
NOW = 10 * DAY + 20 * HOUR


def told(habits: Habits, model: str, now: float) -> float:
    """Return what is expected of one model."""
    [chance] = habits.chances([model], now)
    assert chance.model == model
    return chance.returns


def use(habits: Habits, model: str, *times: float, seconds: float = 2.0) -> None:
    """Let a model be asked at these times, each for so long."""
    for at in times:
        habits.arrived(model, at)
        habits.ended(model, at + seconds)


def daily(hour: float, days: int = 7) -> Habits:
    """Return habits by which a model is used for a quarter of an hour at one time of each day, ending yesterday."""
    habits = Habits()
    for day in range(10 - days, 10):
        begins = day * DAY + hour * HOUR
        use(habits, "chat", *(begins + 60.0 * n for n in range(15)))
    return habits


# -- one that is not known, or in use ---------------------------------------------------------------------------------


def test_nothing_is_told_of_a_model_that_was_never_called() -> None:
    habits = Habits()
    habits.ended("ghost", NOW)
    use(habits, "b", NOW)
    use(habits, "a", NOW + 5.0)
    assert [c.model for c in habits.chances(["never", "b", "ghost", "a"], NOW + 60.0)] == ["a", "b"]


def test_a_model_in_use_is_in_use() -> None:
    habits = Habits()
    habits.arrived("chat", NOW)
    habits.arrived("chat", NOW + 1.0)
    habits.ended("chat", NOW + 2.0)
    assert told(habits, "chat", NOW + 9 * HOUR) == 1.0
    habits.ended("chat", NOW + 9 * HOUR)
    assert told(habits, "chat", NOW + 9 * HOUR + 60.0) < 0.9


def test_an_end_too_many_does_not_hide_the_next_request() -> None:
    habits = Habits()
    use(habits, "chat", NOW)
    habits.ended("chat", NOW + 3.0)
    habits.arrived("chat", NOW + 10.0)
    assert told(habits, "chat", NOW + 100.0) == 1.0


# -- sessions ---------------------------------------------------------------------------------------------------------


def test_what_pauses_tell_replaces_what_is_believed() -> None:
    brisk, slow = Pauses(), Pauses()
    for _ in range(50):
        brisk.add(20.0)
        slow.add(4 * HOUR)
    assert brisk.goes_on(5.0)[0] > 0.9 > 0.2 > slow.goes_on(5.0)[0]
    # Longer idle than it ever was within a session: the session is over.
    assert brisk.goes_on(200.0)[1] > 0.5 > 0.1 > brisk.goes_on(5.0)[1]


def test_a_session_that_goes_on_is_expected_to_go_on() -> None:
    habits = Habits()
    for day in range(5):
        use(habits, "chat", *(day * DAY + 9 * HOUR + 90.0 * n for n in range(40)))
    end = 4 * DAY + 9 * HOUR + 90.0 * 39
    assert told(habits, "chat", end + 60.0) > 0.75
    assert told(habits, "chat", end + 60.0) > 2 * told(habits, "chat", end + 600.0)


def test_other_habits_are_learned_in_time() -> None:
    pauses = Pauses()
    for _ in range(300):
        pauses.add(2 * HOUR)
    before = pauses.goes_on(10.0)[0]
    for _ in range(300):
        pauses.add(30.0)
    assert pauses.goes_on(10.0)[0] > 0.6 > 0.1 > before


def test_pauses_count_the_same_after_however_many() -> None:
    few, many = Pauses(), Pauses()
    for _ in range(2000):
        few.add(30.0)
    for _ in range(20_000):
        many.add(30.0)
    assert many.goes_on(10.0) == pytest.approx(few.goes_on(10.0), abs=1e-3)


@given(st.lists(st.floats(0.0, 1e6), max_size=30), st.floats(0.0, 1e7))
def test_shares_of_pauses_are_shares(pauses: list[float], idle: float) -> None:
    seen = Pauses()
    for pause in pauses:
        seen.add(pause)
    soon, ended, known = seen.goes_on(idle)
    assert 0.0 <= soon <= known <= 1.0
    assert 0.0 <= ended <= 1.0
    assert soon + ended <= 1.0 + 1e-9


@given(st.floats(0.0, 1e6), st.floats(0.0, 1e6))
def test_of_a_model_that_nobody_knows_less_is_expected_the_longer_it_is_idle(
    one: float, other: float
) -> None:
    shorter, longer = sorted((one, other))
    assert untold(longer) <= untold(shorter) + 0.02  # the bins are not endlessly fine
    assert untold(2 * longer + 600.0) < untold(longer) or untold(longer) == 0.0


# -- the time of the day ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hour", [0.0, 9.0, 13.25, 23.75])
def test_who_comes_at_the_same_time_each_day_is_expected_then(hour: float) -> None:
    at = 10 * DAY + hour * HOUR
    before, away = told(daily(hour), "chat", at - 120.0), told(daily(hour), "chat", at + 12 * HOUR)
    assert before > 0.35
    assert away < 0.05


def test_the_half_hours_of_a_day_tell_them_apart() -> None:
    daytime = Daytime(0.0)
    for day in range(5):
        daytime.begins(day * DAY + 9 * HOUR)
    chances = {hour: daytime.next_session(5 * DAY + hour * HOUR) for hour in (3.0, 8.75, 15.0)}
    assert chances[8.75] > 5 * chances[3.0]
    assert chances[8.75] > 5 * chances[15.0]


def test_older_days_count_less() -> None:
    first, last = Daytime(0.0), Daytime(0.0)
    for day in range(10):
        (first if day < 5 else last).begins(day * DAY + 9 * HOUR)
    at = 10 * DAY + 8.9 * HOUR
    assert last.next_session(at) > 1.5 * first.next_session(at)


def test_after_a_month_away_little_is_expected() -> None:
    back = 70 * DAY + 8.95 * HOUR
    assert told(daily(9.0), "chat", back) < 0.1 * told(daily(9.0), "chat", 10 * DAY + 8.95 * HOUR)


# -- what recurs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("days", "least", "most"), [(0, 0.0, 0.0), (1, 0.15, 0.2), (3, 0.22, 0.3)])
def test_the_more_days_the_surer(days: int, least: float, most: float) -> None:
    daytime = Daytime((10 - days) * DAY)
    for day in range(10 - days, 10):
        daytime.begins(day * DAY + 9 * HOUR)
    assert least <= daytime.recurs(10 * DAY + 9 * HOUR - 240.0 - 900.0) <= most


def test_what_has_come_today_does_not_recur_today() -> None:
    daytime = Daytime(0.0)
    for day in range(4):
        daytime.begins(day * DAY + 9 * HOUR)
    before = daytime.recurs(4 * DAY + 9 * HOUR - 60.0)
    daytime.begins(4 * DAY + 9 * HOUR - 30.0)
    assert before > 0.4
    assert daytime.recurs(4 * DAY + 9 * HOUR) < 1e-6


@pytest.mark.parametrize("beat", [900.0, 1800.0, 3 * HOUR])
def test_a_rhythm_is_kept(beat: float) -> None:
    daytime = Daytime(0.0)
    for n in range(6):
        daytime.begins(n * beat)
    due = 6 * beat
    assert daytime.recurs(due - 60.0) == pytest.approx(0.72 * exp(-120.0 / HORIZON))
    assert daytime.recurs(due - beat / 2) < daytime.recurs(due - 60.0)
    assert daytime.recurs(due + 0.2 * beat) == 0.0  # it was missed


@pytest.mark.parametrize(
    "times",
    [
        (0.0, 900.0, 1800.0),  # too few
        (0.0, 900.0, 1900.0, 2500.0, 4000.0),  # uneven
        tuple(400.0 * n for n in range(8)),  # that is a session
    ],
)
def test_what_is_no_rhythm_is_not_taken_for_one(times: tuple[float, ...]) -> None:
    daytime = Daytime(0.0)
    for at in times:
        daytime.begins(at)
    assert daytime.recurs(times[-1] + 500.0) == 0.0


# -- who follows whom -------------------------------------------------------------------------------------------------


def followed(times: int, of: int = 10) -> Habits:
    """Return habits by which a chat model is asked 20 s after a retriever, so many times of so many."""
    habits = Habits()
    for n in range(of):
        at = n * HOUR
        use(habits, "find", at)
        if n < times:
            use(habits, "chat", at + 20.0)
    return habits


@pytest.mark.parametrize(("times", "least", "most"), [(10, 0.85, 1.0), (6, 0.45, 0.65), (1, 0.0, 0.2)])
def test_who_follows_is_expected_when_the_other_one_is_called(times: int, least: float, most: float) -> None:
    habits = followed(times)
    at = 11 * HOUR
    before = told(habits, "chat", at - 1.0)
    use(habits, "find", at)
    assert before < 0.35
    assert least <= max(told(habits, "chat", at + 5.0), before) <= max(most, before)


def test_it_is_expected_less_as_the_burst_goes_on_and_not_again_in_it() -> None:
    line = Pipelines()
    for n in range(10):
        line.called("find", n * HOUR)
        line.called("chat", n * HOUR + 20.0)
    at = 10 * HOUR
    line.called("find", at)
    assert line.expected("chat", at + 9.0) == pytest.approx(0.9, abs=0.02)
    assert line.expected("chat", at + 45.0) == pytest.approx(0.5, abs=0.02)
    assert line.expected("chat", at + BURST) == 0.0
    assert line.expected("find", at + 9.0) == 0.0
    line.called("chat", at + 50.0)
    assert line.expected("chat", at + 51.0) == 0.0


# -- of all -----------------------------------------------------------------------------------------------------------

EVENTS = st.lists(
    st.tuples(
        st.floats(0.0, 2 * DAY), st.sampled_from(["a", "b", "c"]), st.booleans(), st.floats(0.0, 500.0)
    ),
    max_size=25,
)


@settings(max_examples=60)
@given(EVENTS, st.floats(0.0, 40 * DAY))
def test_chances_are_chances_and_asking_changes_nothing(
    events: list[tuple[float, str, bool, float]], later: float
) -> None:
    asked, left_alone = Habits(), Habits()
    now = 0.0
    for pause, model, ends, seconds in events:
        now += pause
        for habits in (asked, left_alone):
            habits.arrived(model, now)
            if ends:
                habits.ended(model, now + seconds)
        now += seconds
        for chance in asked.chances("abc", now):
            assert 0.0 <= chance.returns <= 1.0
    assert asked.chances("abc", now + later) == left_alone.chances("cab", now + later)


@settings(max_examples=60)
# Within a burst the two are no twins: the one that is called second is expected after the first.
@given(st.lists(st.floats(0.0, 2 * HOUR), min_size=1, max_size=20), st.floats(BURST, HOUR))
def test_within_one_half_hour_less_is_expected_the_longer_it_is_idle(
    pauses: list[float], idle: float
) -> None:
    """Where nothing recurs, and beside a twin that was used later."""
    habits = Habits()
    now = 12 * HOUR
    for pause in pauses:
        now += pause
        use(habits, "older", now, seconds=0.0)
        use(habits, "newer", now, seconds=0.0)
    untouched = told(habits, "older", now + idle)
    assert told(habits, "newer", now + idle) == untouched
    seen = [told(habits, "older", now + 2.0 * DAY * n) for n in (20, 40)]
    assert seen == sorted(seen, reverse=True)
    assert seen[-1] < 0.01


@pytest.mark.parametrize("idle", [0.0, 0.5, 1.0, 59.0, 299.9, 300.0, 5000.0, 153_599.0, 153_600.0, 1e9])
def test_a_model_nobody_knows_is_believed_what_no_pauses_tell(idle: float) -> None:
    """Worked out ahead, for most models of most plans are asked that; the sum over all bins says the same."""
    assert untold(idle) == pytest.approx(Pauses().goes_on(idle)[2], rel=1e-12)


@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_what_is_left_of_a_chance_is_one_and_keeps_the_order(one: float, other: float) -> None:
    assert 0.0 <= sobered(one) <= one + 1e-12
    if one <= other:
        assert sobered(one) <= sobered(other)


def test_what_is_certain_stays_so_and_what_is_somewhat_likely_loses_a_good_fifth() -> None:
    assert (sobered(0.0), sobered(1.0)) == (0.0, 1.0)
    assert sobered(0.2) == pytest.approx(0.1527, abs=0.0001)
