"""The history of models as figures, tables and pages; events as lines."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golden_files import assert_golden
from history_samples import DAY, NOW, bucket, eviction, filled, load, request, utc
from reconciler.render.event_query import EventQuery
from reconciler.render.events_document import events, events_json
from reconciler.render.events_text import EventLines
from reconciler.render.history_bars import bars
from reconciler.render.history_document import history_json, quantile
from reconciler.render.history_model_text import history_model_text
from reconciler.render.history_records import Records, known_models, read_records
from reconciler.render.history_text import history_text
from reconciler.render.paint import painter
from reconciler.store import Store

WEEK = NOW - 7 * DAY


@pytest.fixture(autouse=True)
def clocks_of_utc() -> Iterator[None]:
    with utc():
        yield


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store(filled(tmp_path_factory.mktemp("ledger") / "ledger.db")) as opened:
        yield opened


def one(records: Records) -> dict[str, Any]:
    """Return the history of one model with these records."""
    made: dict[str, Any] = history_json({"m": records}, WEEK, NOW)["models"][0]
    return made


def test_the_table(store: Store) -> None:
    assert_golden("history.txt", history_text(history_json(read_records(store, WEEK), WEEK, NOW)) + "\n")


@pytest.mark.parametrize(("model", "blocks"), [("chat", False), ("coder", True), ("embed", True)])
def test_the_page_of_a_model(model: str, blocks: bool, store: Store) -> None:
    document = history_json(read_records(store, WEEK, model), WEEK, NOW)
    assert_golden(f"history-{model}.txt", history_model_text(document, blocks=blocks) + "\n")


def test_events_as_lines(store: Store) -> None:
    document = events_json(events(store, EventQuery()))
    assert_golden("events.txt", "\n".join(EventLines(painter(False)).lines(document["events"])) + "\n")


def test_an_id_that_a_ledger_never_gave_reads_it_from_its_beginning(store: Store) -> None:
    """Who followed a ledger that was lost has an id above all of the one that was begun anew."""
    every = events(store, EventQuery(after=0))
    assert len(every.events) > 1
    assert events(store, EventQuery(after=every.last + 1)) == every
    assert events(store, EventQuery(after=every.last)).events == ()
    assert events(store, EventQuery(after=every.last - 1)).events == every.events[-1:]


def test_bad_events_are_red_and_good_ones_green(store: Store) -> None:
    lines = EventLines(painter(True)).lines(events_json(events(store, EventQuery()))["events"])
    assert [("\x1b[31m" in line, "\x1b[32m" in line) for line in lines] == [
        (False, False),
        (False, False),
        (False, False),
        (False, False),
        (False, True),
        (True, False),
        (True, False),
    ]
    assert all("\x1b[31mred" not in line for line in lines)  # what an engine wrote drives no terminal


def test_figures_of_loads_by_their_settings(store: Store) -> None:
    chat = one(read_records(store, WEEK, "chat")["chat"])["loads"]
    assert chat["starts"] | {"seconds": 0} == {
        "count": 5,
        "last": 19.0,
        "median": 18.5,
        "p95": 21.0,
        "seconds": 0,
        "peak": 5 << 30,
    }
    assert chat["starts"]["seconds"] == pytest.approx(21 + 17 + 16 + 18.5 + 19)
    assert [(d["digest"], d["starts"]["count"]) for d in chat["digests"]] == [
        ("e5f6a7b8", 3),
        ("d1a2b3c4d5", 2),
    ]
    assert (chat["wakes"], chat["failed"], chat["given_up"]) == (1, 1, 1)


@pytest.mark.parametrize(
    ("reason", "wanted_after", "outcome", "regretted"),
    [
        ("MakeRoom", 59.0, "gone", True),
        ("MakeRoom", 60.0, "asleep", True),
        ("LessLikely", 5.0, "gone", True),
        ("MakeRoom", 61.0, "gone", False),
        ("MakeRoom", None, "gone", False),
        ("MakeRoom", 1.0, "given-up", False),
        ("OverBudget", 5.0, "gone", True),
        ("Dismissed", 1.0, "gone", False),
        ("IdleExpired", 1.0, "gone", False),
        ("Drifted", 1.0, "gone", False),
    ],
)
def test_what_is_regretted(reason: str, wanted_after: float | None, outcome: str, regretted: bool) -> None:
    gone = eviction("m", 1000, wanted_after, reason=reason, outcome=outcome)
    found = one(Records(evictions=(gone,)))["evictions"]
    assert found["regretted"] == int(regretted)
    assert found["newest"][0]["regretted"] is regretted
    assert found["given_up"] == int(outcome == "given-up")


PREWARM = {"reason": "Prewarm", "waiting": 0}
AHEAD = load("m", 5000, 10.0, **PREWARM)


@pytest.mark.parametrize(
    ("records", "used", "in_vain", "undecided"),
    [
        # Nobody came; it is still there.
        (Records((AHEAD,)), 0, 0, 1),
        # Somebody came while it was loading, or later.
        (Records((AHEAD,), requests=(request("m", 4995),)), 1, 0, 0),
        (Records((AHEAD,), requests=(request("m", 100),)), 1, 0, 0),
        # Somebody came before only.
        (Records((AHEAD,), requests=(request("m", 6000),)), 0, 0, 1),
        # It went again, unused, and somebody came after that.
        (
            Records(
                (AHEAD,), (eviction("m", 3000, resident=1990, idle=1990),), requests=(request("m", 2000),)
            ),
            0,
            1,
            0,
        ),
        # It had been used, although no single request of that time is kept any more.
        (Records((AHEAD,), (eviction("m", 3000, resident=1990, idle=200),)), 1, 0, 0),
        # It died, and was loaded again for somebody.
        (Records((AHEAD, load("m", 1000)), requests=(request("m", 1000),)), 0, 1, 0),
        # An eviction that was given up is none.
        (
            Records((AHEAD,), (eviction("m", 3000, outcome="given-up"),), requests=(request("m", 50),)),
            1,
            0,
            0,
        ),
    ],
)
def test_loads_in_advance_were_used_or_in_vain(
    records: Records, used: int, in_vain: int, undecided: int
) -> None:
    found = one(records)["prewarms"]
    assert (found["used"], found["in_vain"], found["undecided"]) == (used, in_vain, undecided)
    assert found["count"] == 1
    assert found["spared"] == (10.0 if used else 0.0)


def test_precision_and_recall(store: Store) -> None:
    found = one(read_records(store, WEEK, "chat")["chat"])["prewarms"]
    # Of the two that were ready one was used; of the five starts (one a wake) somebody waited for four.
    assert (found["precision"], found["recall"], found["aborted"]) == (0.5, 1 / 5, 1)
    nothing = one(Records())["prewarms"]
    assert (nothing["precision"], nothing["recall"]) == (None, None)


def test_arrivals_by_the_hour_of_the_day() -> None:
    buckets = (bucket("m", 0, 3, 1, 5.0), bucket("m", DAY, 4), bucket("m", 3600, 2))
    found = one(Records(arrivals=buckets, requests=(request("m", 10, 5.0), request("m", 5))))["arrivals"]
    assert {h["hour"]: h["requests"] for h in found["hours"] if h["requests"]} == {8: 2, 9: 7}
    assert [h["hour"] for h in found["hours"]] == list(range(24))
    assert (found["requests"], found["cold"], found["cold_seconds"]) == (9, 1, 5.0)
    assert (found["median"], found["longest"]) == (5.0, 5.0)


def test_only_what_is_asked_for_is_read(store: Store) -> None:
    assert set(read_records(store, WEEK, "coder")) == {"coder"}
    late = read_records(store, NOW - 3600)
    assert [r.kind for r in late["chat"].loads] == ["wake"]
    assert [e.at for e in late["chat"].evictions] == [NOW - 3550]
    assert set(late) == {"chat", "coder", "embed"}
    assert known_models(store) == ("chat", "coder", "embed")


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.01, 1))
def test_a_quantile_is_a_value_that_its_share_does_not_exceed(values: list[float], share: float) -> None:
    found = quantile(values, share)
    assert found in values
    assert sum(v <= found for v in values) >= share * len(values)
    assert sum(v < found for v in values) < share * len(values)


@given(st.lists(st.integers(0, 10**6), min_size=1), st.booleans())
def test_bars_are_as_high_as_their_counts(counts: list[int], blocks: bool) -> None:
    made = bars(counts, blocks=blocks)
    scale = " ▁▂▃▄▅▆▇█" if blocks else ".123456789"
    heights = [scale.index(character) for character in made]
    assert [h > 0 for h in heights] == [c > 0 for c in counts]
    assert all(
        h <= other
        for c, h in zip(counts, heights, strict=True)
        for d, other in zip(counts, heights, strict=True)
        if c <= d
    )
