"""Holds: leases from outside the gateway, their demand, their end, and what their owners learn of it."""

import asyncio
import math
from collections.abc import Callable

import anyio
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from lease_clients import Client, endpoint, new_book, settle
from reconciler.core.types import Demand
from reconciler.leases import MAX_HOLDS, MAX_SECONDS, Admission, LeaseBook, LeaseRefused, QueueLimits, Refusal

pytestmark = pytest.mark.anyio


def states(book: LeaseBook) -> list[tuple[str, str, str]]:
    """Return owner, state and reason of every hold."""
    return [(hold.owner, hold.state, hold.ended) for hold in book.holds()]


async def test_a_hold_asks_for_its_model_and_keeps_it() -> None:
    book, wakes, clock = new_book()
    hold = book.hold("a", "batch", 60.0, 100.0)
    assert (hold.model, hold.owner, hold.since, hold.until, hold.state) == (
        "a",
        "batch",
        100.0,
        160.0,
        "waiting",
    )
    assert len(hold.id) == 16
    assert book.demands() == (Demand("a", waiting=1, oldest=100.0),)
    assert wakes.count == 1
    clock.now = 110.0
    book.open(endpoint("a"), 110.0)
    assert book.demands() == (Demand("a", held=1),)
    (held,) = book.holds()
    assert (held.state, held.granted, held.until) == ("held", 110.0, 160.0)
    assert not book.seal("a", drain=False), "it keeps the model"
    clock.now = 120.0
    assert book.release(hold.id) == held
    assert (book.holds(), book.demands()) == ((), ())
    assert (book.last_used("a"), book.served("a"), book.active("a")) == (120.0, 1, 0), "it was used"
    assert wakes.count == 1, "nobody waits for anything"
    assert book.seal("a", drain=False)


async def test_a_hold_of_a_model_in_memory_is_in_force_at_once_and_passes_no_gate() -> None:
    book, wakes, clock = new_book(gates={"heavy": 1})
    book.assign(dict.fromkeys("ab", Admission(1, ("heavy",))))
    for model in "ab":
        book.open(endpoint(model), clock.now)
    async with book.lease("a"):
        assert book.hold("a", "batch", 60.0, 100.0).state == "held"
        assert book.hold("b", "batch", 60.0, 100.0).state == "held"
    async with book.lease("a"):
        assert book.demands() == (Demand("a", active=1, held=1), Demand("b", held=1))
    assert wakes.count == 2, "the loop sleeps until the first of them ends"


async def test_the_oldest_demand_of_holds_and_requests_counts() -> None:
    book, _, clock = new_book()
    clock.now = 105.0
    client = Client(book, "a").start()
    await settle()
    book.hold("a", "batch", 60.0, 103.0)
    assert book.demands() == (Demand("a", waiting=2, oldest=103.0),)
    await client.leave()


async def test_a_hold_that_nobody_renews_expires() -> None:
    book, wakes, clock = new_book()
    book.open(endpoint("a"), clock.now)
    short, long = book.hold("a", "short", 10.0, 100.0), book.hold("b", "long", 20.0, 100.0)
    assert book.next_expiry() == 110.0
    assert book.renew(short.id, 30.0, 105.0).until == 135.0
    assert book.next_expiry() == 120.0
    before = wakes.count
    assert book.expire(119.9) == ()
    assert [h.id for h in book.expire(120.0)] == [long.id]
    assert book.demands() == (Demand("a", held=1),)
    assert [h.id for h in book.expire(135.0)] == [short.id]
    assert (book.next_expiry(), book.demands()) == (None, ())
    assert sorted(states(book)) == [
        ("long", "ended", "its time was over"),
        ("short", "ended", "its time was over"),
    ]
    assert wakes.count == before, "it was the loop that ended them"
    book.expire(135.0 + 3600.0)
    assert book.holds() == (), "remembered for a while only"


async def test_whoever_asks_sees_that_the_time_of_a_hold_is_over_and_nobody_renews_it() -> None:
    book, wakes, clock = new_book()
    book.open(endpoint("a"), clock.now)
    hold = book.hold("a", "batch", 10.0, 100.0)
    before = wakes.count
    assert book.renew(hold.id, 5.0, 101.0).until == 106.0
    assert wakes.count == before + 1, "the loop would sleep until 110"
    clock.now = 106.0
    with pytest.raises(LeaseRefused, match="has ended: its time was over") as refused:
        book.renew(hold.id, 60.0, 106.0)
    assert refused.value.refusal.status == 404
    assert wakes.count == before + 2, "the loop did not know"
    assert (states(book), book.demands()) == ([("batch", "ended", "its time was over")], ())
    assert book.served("a") == 1
    assert [h.id for h in book.expire(106.0)] == [hold.id], "it is told all the same"
    assert book.expire(107.0) == ()


@pytest.mark.parametrize("look", [LeaseBook.holds, LeaseBook.demands, LeaseBook.traffic])
async def test_a_look_ends_a_hold_whose_time_is_over(look: Callable[[LeaseBook], object]) -> None:
    book, _, clock = new_book()
    book.open(endpoint("a"), clock.now)
    book.hold("a", "batch", 10.0, 100.0)
    clock.now = 110.0
    look(book)
    assert book.seal("a", drain=False), "nobody keeps it"
    assert [h.ended for h in book.expire(110.0)] == ["its time was over"]


async def test_a_hold_of_a_model_that_was_removed_ends_with_its_process() -> None:
    book, _, clock = new_book()
    book.open(endpoint("a"), clock.now)
    book.hold("a", "batch", 600.0, 100.0)
    assert book.seal("a", drain=True)
    book.configure({"b": QueueLimits()})
    assert states(book) == [("batch", "held", "")], "it is drained"
    book.close("a")
    assert states(book) == [("batch", "ended", "not in the manifest any more")]
    assert book.demands() == ()
    book.configure({"b": QueueLimits()})
    assert "a" not in {q.model for q in book.traffic().queues}


async def test_the_end_of_a_hold_wakes_the_loop_if_somebody_waits() -> None:
    book, wakes, clock = new_book()
    book.open(endpoint("a"), clock.now)
    hold = book.hold("a", "batch", 60.0, 100.0)
    waits = book.hold("b", "other", 60.0, 100.0)
    before = wakes.count
    book.release(hold.id)
    assert wakes.count == before + 1, "there may be room for b now"
    book.release(waits.id)
    assert wakes.count == before + 2, "maybe nobody wants b now"


async def test_drain_waits_for_a_hold_until_it_is_cut_and_its_owner_learns_why() -> None:
    book, _, clock = new_book()
    book.open(endpoint("a"), clock.now)
    hold = book.hold("a", "batch", 60.0, 100.0)
    assert book.seal("a", drain=True)
    late = book.hold("a", "late", 60.0, 100.0)
    drained = asyncio.get_running_loop().create_task(book.drained("a"))
    await settle()
    assert not drained.done()
    clock.now = 130.0
    book.cut("a")
    with anyio.fail_after(1):
        await drained
    reason = "the model had to go, and the time its leases had to end is over"
    assert sorted(states(book)) == [("batch", "ended", reason), ("late", "waiting", "")]
    with pytest.raises(LeaseRefused, match=f"lease '{hold.id}' of model 'a' has ended: {reason}") as caught:
        book.renew(hold.id, 60.0, 131.0)
    assert (caught.value.refusal.status, caught.value.refusal.code) == (404, "lease_not_found")
    book.close("a")
    assert book.demands() == (Demand("a", waiting=1, oldest=100.0, closed=130.0),)
    assert book.release(late.id).owner == "late"


async def test_a_hold_whose_model_dies_asks_for_it_again() -> None:
    book, wakes, clock = new_book()
    book.open(endpoint("a"), clock.now)
    hold = book.hold("a", "batch", 60.0, 100.0)
    clock.now = 120.0
    book.close("a")
    assert book.demands() == (Demand("a", waiting=1, oldest=120.0, closed=120.0),)
    assert wakes.count == 2
    assert book.renew(hold.id, 60.0, 121.0).state == "waiting"
    clock.now = 125.0
    book.open(endpoint("a"), 125.0)
    assert book.demands() == (Demand("a", held=1, closed=120.0),)


async def test_a_new_process_in_the_same_moment_keeps_the_holds() -> None:
    book, _, clock = new_book()
    book.open(endpoint("a"), clock.now)
    book.hold("a", "batch", 60.0, 100.0)
    book.open(endpoint("a"), clock.now)
    assert book.demands() == (Demand("a", held=1),)


@pytest.mark.parametrize("how", ["end_holds", "shut"])
async def test_at_the_end_no_hold_keeps_a_model(how: str) -> None:
    book, _, clock = new_book()
    book.open(endpoint("a"), clock.now)
    held = book.hold("a", "batch", 60.0, clock.now)
    waiting = book.hold("b", "batch", 60.0, clock.now)
    async with book.lease("a"):
        if how == "shut":
            book.shut(Refusal(503, "model_stopped", "it ends"))
        else:
            ended = book.end_holds("it ends")
            assert [(h.id, h.ended) for h in ended] == [(held.id, "it ends"), (waiting.id, "it ends")]
        assert book.demands() == (Demand("a", active=1),)
    with anyio.fail_after(1):
        await book.drained("a")
    for hold in (held, waiting):
        with pytest.raises(LeaseRefused, match="has ended: it ends"):
            book.renew(hold.id, 60.0, clock.now)


@pytest.mark.parametrize("how", ["refuse", "shut", "configure"])
async def test_a_hold_that_cannot_be_fulfilled_ends_with_the_reason(how: str) -> None:
    book, _, clock = new_book()
    book.open(endpoint("b"), clock.now)
    book.hold("a", "waits", 60.0, 100.0)
    book.hold("b", "held", 60.0, 100.0)
    refusal = Refusal(507, "never_fits", "needs 9 GiB of 8")
    match how:
        case "refuse":
            book.refuse("a", refusal)
        case "shut":
            book.shut(refusal)
            with pytest.raises(LeaseRefused, match="needs 9 GiB"):
                book.hold("b", "new", 60.0, 100.0)
        case "configure":
            book.configure({})
    reason = "model 'a' is not in the manifest" if how == "configure" else refusal.message
    held = ("held", "ended", reason) if how == "shut" else ("held", "held", "")
    assert sorted(states(book)) == [held, ("waits", "ended", reason)]
    assert book.demands() == (() if how == "shut" else (Demand("b", held=1),))


@pytest.mark.parametrize(
    ("model", "owner", "seconds", "code"),
    [
        ("nobody", "batch", 60.0, "model_not_found"),
        ("a", "", 60.0, "invalid_lease"),
        ("a", "x" * 201, 60.0, "invalid_lease"),
        ("a", "line\nbreak", 60.0, "invalid_lease"),
        ("a", "batch", 0.0, "invalid_lease"),
        ("a", "batch", -1.0, "invalid_lease"),
        ("a", "batch", math.nan, "invalid_lease"),
        ("a", "batch", math.inf, "invalid_lease"),
        ("a", "batch", MAX_SECONDS + 1, "invalid_lease"),
    ],
)
async def test_what_is_no_hold(model: str, owner: str, seconds: float, code: str) -> None:
    book, wakes, _ = new_book()
    with pytest.raises(LeaseRefused) as caught:
        book.hold(model, owner, seconds, 100.0)
    assert caught.value.refusal.code == code
    assert (book.holds(), wakes.count) == ((), 0)


async def test_unknown_ids_and_bad_renewals() -> None:
    book, _, _ = new_book()
    hold = book.hold("a", "batch", 60.0, 100.0)
    with pytest.raises(LeaseRefused, match="there is no such lease"):
        book.renew("0" * 16, 60.0, 100.0)
    with pytest.raises(LeaseRefused, match="there is no such lease"):
        book.release("0" * 16)
    with pytest.raises(LeaseRefused, match="at most 86400 s"):
        book.renew(hold.id, MAX_SECONDS * 2, 100.0)
    assert book.holds() == (hold,)


async def test_holds_and_the_memory_of_ended_ones_are_bounded() -> None:
    book, _, _ = new_book()
    for number in range(MAX_HOLDS):
        book.hold("ab"[number % 2], f"job {number}", 60.0 + number, 100.0)
    with pytest.raises(LeaseRefused) as caught:
        book.hold("a", "one more", 60.0, 100.0)
    assert (caught.value.refusal.status, caught.value.refusal.retry_after) == (429, 5.0)
    assert len({hold.id for hold in book.holds()}) == MAX_HOLDS
    assert len(book.expire(1e6)) == MAX_HOLDS
    kept = book.holds()
    assert len(kept) == 200
    assert {h.state for h in kept} == {"ended"}
    book.hold("a", "again", 60.0, 1e6)


class Outside(RuleBasedStateMachine):
    """Any order of what owners and the loop do."""

    def __init__(self) -> None:
        super().__init__()
        self.book, _, self.clock = new_book()
        self.open: set[str] = set()
        self.sealed: set[str] = set()
        self.owned: dict[str, str] = {}
        self.until: dict[str, float] = {}

    @rule(model=st.sampled_from("ab"), seconds=st.sampled_from([5.0, 50.0]))
    def hold(self, model: str, seconds: float) -> None:
        made = self.book.hold(model, "owner", seconds, self.clock.now)
        assert made.state == ("held" if model in self.open - self.sealed else "waiting")
        self.owned[made.id], self.until[made.id] = model, made.until

    @rule(data=st.data(), release=st.booleans())
    def owner_acts(self, data: st.DataObject, release: bool) -> None:
        if not self.owned:
            return
        hold_id = data.draw(st.sampled_from(list(self.owned)))  # not sorted: ids are random
        if release:
            self.book.release(hold_id)
            del self.owned[hold_id]
        else:
            self.until[hold_id] = self.book.renew(hold_id, 20.0, self.clock.now).until

    @rule(seconds=st.sampled_from([1.0, 30.0]))
    def expire(self, seconds: float) -> None:
        self.clock.now += seconds
        over = {i for i in self.owned if self.until[i] <= self.clock.now}
        assert {h.id for h in self.book.expire(self.clock.now)} == over
        self.owned = {i: m for i, m in self.owned.items() if i not in over}

    @rule(
        model=st.sampled_from("ab"), how=st.sampled_from(["open", "seal", "unseal", "close", "cut", "refuse"])
    )
    def loop_acts(self, model: str, how: str) -> None:
        gone: set[str] = set()
        mine = {h.id: h.state for h in self.book.holds() if h.model == model}
        match how:
            case "open":
                self.book.open(endpoint(model), self.clock.now)
                self.open.add(model)
                self.sealed.discard(model)
            case "seal":
                sealed = self.book.seal(model, drain=False)
                assert sealed == ("held" not in mine.values())
                self.sealed |= {model} if sealed else set()
            case "unseal":
                self.book.unseal(model)
                self.sealed.discard(model)
            case "close":
                self.book.close(model)
                self.open.discard(model)
                self.sealed.discard(model)
            case "cut":
                self.book.cut(model)
                gone = {i for i, state in mine.items() if state == "held"}
            case "refuse":
                self.book.refuse(model, Refusal(503, "backing_off", "later"))
                if model not in self.open - self.sealed:
                    gone = {i for i, state in mine.items() if state == "waiting"}
        self.owned = {i: m for i, m in self.owned.items() if i not in gone}

    @invariant()
    def what_is_owned_is_shown_and_demanded(self) -> None:
        live = {h.id: h for h in self.book.holds() if h.state != "ended"}
        assert {i: h.model for i, h in live.items()} == self.owned
        demands = {d.model: d for d in self.book.demands()}
        for model in "ab":
            count = sum(m == model for m in self.owned.values())
            seen = demands.get(model, Demand(model))
            assert seen.held + seen.waiting == count
        times = [h.until for h in live.values()]
        assert self.book.next_expiry() == (min(times) if times else None)


Outside.TestCase.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestOutside = Outside.TestCase
