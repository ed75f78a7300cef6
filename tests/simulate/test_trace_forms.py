"""What is written is read back as it was; what may be written differently is understood."""

import gzip
import json
import math
from array import array
from datetime import UTC, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.simulate.trace import UNKNOWN, Trace
from reconciler.simulate.trace_history import trace_of_requests
from reconciler.simulate.trace_names import Names
from reconciler.simulate.trace_order import in_order
from reconciler.simulate.trace_read import read_trace, write_trace
from reconciler.store import RequestRecord
from trace_files import HEADER, OPEN, columns, rows

NAMES = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=12).map(str.strip)
TOKENS = st.one_of(st.just(UNKNOWN), st.integers(0, 1_000_000_000))
SPANS = st.one_of(st.just(math.nan), st.floats(0, 1e9))
REQUESTS = st.lists(
    st.tuples(st.floats(0, 3e8), NAMES.filter(bool), NAMES, TOKENS, TOKENS, SPANS, SPANS),
    min_size=1,
    max_size=30,
)
ZONE = timezone(timedelta(hours=2))
#: 2026-11-30, a Monday, at midnight in `ZONE`.
MIDNIGHT = 1_795_989_600


def made(requests: list[tuple[float, str, str, int, int, float, float]]) -> Trace:
    trace, models, clients = Trace(), Names("model"), Names("client")
    # Times of the same day, or each would be on another one before.
    for at, model, client, prompt, output, think, seconds in sorted(requests, key=lambda r: r[0]):
        trace.add(at, models.number(model), clients.number(client), prompt, output, think, seconds)
    trace.models, trace.clients = models.names, clients.names
    return trace


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl.gz"])
@given(requests=REQUESTS)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    requests: list[tuple[float, str, str, int, int, float, float]],
) -> None:
    path = tmp_path_factory.getbasetemp() / name
    trace = made(requests)
    write_trace(trace, path)
    again = read_trace(path)
    assert columns(again) == columns(trace)
    assert not again.notes


def test_the_same_trace_is_the_same_file(tmp_path: Path) -> None:
    trace = made([(1.5, "a", "", 1, 2, math.nan, 3.0)])
    write_trace(trace, tmp_path / "one.csv.gz")
    write_trace(trace, tmp_path / "two.csv.gz")
    assert (tmp_path / "one.csv.gz").read_bytes() == (tmp_path / "two.csv.gz").read_bytes()


def test_columns_come_in_any_order_and_others_are_said_once(tmp_path: Path) -> None:
    (tmp_path / "x").write_text(
        "﻿Model, T ,colour,client,rank\r\nb,2,red,anna,1\r\nc,3.5,blue,,2\r\n", "utf-8"
    )
    trace = read_trace(tmp_path / "x")
    assert rows(trace) == [(2.0, "b", "anna", UNKNOWN, UNKNOWN), (3.5, "c", "", UNKNOWN, UNKNOWN)]
    assert trace.notes == ['not used: the columns "colour", "rank"']
    (tmp_path / "x").write_text('{"t": 1, "model": "a", "k": 1}\n\n{"model": "a", "t": 2, "k": 2}\n')
    trace = read_trace(tmp_path / "x")
    assert [row[0] for row in rows(trace)] == [1.0, 2.0]
    assert trace.notes == ['not used: the key "k"']


def test_numbers_of_data_frames_are_understood(tmp_path: Path) -> None:
    """Where a column lacks a field, they write all of it with a point."""
    (tmp_path / "x").write_text("t,model,prompt_tokens,think\n1,a,12.0,\n2, a ,,0\n1e1,a, 7 ,0.5\n")
    trace = read_trace(tmp_path / "x")
    assert rows(trace) == [
        (1.0, "a", "", 12, UNKNOWN),
        (2.0, "a", "", UNKNOWN, UNKNOWN),
        (10.0, "a", "", 7, UNKNOWN),
    ]
    assert [t for t in trace.think if not math.isnan(t)] == [0.0, 0.5]


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (["1796023800", "1796023801.25"], [34_200.0, 34_201.25]),
        (["2026-11-30T07:30:00Z", "2026-11-30T07:30:01.250000000Z"], [34_200.0, 34_201.25]),
        (["2026-11-30 09:30:00", "2026-11-30T09:30:01.25"], [34_200.0, 34_201.25]),
        # A zone in the file is where it was written: there it was half past four.
        (["2026-11-30T04:30:00-03:00", "2026-11-30T07:30:01.25Z"], [16_200.0, 16_201.25]),
        # Over midnight it is counted on.
        (["2026-11-30T23:59:59+02:00", "2026-12-01T00:00:01+02:00"], [86_399.0, 86_401.0]),
    ],
)
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_dates_become_seconds_since_midnight(
    tmp_path: Path, times: list[str], expected: list[float], form: str
) -> None:
    if form == "csv":
        text = "t,model\n" + "".join(f"{t},a\n" for t in times)
    else:
        values = [float(t) if t.isdigit() or "." in t[:12] else t for t in times]
        text = "".join(json.dumps({"t": value, "model": "a"}) + "\n" for value in values)
    (tmp_path / "x").write_text(text)
    assert list(read_trace(tmp_path / "x", zone=ZONE).at) == pytest.approx(expected, abs=1e-5)


def test_the_midnight_is_that_of_the_first_request(tmp_path: Path) -> None:
    """Seconds go on evenly where the clocks were changed."""
    zone = pytest.importorskip("zoneinfo").ZoneInfo("Europe/Berlin")
    (tmp_path / "x").write_text("t,model\n2026-10-24T22:00:00,a\n2026-10-25T08:00:00,a\n")
    assert list(read_trace(tmp_path / "x", zone=zone).at) == [79_200.0, 79_200.0 + 11 * 3600]


def test_rows_out_of_order_are_sorted_and_it_is_said(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("t,model,client\n10,a,1\n12,b,2\n11.5,c,3\n12,d,4\n9,e,5\n")
    trace = read_trace(tmp_path / "x")
    assert [row[1] for row in rows(trace)] == ["e", "a", "c", "b", "d"]
    assert trace.notes == ["2 requests were earlier than the one above, by 3 s at most: sorted by time"]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5))))
def test_sorting_keeps_rows_together(given_rows: list[tuple[int, int]]) -> None:
    names = [f"name-{n}" for n in range(6)]
    trace = Trace(models=[*names], clients=[*names])
    for at, model in given_rows:
        trace.add(at, model, model, model, model, model, model)
    in_order(trace)
    expected = sorted(given_rows, key=lambda row: row[0])
    for column in (trace.prompt_tokens, trace.output_tokens, trace.think, trace.seconds):
        assert list(zip(trace.at, column, strict=True)) == expected
    named = [(trace.models[m], trace.clients[c]) for m, c in zip(trace.model, trace.client, strict=True)]
    assert named == [(names[n], names[n]) for _, n in expected]


def test_progress_is_told_in_bytes_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress((HEADER + f"1,model,1,1,{'c' * 150},,\n" * 30_000).encode(), 1))
    told: list[tuple[int, int]] = []
    read_trace(path, progress=lambda done, total: told.append((done, total)))
    size = path.stat().st_size
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert len(told) > 3
    assert told[-1] == (size, size)


def test_all_open_traces_are_read() -> None:
    counts = {p.parent.name: read_trace(p) for p in sorted(OPEN.glob("*/trace.csv.gz"))}
    assert {name: len(trace) for name, trace in counts.items()} == {
        "o01_five_chat_code": 2074,
        "o02_five_rag": 4084,
        "o03_five_agent": 1059,
        "o04_five_asr": 1496,
        "o05_twelve_mixed": 7454,
        "o06_twelve_team": 4067,
        "o07_twelve_night": 3638,
        "o08_twelve_wrong": 1858,
        "o09_twelve_uniform": 789,
        "o10_five_pingpong": 2354,
        "r02_servegen6": 4071,
        "r03_azure_convcode": 1008,
        "r04_mooncake11": 997,
    }
    assert not any(trace.notes for trace in counts.values())
    assert sum(not math.isnan(t) for t in counts["o01_five_chat_code"].think) == 1913


def record(at: float, model: str, outcome: str = "ok", seconds: float = 2.0) -> RequestRecord:
    known = outcome == "ok"
    return RequestRecord(
        0, at, model, "anna", 1.0, 0.5, seconds, 100 if known else None, 20 if known else None, outcome
    )


def test_our_own_history_becomes_a_trace() -> None:
    written = [
        record(MIDNIGHT + 100.0, "b"),
        record(MIDNIGHT + 90.0, "a", "refused:queue_full", seconds=0.0),
        record(MIDNIGHT + 86_400.0 + 5.0, "a", seconds=3.5),
    ]
    trace = trace_of_requests(written, ZONE)
    assert rows(trace) == [
        (90.0, "a", "anna", UNKNOWN, UNKNOWN),
        (100.0, "b", "anna", 100, 20),
        (86_405.0, "a", "anna", 100, 20),
    ]
    assert math.isnan(trace.seconds[0])
    assert list(trace.seconds[1:]) == [2.0, 3.5]
    assert all(map(math.isnan, trace.think))
    assert not trace.notes
    assert len(trace_of_requests([], UTC)) == 0
    assert trace_of_requests([], UTC).at == array("d")
