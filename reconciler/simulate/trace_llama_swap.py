"""What llama-swap remembers of its requests, as a trace.

Looked up in its sources (`ActivityLogEntry`, `buildMetrics`, 2025-08 to 2026-08) and in answers that people posted:

- `GET /api/metrics/activity` (since v243) answers `{"data": [...], "page": 1, ..., "total_pages": 4}`, the newest
  first; `GET /api/metrics` before that a bare list, the oldest first. Several answers may stand in a file.
- A row has `timestamp` (RFC 3339, up to nanoseconds), `model`, `duration_ms`, `resp_status_code`, since v250 `src`; and
  `tokens` with `input_tokens`, `output_tokens`, `prompt_per_second`, `tokens_per_second`. In 2025 these four stood in
  the row itself. -1 = not known.
- `timestamp` is when the request ended: `duration_ms` before that it came. The duration begins when the request is let
  in, so the time it waited for its model is part of it. What the engine itself took is tokens by their rates.
"""

import json
from collections.abc import Iterator, Mapping
from json import JSONDecodeError, JSONDecoder
from math import isfinite
from typing import Any, Final

from reconciler.simulate.trace_errors import Faults, shown
from reconciler.simulate.trace_fields import FieldError, time_of
from reconciler.simulate.trace_gather import Gather
from reconciler.simulate.trace_lines import Source

#: Bytes of a file that are read: some hundred thousand requests.
MOST_BYTES: Final = 64 << 20
_NO_ROW: Final = (
    "each request has a timestamp, a model and a duration_ms; save the answer of /api/metrics/activity"
)


def looks_so(found: object) -> bool:
    """Tell whether a JSON value is an answer of llama-swap's, or one row of it."""
    if isinstance(found, list):
        return not found or looks_so(found[0])
    if not isinstance(found, dict):
        return False
    return isinstance(found.get("data", 0), list | None) or {"timestamp", "model"} <= found.keys()


def read_llama_swap(source: Source, gather: Gather) -> None:
    """Read all rows into `gather`. Raises TraceError for what makes the rest unreadable."""
    raw = source.rest(MOST_BYTES)
    if raw is None:
        raise source.faults.error(0, f"it is longer than {MOST_BYTES >> 20} MiB; fetch fewer pages at once")
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise source.faults.error(0, "it is no UTF-8; save the answer as it came") from None
    columns: dict[str, list[object]] = {key: [] for key in _COLUMNS}
    lines: list[int] = []
    counts = {"failed": 0, "whole": 0, "twice": 0}
    seen: set[tuple[object, ...]] = set()
    for line, row in _rows(text, source.faults):
        mark = (row.get("id"), row.get("timestamp"), row.get("model"))
        if mark in seen:
            counts["twice"] += 1
            continue
        seen.add(mark)
        try:
            fields = _fields(row, gather, counts)
        except FieldError as error:
            source.faults.add(line, str(error))
            continue
        lines.append(line)
        for key, value in zip(_COLUMNS, fields, strict=True):
            columns[key].append(value)
    if lines:
        gather.add(columns, lines.__getitem__)
    _note(counts, gather.trace.notes)


_COLUMNS: Final = ("t", "model", "client", "prompt_tokens", "output_tokens", "think", "seconds")


def _rows(text: str, faults: Faults) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield each row with the line at which its document begins; what is none is noted."""
    decoder, at, line = JSONDecoder(), 0, 1
    while at < len(text):
        if text[at].isspace():
            line += text[at] == "\n"
            at += 1
            continue
        begin = at
        try:
            found, at = decoder.raw_decode(text, at)
        except JSONDecodeError as error:
            raise faults.error(error.lineno, f"it is no JSON ({error.msg}, column {error.colno})") from None
        except RecursionError:
            raise faults.error(line, f"it is nested too deeply; {_NO_ROW}") from None
        for row in _page(found):
            if isinstance(row, dict):
                yield line, row
            else:
                faults.add(line, f"{shown(json.dumps(row))} is no request: {_NO_ROW}")
        line += text.count("\n", begin, at)


def _page(found: object) -> list[Any]:
    """Return the rows of one answer. A page beyond the last one has `null`; a row may stand by itself."""
    rows = found.get("data", [found]) if isinstance(found, dict) else found
    if rows is None:
        return []
    return rows if isinstance(rows, list) else [rows]


def _fields(row: Mapping[str, Any], gather: Gather, counts: dict[str, int]) -> tuple[object, ...]:
    """Return what a trace says of a request, in the order of `_COLUMNS`. Raises FieldError."""
    number = row.get("id")
    which = f"request {number}: " if isinstance(number, int) else ""
    took = _number(row.get("duration_ms"))
    if took is None or took < 0:
        raise FieldError(f"{which}duration_ms is {_said(row, 'duration_ms')}; {_NO_ROW}")
    try:
        ended, _, zone = time_of(row.get("timestamp"), None)
    except FieldError:
        raise FieldError(f"{which}timestamp is {_said(row, 'timestamp')}; {_NO_ROW}") from None
    gather.settle_zone(zone)
    status = row.get("resp_status_code", 200)
    failed = isinstance(status, int) and status >= 400
    counts["failed"] += failed
    tokens = row["tokens"] if isinstance(row.get("tokens"), dict) else row
    prompt, output = (0 if failed else _count(tokens, key) for key in ("input_tokens", "output_tokens"))
    seconds = None if failed else _seconds(tokens, prompt, output, took / 1000, counts)
    return ended - took / 1000, row.get("model"), row.get("src"), prompt, output, None, seconds


def _said(row: Mapping[str, Any], key: str) -> str:
    return shown(row[key]) if key in row else "missing"


def _count(tokens: Mapping[str, Any], key: str) -> int:
    return int(max(0.0, _number(tokens.get(key)) or 0.0))


def _seconds(
    tokens: Mapping[str, Any], prompt: int, output: int, took: float, counts: dict[str, int]
) -> float | None:
    """Return what the engine took; None = to be worked out from the tokens."""
    if not prompt and not output:
        counts["whole"] += 1
        return took
    seconds = 0.0
    for number, key in ((prompt, "prompt_per_second"), (output, "tokens_per_second")):
        rate = _number(tokens.get(key)) or 0.0
        if number and rate <= 0:
            return None
        seconds += number / rate if number else 0.0
    return min(took, seconds)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return None
    return float(value)


def _note(counts: Mapping[str, int], notes: list[str]) -> None:
    if count := counts["twice"]:
        notes.append(f"{_requests(count, 'stands', 'stand')} in it more than once: taken once")
    if count := counts["failed"]:
        which = "one that is" if count == 1 else "ones that are"
        notes.append(f"{_requests(count, 'failed', 'failed')} there: taken as {which} served in no time")
    if count := counts["whole"]:
        notes.append(
            f"of {_requests(count, 'without', 'without')} tokens only the whole duration is known, waits included"
        )


def _requests(count: int, one: str, many: str) -> str:
    return f"1 request {one}" if count == 1 else f"{count:,} requests {many}"
