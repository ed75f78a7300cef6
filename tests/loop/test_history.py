"""What the loop remembers of the use: regrets, batches and habits, over restarts, set clocks and full disks."""

from dataclasses import replace
from pathlib import Path
from typing import Self

import anyio
import pytest
from structlog.testing import capture_logs

from lease_clients import Client, Clock, endpoint, settle
from reconciler.core.machine import Failed, Ready
from reconciler.core.pressure import Level, Pressure
from reconciler.core.types import Demand, Evict, Load, Reason
from reconciler.counts import Counts
from reconciler.leases import LeaseBook, QueueLimits
from reconciler.loop.hands import Outcome
from reconciler.loop.history import History
from reconciler.loop.journal import Journal
from reconciler.loop.keeper import Keeper
from reconciler.loop.resumed import DAY
from reconciler.store import AsyncStore, EvictionRecord, Store, StoreError
from reconciler.store.mirror import Mirror
from support import wait_for_async
from worlds import running, world

pytestmark = pytest.mark.anyio

#: Seconds, for what takes a moment.
SOON = 10.0
#: The wall's clock when the loop's shows 100.
WALL = 1_700_000_000.0


class Run:
    """A history in a loop that turns when told, on clocks that move when told."""

    def __init__(self, store: AsyncStore, wall: float = WALL) -> None:
        self.clock = Clock()
        self.shift = wall - self.clock.now
        self.store, self.keeper, self.counts = store, Keeper(self.clock), Counts()
        self.book = LeaseBook(lambda: None, self.clock)
        self.book.configure(dict.fromkeys(("chat", "coder"), QueueLimits()))
        self.journal = Journal(store, self.keeper, None, wall=self.wall)  # type: ignore[arg-type]
        self.history = History(store, self.keeper, self.book, self.journal, self.counts, wall=self.wall)
        self.seen = world(running("chat", 100)).observation

    @classmethod
    async def begin(cls, store: AsyncStore, wall: float = WALL) -> Self:
        """A run that has begun; its habits are read once somebody runs `history.run`."""
        run = cls(store, wall)
        await run.history.start(run.clock.now)
        return run

    def wall(self) -> float:
        return self.clock.now + self.shift

    async def turn(self, seconds: float = 0.0, *demands: Demand, **changes: object) -> None:
        self.clock.now += seconds
        seen = replace(self.seen, demands=demands, **changes)  # type: ignore[arg-type]
        self.history.look(seen, self.clock.now)
        await self.history.write(self.clock.now)

    async def evict(
        self,
        reason: Reason = Reason.MAKE_ROOM,
        *,
        takes: float = 1.0,
        outcome: str = "gone",
        rival: str = "coder",
    ) -> None:
        [instance] = self.seen.instances
        step = Evict("chat", instance.pid, instance.started, 7 << 30, reason, rival or None)
        self.history.begun(step, self.clock.now)
        self.book.close("chat")
        self.clock.now += takes
        self.history.evicted(step, outcome, takes)
        await self.turn()

    async def ask(self, model: str = "chat", takes: float = 2.0) -> None:
        """A request for a model that is ready at once."""
        client = Client(self.book, model, owner="desk").start()
        await settle()
        self.book.open(endpoint(model), self.clock.now)
        await settle()
        self.clock.now += takes
        await client.end()
        await self.turn()

    async def evictions(self) -> tuple[EvictionRecord, ...]:
        return await self.store.ask(lambda s: s.evictions())


@pytest.fixture
async def store(tmp_path: Path) -> AsyncStore:
    return await AsyncStore.open(tmp_path / "ledger.db")


async def test_an_eviction_is_written_with_the_world_it_was_begun_in(store: AsyncStore) -> None:
    run = await Run.begin(store)
    [instance] = run.seen.instances
    run.seen = replace(run.seen, instances=(replace(instance, loaded_at=10.0, last_used=70.0),))
    await run.turn(pressure=Pressure(level=Level.SOFT, used=0.83))
    await run.evict(takes=1.5)
    [record] = await run.evictions()
    assert record == EvictionRecord(
        1, WALL, "chat", "MakeRoom", "coder", 7 << 30, 0.83, "soft", 1.5, 90.0, 30.0, None, "gone"
    )


async def test_the_seconds_until_it_is_wanted_again_are_written_once(store: AsyncStore) -> None:
    run = await Run.begin(store)
    await run.evict(takes=1.0)
    await run.turn(10.0)
    assert (await run.evictions())[0].wanted_after is None
    run.clock.now += 14.0
    await run.ask()
    assert (await run.evictions())[0].wanted_after == pytest.approx(25.0)
    run.clock.now += 100.0
    await run.ask()
    assert (await run.evictions())[0].wanted_after == pytest.approx(25.0)


async def test_only_the_newest_eviction_of_a_model_is_rued(store: AsyncStore) -> None:
    run = await Run.begin(store)
    await run.evict()
    run.clock.now += 50.0
    await run.evict()  # it had come back without anybody asking
    run.clock.now += 9.0
    await run.ask()
    assert [r.wanted_after for r in await run.evictions()] == [None, pytest.approx(10.0)]


async def test_who_asks_while_it_still_goes_rues_it(store: AsyncStore) -> None:
    run = await Run.begin(store)
    [instance] = run.seen.instances
    step = Evict("chat", instance.pid, instance.started, 1, Reason.MAKE_ROOM, "coder")
    run.history.begun(step, run.clock.now)
    run.clock.now += 3.0
    client = Client(run.book, "chat").start()
    await settle()
    await run.turn(2.0)
    run.history.evicted(step, "gone", 5.0)
    await run.turn()
    assert (await run.evictions())[0].wanted_after == pytest.approx(3.0)
    await client.leave()


async def test_an_eviction_that_was_called_off_leaves_the_one_before_to_be_rued(store: AsyncStore) -> None:
    run = await Run.begin(store)
    await run.evict()
    run.clock.now += 19.0
    await run.evict(outcome="given-up", takes=0.0)
    await run.ask()
    assert [(r.outcome, r.wanted_after) for r in await run.evictions()] == [
        ("gone", pytest.approx(20.0)),
        ("given-up", None),
    ]


@pytest.mark.parametrize(
    ("demand", "seconds"),
    [
        (Demand("chat", wanted=True), 8.0),  # a person: when is only known by the look
        (Demand("chat", waiting=1, oldest=104.0), 4.0),  # a hold that waits has no arrival
        (Demand("chat", dismissed=True), None),
        (Demand("coder", waiting=1, oldest=104.0), None),
    ],
)
async def test_a_hold_and_a_person_want_it_as_well(
    store: AsyncStore, demand: Demand, seconds: float | None
) -> None:
    run = await Run.begin(store)
    await run.evict()
    await run.turn(7.0, demand)
    assert (await run.evictions())[0].wanted_after == seconds


async def test_a_model_that_goes_with_somebody_at_its_door_is_rued_at_once(store: AsyncStore) -> None:
    run = await Run.begin(store)
    await run.turn(0.0, Demand("chat", active=1, gated=2))
    await run.evict()
    assert [(r.wanted_after, r.idle) for r in await run.evictions()] == [(0.0, 0.0)]


async def test_an_eviction_of_the_last_run_is_rued_in_this_one(store: AsyncStore) -> None:
    first = await Run.begin(store)
    await first.evict()
    second = await Run.begin(store, wall=WALL + 500.0)
    await second.ask()
    [record] = await second.evictions()
    assert record.wanted_after == pytest.approx(500.0)


async def rue(run: Run, times: int) -> None:
    for _ in range(times):
        await run.evict()
        run.clock.now += 10.0
        await run.ask()


async def test_regrets_are_told_the_first_time_and_end_by_themselves(store: AsyncStore) -> None:
    run = await Run.begin(store)
    await rue(run, 2)
    assert not run.history.regrets
    with capture_logs() as lines:
        await rue(run, 3)
    assert [(r.model, r.regretted) for r in run.history.regrets] == [("chat", 5)]
    assert [x["model"] for x in lines if x["event"] == "evicted, then wanted at once"] == ["chat"]
    [event] = [e for e in await store.events() if e.kind == "evicted-then-wanted"]
    assert "all 3 evictions" in event.message
    again = await Run.begin(store, wall=run.wall() + 60.0)  # a restart knows them, and tells nothing twice
    assert [(r.model, r.regretted) for r in again.history.regrets] == [("chat", 5)]
    await again.turn()
    assert len([e for e in await store.events() if e.kind == "evicted-then-wanted"]) == 1
    await again.turn(3600.0)
    assert not again.history.regrets


async def test_requests_are_written_in_batches_not_one_by_one(store: AsyncStore) -> None:
    run = await Run.begin(store)
    await run.ask()
    assert [(r.model, r.client, r.outcome, r.seconds) for r in await store.ask(lambda s: s.requests())] == [
        ("chat", "desk", "ok", 2.0)
    ]
    assert run.history.due(run.clock.now) is None
    await run.ask(takes=1.0)
    await run.ask(takes=1.0)
    assert len(await store.ask(lambda s: s.requests())) == 1
    assert run.history.due(run.clock.now) == pytest.approx(107.0)
    await run.turn(3.0)
    assert len(await store.ask(lambda s: s.requests())) == 3
    assert [(b.model, b.requests) for b in await store.ask(lambda s: s.arrivals())] == [("chat", 3)]
    await run.ask()
    async with anyio.create_task_group() as tasks:  # two who ask, and a turn: each row is written once
        tasks.start_soon(run.history.flush, run.clock.now)
        tasks.start_soon(run.history.flush, run.clock.now)
        tasks.start_soon(run.turn)
    assert len(await store.ask(lambda s: s.requests())) == 4, "who asks for it sees all of it"
    assert [(b.model, b.requests) for b in await store.ask(lambda s: s.arrivals())] == [("chat", 4)]
    await run.ask()
    await run.history.close(run.clock.now)
    assert len(await store.ask(lambda s: s.requests())) == 5, "nothing is lost at the end"


async def test_cold_seconds_are_counted_in_the_bucket_of_the_arrival(store: AsyncStore) -> None:
    run = await Run.begin(store)
    client = Client(run.book, "chat").start()
    await settle()
    await run.turn(40.0)
    run.book.open(endpoint("chat"), run.clock.now)
    await settle()
    await client.end()
    await run.turn(400.0)
    [bucket] = await store.ask(lambda s: s.arrivals())
    assert (bucket.requests, bucket.cold, bucket.waited) == (1, 1, 40.0)
    assert bucket.start % 300 == 0
    assert bucket.start <= WALL < bucket.start + 300


@pytest.mark.parametrize(
    ("outcome", "event", "error", "kind"),
    [
        ("ready", Ready(), "", "load"),
        ("failed", Failed(None), "exit 1", "wake"),
        ("given-up", Failed(None), "it is not wanted any more", "load"),
    ],
)
async def test_loads_are_written_with_who_waited(
    store: AsyncStore, outcome: str, event: Ready | Failed, error: str, kind: str
) -> None:
    run = await Run.begin(store)
    await run.turn(0.0, Demand("coder", waiting=3, oldest=99.0))
    step = Load("coder", "d9", 1, Reason.DEMANDED, pid=7 if kind == "wake" else None)
    run.history.begun(step, run.clock.now)
    run.history.loaded(step, outcome, Outcome(event, 6.5), error)
    await run.turn(6.5)
    [record] = await store.ask(lambda s: s.loads())
    assert (record.model, record.digest, record.at, record.seconds) == ("coder", "d9", WALL, 6.5)
    assert (record.outcome, record.kind, record.error, record.waiting) == (outcome, kind, error, 3)
    assert (record.reason, record.peak) == ("Demanded", None)


async def load(run: Run, reason: Reason, outcome: str = "ready") -> None:
    """A load that is begun now and takes two seconds."""
    step = Load("chat", "d1", 1, reason)
    run.history.begun(step, run.clock.now)
    await run.journal.begun(step)
    run.clock.now += 2.0
    run.history.loaded(step, outcome, Outcome(Ready(), 2.0))
    await run.turn()


async def test_loads_in_advance_count_over_a_restart_for_an_hour(store: AsyncStore) -> None:
    run = await Run.begin(store)
    for reason in (Reason.PREWARM, Reason.DEMANDED, Reason.PREWARM, Reason.PREWARM):
        await load(run, reason)
        run.clock.now += 1198.0
    again = await Run.begin(store, WALL + 4 * 1200.0)
    # The first was begun 4,800 s ago; the loop's clock begins anew at 100.
    assert again.history.resumed.prewarms.begun == pytest.approx((100.0 - 2400.0, 100.0 - 1200.0))
    back = await Run.begin(store, WALL)  # the wall's clock was set back
    assert back.history.resumed.prewarms.begun == pytest.approx((100.0,) * 3)


async def test_that_loads_in_advance_were_in_vain_counts_over_a_restart(store: AsyncStore) -> None:
    run = await Run.begin(store)
    await run.journal.prewarm_in_vain("chat", 9.0, True, 300.0)
    run.clock.now += 400.0
    await load(run, Reason.PREWARM, "failed")  # ends 402 s after the start: the second time
    await run.journal.prewarm_in_vain("embed", 9.0, True, 300.0)
    again = await Run.begin(store, WALL + 502.0)
    known = again.history.resumed.prewarms
    # 600 s from its end on; the loop's clock begins anew at 100.
    assert dict(known.until) == {"chat": pytest.approx(600.0), "embed": pytest.approx(300.0)}
    assert known.vain == (("chat", 2), ("embed", 1))
    await run.journal.prewarm_used("chat", 3.0)
    used = await Run.begin(store, WALL + 502.0)
    assert used.history.resumed.prewarms.vain == (("embed", 1),)
    back = await Run.begin(store, WALL)  # the wall's clock was set back
    assert dict(back.history.resumed.prewarms.until) == {"embed": 400.0}
    later = await Run.begin(store, WALL + 2 * DAY)
    assert later.history.resumed.prewarms.vain == ()


async def test_a_model_that_was_asked_to_go_stays_out_over_restarts(store: AsyncStore) -> None:
    run = await Run.begin(store)
    await run.evict(Reason.DISMISSED, rival="")
    again = await Run.begin(store, WALL + 10_000.0)
    assert again.history.resumed.dismissed == ("chat",)
    once_more = await Run.begin(store, WALL + 20_000.0)
    assert once_more.history.resumed.dismissed == ("chat",)


@pytest.mark.parametrize("end", [None, "called off", "asked again"])
async def test_a_crash_while_it_goes_leaves_it_asked_to_go(store: AsyncStore, end: str | None) -> None:
    """No record was made of an eviction that was only begun; the events know of it."""
    run = await Run.begin(store)
    await run.turn()
    [instance] = run.seen.instances
    step = Evict("chat", instance.pid, instance.started, 7 << 30, Reason.DISMISSED)
    await run.journal.begun(step)
    if end == "called off":
        await run.journal.given_up(step, "a request came first", 1.0)
    elif end == "asked again":
        await load(run, Reason.WARM)
    again = await Run.begin(store, WALL + 10_000.0)
    assert again.history.resumed.dismissed == (() if end else ("chat",))


@pytest.mark.parametrize("how", ["asked", "held", "loaded", "evicted for another reason", "called off"])
async def test_a_model_that_was_wanted_since_does_not_stay_out(store: AsyncStore, how: str) -> None:
    run = await Run.begin(store)
    await run.evict(Reason.DISMISSED, rival="", outcome="given-up" if how == "called off" else "gone")
    run.clock.now += 100.0
    if how == "asked":
        await run.ask()
    elif how == "held":
        await run.turn(0.0, Demand("chat", wanted=True))
    elif how == "loaded":
        await load(run, Reason.WARM)
    elif how == "evicted for another reason":
        await run.evict(Reason.SHUTDOWN)
    again = await Run.begin(store, WALL + 10_000.0)
    assert again.history.resumed.dismissed == ()


class Full(AsyncStore):
    """A store whose disk is full for a while."""

    full = False

    async def _write(self, call, **more):  # type: ignore[no-untyped-def]
        if self.full:
            raise StoreError("the ledger cannot be written: disk is full")
        return await super()._write(call, **more)


async def test_a_full_disk_loses_nothing_that_there_is_room_for_later(tmp_path: Path) -> None:
    file = Store(tmp_path / "ledger.db")
    store = Full(file, Mirror(file))
    run = await Run.begin(store)
    store.full = True
    await run.evict()
    run.clock.now += 20.0
    await run.ask()
    await run.turn(10.0)
    assert "disk is full" in str(run.keeper.trouble)
    store.full = False
    await run.turn(10.0)
    assert run.keeper.trouble is None
    assert [r.wanted_after for r in await run.evictions()] == [pytest.approx(21.0)]
    assert [r.model for r in await store.ask(lambda s: s.requests())] == ["chat"]
    assert [b.requests for b in await store.ask(lambda s: s.arrivals())] == [1]


async def test_habits_go_on_over_a_restart_and_after_the_clock_was_set(store: AsyncStore) -> None:
    run = await Run.begin(store)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run.history.run)
        await wait_for_async(lambda: knows(run), SOON, "the habits to be read")
        for _ in range(5):
            await run.ask()
            run.clock.now += 30.0
        await run.history.close(run.clock.now)
        [before] = run.history.chances(("chat", "coder"), run.clock.now)
        tasks.cancel_scope.cancel()
    assert before.model == "chat"
    assert before.returns > 0.3

    later = await Run.begin(store, wall=run.wall())
    assert later.history.chances(("chat",), later.clock.now) == ()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(later.history.run)
        await wait_for_async(
            lambda: later.history.chances(("chat",), later.clock.now) != (), SOON, "the habits to be read"
        )
        [after] = later.history.chances(("chat",), later.clock.now)
        assert after.returns == pytest.approx(before.returns, abs=1e-6)
        later.shift -= 86_400.0  # somebody sets the clock back: nothing of what is known has been yet
        await later.turn()
        await wait_for_async(
            lambda: later.history.chances(("chat",), later.clock.now) == (), SOON, "the habits to be read"
        )
        later.shift += 86_400.0
        await later.turn()
        await wait_for_async(
            lambda: later.history.chances(("chat",), later.clock.now) != (), SOON, "the habits to be read"
        )
        tasks.cancel_scope.cancel()


def knows(run: Run) -> bool:
    return run.history._habits is not None


async def test_regrets_are_counted_once_and_only_where_an_eviction_was_chosen(store: AsyncStore) -> None:
    run = await Run.begin(store)
    chat = run.counts.of("chat")
    await run.evict()
    assert chat.regrets == 0
    run.clock.now += 10.0
    await run.ask()
    assert chat.regrets == 1
    await run.ask()
    assert chat.regrets == 1
    await run.evict()
    run.clock.now += 100.0  # later than a minute: nothing to rue
    await run.ask()
    await run.evict(Reason.IDLE_EXPIRED, rival="")
    await run.ask()
    assert chat.regrets == 1
    await run.turn(0.0, Demand("chat", waiting=1, oldest=run.clock.now))
    await run.evict(outcome="given-up")  # called off because somebody came: the model did not go
    assert chat.regrets == 1
    assert sum(chat.requests.values()) == 4
    assert chat.waits.total == 4


async def test_an_eviction_that_is_rued_while_it_is_done_counts_when_it_is(store: AsyncStore) -> None:
    run = await Run.begin(store)
    await run.turn(0.0, Demand("chat", gated=1))
    await run.evict()
    assert run.counts.of("chat").regrets == 1


async def test_requests_are_told_in_the_log_where_that_is_wanted(store: AsyncStore) -> None:
    run = await Run.begin(store)
    with capture_logs() as quiet:
        await run.ask()
    run.history = History(
        store, run.keeper, run.book, run.journal, run.counts, log_requests=True, wall=run.wall
    )
    await run.history.start(run.clock.now)
    run.book.close("chat")
    with capture_logs() as told:
        await run.ask(takes=4.0)
    assert [line for line in quiet if line["event"] == "request"] == []
    [line] = [line for line in told if line["event"] == "request"]
    assert line == {
        "event": "request",
        "log_level": "info",
        "model": "chat",
        "owner": "desk",
        "outcome": "ok",
        "waited": 0.0,
        "cold": 0.0,
        "seconds": 4.0,
    }
