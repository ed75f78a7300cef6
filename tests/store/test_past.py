"""What came of the use: it comes back as it was written, of one model or all, and never grows beyond its bounds."""

import sqlite3
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.store import (
    BUCKET_SECONDS,
    ArrivalBucket,
    AsyncStore,
    EvictionRecord,
    LoadRecord,
    RequestRecord,
    Store,
    past,
)
from reconciler.store.schema import MIGRATIONS

DAY = 86_400
#: A wall-clock second at which a bucket begins.
START = 1_700_000_100


def load(model: str = "chat", at: float = 10.0, **more: object) -> LoadRecord:
    made = LoadRecord(0, at, model, "d1", "Demanded", 9.5, 7 << 30, "ready", 2, "load")
    return replace(made, **more)  # type: ignore[arg-type]


def eviction(model: str = "chat", at: float = 10.0, **more: object) -> EvictionRecord:
    made = EvictionRecord(
        0, at, model, "MakeRoom", "coder", 7 << 30, 0.5, "calm", 1.5, 90.0, 30.0, None, "gone"
    )
    return replace(made, **more)  # type: ignore[arg-type]


def request(model: str = "chat", at: float = 10.0, **more: object) -> RequestRecord:
    made = RequestRecord(0, at, model, "desk", 3.0, 2.0, 8.0, 100, 20, "ok")
    return replace(made, **more)  # type: ignore[arg-type]


def test_each_kind_comes_back_whole_also_with_all_that_may_be_unknown(tmp_path: Path) -> None:
    loads = [load(), load("coder", peak=None, outcome="failed", kind="wake", error="exit 1")]
    evictions = [eviction(), eviction(used=None, wanted_after=4.5, outcome="asleep")]
    requests = [request(), request(prompt_tokens=None, output_tokens=None, outcome="refused:queue_full")]
    with Store(tmp_path / "ledger.db") as store:
        assert [store.add_load(x) for x in loads] == [1, 2]
        assert [store.add_eviction(x) for x in evictions] == [1, 2]
        assert (store.add_requests(requests), store.add_requests([])) == (2, 0)
    with Store(tmp_path / "ledger.db") as store:
        assert store.loads() == tuple(replace(x, id=n) for n, x in enumerate(loads, 1))
        assert store.evictions() == tuple(replace(x, id=n) for n, x in enumerate(evictions, 1))
        assert store.requests() == tuple(replace(x, id=n) for n, x in enumerate(requests, 1))


@given(
    models=st.lists(st.sampled_from("ab"), max_size=12),
    model=st.none() | st.sampled_from("abc"),
    limit=st.integers(0, 15),
    after=st.integers(0, 13),
    since=st.integers(0, 13),
    newest=st.booleans(),
)
def test_any_selection_is_that_of_a_list(
    tmp_path_factory: pytest.TempPathFactory,
    models: list[str],
    model: str | None,
    limit: int,
    after: int,
    since: int,
    newest: bool,
) -> None:
    path = tmp_path_factory.getbasetemp() / "selection.db"
    path.unlink(missing_ok=True)
    rows = [request(m, float(n), id=n) for n, m in enumerate(models, 1)]
    with Store(path) as store:
        store.add_requests(rows)
        found = store.requests(model, limit, after, since=float(since), newest=newest)
    matching = [r for r in rows if r.id > after and r.at >= since and model in (None, r.model)]
    assert list(found) == (matching[max(0, len(matching) - limit) :] if newest else matching[:limit])


def test_regret_is_written_to_its_eviction_and_a_dropped_one_is_fine(tmp_path: Path) -> None:
    with Store(tmp_path / "ledger.db") as store:
        for n in range(3):
            store.add_eviction(eviction(at=float(n)))
        store.wanted_again(2, 12.5)
        store.wanted_again(99, 1.0)
        assert [r.wanted_after for r in store.evictions()] == [None, 12.5, None]


def test_the_last_evictions_are_one_a_model_and_none_that_was_called_off(tmp_path: Path) -> None:
    rows = [("a", "gone"), ("b", "gone"), ("a", "asleep"), ("b", "given-up"), ("c", "given-up")]
    with Store(tmp_path / "ledger.db") as store:
        for model, outcome in rows:
            store.add_eviction(eviction(model, outcome=outcome))
        assert [(r.id, r.model) for r in store.last_evictions()] == [(2, "b"), (3, "a")]


def test_buckets_add_up_and_the_oldest_go(tmp_path: Path) -> None:
    with Store(tmp_path / "ledger.db") as store:
        store.bump_arrivals([ArrivalBucket("b", START, 2, 1, 1.5), ArrivalBucket("a", START, 1)])
        store.bump_arrivals([ArrivalBucket("b", START, 3, 1, 2.0)])
        store.bump_arrivals([])
        whole = (ArrivalBucket("a", START, 1), ArrivalBucket("b", START, 5, 2, 3.5))
        assert store.arrivals() == whole
        later = ArrivalBucket("a", START + past.ARRIVAL_SECONDS, 1)
        store.bump_arrivals([later])
        assert store.arrivals() == (*whole, later), "35 days are kept"
        assert store.arrivals(START + 1) == (later,)
        store.bump_arrivals([replace(later, start=later.start + BUCKET_SECONDS)])
        assert [b.start for b in store.arrivals()] == [later.start, later.start + BUCKET_SECONDS]


def test_a_clock_that_is_set_back_drops_nothing_and_buckets_stay_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past, "ARRIVAL_LIMIT", 10)
    with Store(tmp_path / "ledger.db") as store:
        store.bump_arrivals([ArrivalBucket("a", START + 9 * past.ARRIVAL_SECONDS, 1)])
        for n in range(30):
            store.bump_arrivals([ArrivalBucket("a", START + n * BUCKET_SECONDS, 1)])
            assert len(store.arrivals()) <= 11
        assert len(store.arrivals()) == 10


def full(store: Store) -> None:
    """Fill every table beyond its limit, in rows as long as real ones."""
    names = [f"qwen3-coder-30b-{n}" for n in range(12)]

    def some(count: int) -> Iterable[tuple[int, str]]:
        return ((n, names[n % 12]) for n in range(count))

    store.add_requests(
        request(m, START + n * 5.0, client="agent-desk") for n, m in some(past.REQUEST_LIMIT + 50)
    )
    store._append([load(m, START + n * 1.5, digest="d" * 64) for n, m in some(past.LOAD_LIMIT + 50)])
    store._append([eviction(m, START + n * 1.5) for n, m in some(past.EVICTION_LIMIT + 50)])
    for day in range(36):
        begin = START + day * DAY
        store.bump_arrivals(
            ArrivalBucket(m, begin + n * BUCKET_SECONDS, 9, 1, 4.5) for n in range(288) for m in names
        )


def test_a_full_history_is_bounded_and_small(tmp_path: Path) -> None:
    """Twelve models in use at every moment of 35 days, which is as much as there can be of them."""
    path = tmp_path / "ledger.db"
    with Store(path) as store:
        full(store)
        assert len(store.requests(limit=10**6)) == past.REQUEST_LIMIT == 100_000
        assert len(store.loads(limit=10**6)) == past.LOAD_LIMIT == 20_000
        assert len(store.evictions(limit=10**6)) == past.EVICTION_LIMIT == 20_000
        assert 35 * 288 * 12 <= len(store.arrivals()) <= (35 * 288 + 1) * 12
        assert store.requests(limit=1)[0].id == 51, "the oldest were dropped"
        assert store.requests(limit=1, newest=True)[0].id == 100_050
    assert path.stat().st_size < 24_000_000


def test_a_database_of_the_version_before_gets_the_tables(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    db = sqlite3.connect(path)
    db.executescript("".join(MIGRATIONS[:4]))
    db.execute(
        "INSERT INTO ledger (model, digest, peak, failures, retry_boot, last_error) VALUES ('chat', 'd', 7, 0, '', '')"
    )
    db.execute("PRAGMA user_version = 4")
    db.commit()
    db.close()
    with Store(path) as store:
        assert store.recovered is None
        assert [e.peak for e in store.entries()] == [7]
        assert (store.loads(), store.evictions(), store.requests(), store.arrivals()) == ((), (), (), ())
        assert store.add_load(load()) == 1


@pytest.mark.anyio
async def test_the_async_store_has_the_same(tmp_path: Path) -> None:
    store = await AsyncStore.open(tmp_path / "ledger.db")
    assert await store.add_load(load()) == 1
    assert await store.add_eviction(eviction()) == 1
    await store.wanted_again(1, 2.5)
    assert await store.add_requests(request(at=float(n)) for n in range(3)) == 3
    await store.bump_arrivals([ArrivalBucket("chat", START, 3)])
    assert await store.ask(lambda s: s.loads("chat")) == (load(id=1),)
    assert await store.ask(lambda s: s.evictions(since=11.0)) == ()
    assert (
        await store.ask(lambda s: s.last_evictions())
        == await store.ask(lambda s: s.evictions())
        == (eviction(id=1, wanted_after=2.5),)
    )
    assert [r.id for r in await store.ask(lambda s: s.requests(limit=2, newest=True))] == [2, 3]
    assert await store.ask(lambda s: s.arrivals()) == (ArrivalBucket("chat", START, 3),)
    await store.close()
