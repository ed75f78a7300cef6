"""What llama-swap remembers becomes a trace: arrivals, not ends; what the engine took, not what was waited for."""

import json
import math
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from reconciler.simulate.trace import Trace
from reconciler.simulate.trace_read import read_trace
from trace_files import refused, rows

NO_ROW = "each request has a timestamp, a model and a duration_ms; save the answer of /api/metrics/activity"


def row(
    number: int, timestamp: str, model: str = "chat", duration: int = 4000, **more: Any
) -> dict[str, Any]:
    tokens = {
        "cache_tokens": -1,
        "input_tokens": 1000,
        "output_tokens": 60,
        "prompt_per_second": 1000.0,
        "tokens_per_second": 30.0,
    }
    return {
        "id": number,
        "timestamp": timestamp,
        "model": model,
        "req_path": "/v1/chat/completions",
        "resp_status_code": 200,
        "tokens": tokens,
        "duration_ms": duration,
        "has_capture": False,
    } | more


def page(*found: dict[str, Any], number: int = 1) -> dict[str, Any]:
    return {"data": list(found), "page": number, "limit": 25, "total": len(found), "total_pages": 1}


def read(tmp_path: Path, *documents: object, indent: int | None = None) -> Trace:
    (tmp_path / "x").write_text("\n".join(json.dumps(d, indent=indent) for d in documents))
    return read_trace(tmp_path / "x", zone=UTC)


@pytest.mark.parametrize("indent", [None, 2])
def test_a_page_newest_first(tmp_path: Path, indent: int | None) -> None:
    newer = row(2, "2026-08-30T08:00:10.5Z", src="anna")
    older = row(1, "2026-08-30T08:00:04Z", "code", duration=2000)
    trace = read(tmp_path, page(newer, older), indent=indent)
    assert rows(trace) == [(28_802.0, "code", "", 1000, 60), (28_806.5, "chat", "anna", 1000, 60)]
    assert list(trace.seconds) == [2.0, 3.0]
    assert all(map(math.isnan, trace.think))
    assert trace.notes == ["1 request was earlier than the one above, by 4.5 s at most: sorted by time"]


def test_several_pages_and_a_request_on_two_of_them(tmp_path: Path) -> None:
    one, two, three = (row(i, f"2026-08-30T08:00:{i:02}Z", duration=0) for i in (1, 2, 3))
    trace = read(tmp_path, page(one, two), page(two, three, number=2), {"data": None, "page": 3})
    assert [r[0] for r in rows(trace)] == [28_801.0, 28_802.0, 28_803.0]
    assert trace.notes == ["1 request stands in it more than once: taken once"]


def test_the_older_list_and_the_one_before(tmp_path: Path) -> None:
    flat = {
        "id": 67,
        "timestamp": "2025-08-15T21:10:16.163240205Z",
        "model": "big",
        "input_tokens": 7817,
        "output_tokens": 783,
        "prompt_per_second": 82.7382214385074,
        "tokens_per_second": 6.487529543115856,
        "duration_ms": 137517,
    }
    trace = read(tmp_path, [row(1, "2025-08-15T21:00:00Z"), flat])
    assert [r[1:] for r in rows(trace)] == [("chat", "", 1000, 60), ("big", "", 7817, 783)]
    assert trace.at[1] == pytest.approx(21 * 3600 + 616.163240 - 137.517, abs=1e-5)
    # The rates say more than the whole did: no request takes longer than it took.
    assert trace.seconds[1] == 137.517


@pytest.mark.parametrize(
    ("changed", "seconds", "note"),
    [
        # With a load of ten seconds before it: only what the engine took counts.
        ({"duration_ms": 13_000}, 3.0, None),
        (
            {
                "tokens": {
                    "input_tokens": 9,
                    "output_tokens": 9,
                    "prompt_per_second": -1,
                    "tokens_per_second": -1,
                }
            },
            None,
            None,
        ),
        (
            {"tokens": {"input_tokens": 0, "output_tokens": 0}},
            4.0,
            "of 1 request without tokens only the whole duration is known, waits included",
        ),
        ({"resp_status_code": 502}, None, "1 request failed there: taken as one that is served in no time"),
    ],
)
def test_what_the_engine_took(
    tmp_path: Path, changed: dict[str, Any], seconds: float | None, note: str | None
) -> None:
    trace = read(tmp_path, page(row(1, "2026-08-30T08:01:00Z") | changed))
    assert (None if math.isnan(trace.seconds[0]) else trace.seconds[0]) == seconds
    assert trace.notes == ([note] if note else [])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "x: there is no request in it"),
        ('{"data": []}', "x: there is no request in it"),
        ('{"data": [1]}', f'x:1: "1" is no request: {NO_ROW}'),
        (
            json.dumps([{"model": "a", "timestamp": "x", "duration_ms": 1}]),
            f'x:1: timestamp is "x"; {NO_ROW}',
        ),
        (
            json.dumps([row(7, "2026-08-30T08:01:00Z", duration=-5)]),
            f'x:1: request 7: duration_ms is "-5"; {NO_ROW}',
        ),
        (
            json.dumps(page(row(1, "2026-08-30T08:01:00Z")), indent=1) + '\n\n{"id": 4}',
            "x:26: request 4: duration_ms",
        ),
        ('[{"model": "a"}]', f"x:1: duration_ms is missing; {NO_ROW}"),
        ('[\n{"model": "a",]', "x:2: it is no JSON ("),
        ("[" * 200_000, "x:1: it is nested too deeply"),
    ],
)
def test_what_is_wrong_with_one(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "x").write_text(text)
    found = refused(tmp_path / "x")
    assert len(found) == 1
    assert found[0].startswith(said)
