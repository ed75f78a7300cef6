"""Habits out of the store: single requests as they were, buckets where there are no single requests any more."""

import time
from collections.abc import Iterator

import pytest

from reconciler.core.habits import Habits
from reconciler.loop.local_time import LocalTime, local_seconds
from reconciler.loop.replay import REACH, replayed
from reconciler.store import ArrivalBucket, RequestRecord

NOW = 1_700_000_100.0
DAY = 86_400.0


def request(ago: float, model: str = "chat", waited: float = 1.0, seconds: float = 5.0) -> RequestRecord:
    return RequestRecord(0, NOW - ago, model, "", waited, 0.0, seconds, None, None, "ok")


def plain(wall: float) -> float:
    return wall


def told(habits: Habits, *models: str, at: float = NOW) -> dict[str, float]:
    return {c.model: c.returns for c in habits.chances(models, at)}


def test_requests_teach_what_they_taught_when_they_came() -> None:
    live = Habits()
    records = [request(ago) for ago in (5000.0, 4980.0, 900.0, 860.0, 100.0)]
    for r in records:
        live.arrived("chat", r.at)
        live.ended("chat", r.at + r.waited + r.seconds)
    again = replayed((), reversed(records), NOW, plain)  # they are written in the order of their ends
    assert told(again, "chat") == told(live, "chat")


def test_requests_at_the_same_time_are_all_over_at_the_end() -> None:
    again = replayed(
        (), [request(60.0, seconds=50.0), request(40.0), request(30.0, seconds=900.0)], NOW, plain
    )
    later = told(again, "chat", at=NOW + 3 * DAY)
    assert later["chat"] < 0.5, "nothing is in progress: what would end after now has ended by now"


def test_what_is_too_old_or_has_not_been_yet_does_not_count() -> None:
    early, late = request(REACH + 1, "old"), request(-60.0, "future")
    old = ArrivalBucket("ancient", int(NOW - REACH) // 300 * 300 - 300, 5)
    assert told(
        replayed([old], [early, late, request(50.0)], NOW, plain), "ancient", "chat", "future", "old"
    ).keys() == {"chat"}


def test_buckets_count_only_before_the_oldest_single_request() -> None:
    first = NOW - 2 * DAY
    buckets = [
        ArrivalBucket("rare", int(first - 3600) // 300 * 300, 1),
        ArrivalBucket("chat", int(NOW) - 3600, 9),
    ]
    known = replayed(buckets, [request(2 * DAY)], NOW, plain)
    assert told(known, "chat", "rare").keys() == {"chat", "rare"}
    # The second bucket is made of requests that are there one by one: it adds nothing.
    assert told(known, "chat") == told(replayed(buckets[:1], [request(2 * DAY)], NOW, plain), "chat")


def test_a_daily_use_that_only_buckets_know_raises_the_chance_at_its_time() -> None:
    start = int(NOW) // 300 * 300
    daily = [ArrivalBucket("report", start - n * int(DAY) + 600, 6) for n in range(1, 15)]
    habits = replayed(daily, (), NOW, plain)
    at_its_time, at_another = told(habits, "report"), told(habits, "report", at=NOW + DAY / 2)
    assert at_its_time["report"] > 2 * at_another["report"]


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    ("wall", "hours"),
    [(1_711_846_799.0, 1), (1_711_846_800.0, 2), (1_729_990_799.0, 2), (1_729_990_800.0, 1)],
)
@pytest.mark.usefixtures("berlin")
def test_local_time_follows_summer_time(wall: float, hours: int) -> None:
    assert local_seconds(wall) - wall == hours * 3600


@pytest.mark.usefixtures("berlin")
def test_the_loops_clock_leads_to_local_time_and_steps_are_told() -> None:
    wall = [1_711_846_790.0]
    local = LocalTime(lambda: wall[0])
    local.follow(100.0)
    assert (local.wall(90.0), local.local(100.0)) == (wall[0] - 10.0, wall[0] + 3600.0)
    wall[0] += 20.0
    assert local.follow(120.0) == 3600.0  # summer time began
    wall[0] -= 500.0
    assert local.follow(120.0) == -500.0 - 3600.0  # and set back into winter time


def test_how_many_wait_together_is_known_again() -> None:
    records = [
        RequestRecord(0, NOW - 5000.0 + 1000.0 * load, "chat", "", 10.0, 10.0, 5.0, None, None, "ok")
        for load in range(4)
        for _ in range(3)
    ]
    records.append(RequestRecord(0, NOW - 100.0, "chat", "", 9.0, 9.0, 0.0, None, None, "left"))
    [chance] = replayed((), records, NOW, plain).chances(["chat"], NOW)
    assert chance.waiters == pytest.approx(3.0)
