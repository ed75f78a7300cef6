"""Traces as comma-separated values, with a header that names the columns."""

import csv
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from itertools import islice
from math import isnan
from typing import TYPE_CHECKING, Final, TextIO

from reconciler.simulate.trace import UNKNOWN, Trace
from reconciler.simulate.trace_errors import Faults, shown
from reconciler.simulate.trace_gather import KEYS, NEEDED, Gather
from reconciler.simulate.trace_lines import Source

if TYPE_CHECKING:
    from _csv import Reader

#: Rows that are worked on at once.
BATCH: Final = 8192
#: The order of the columns that we write.
HEADER: Final = ("t", "model", "prompt_tokens", "output_tokens", "client", "think", "seconds")
_EXAMPLE: Final = ",".join(HEADER[:6])
_ALSO: Final = {
    "t": ("time", "timestamp", "at", "arrival", "ts"),
    "model": ("name", "model_id"),
}


def read_csv(source: Source, gather: Gather) -> None:
    """Read all rows into `gather`. Raises TraceError for what makes the rest unreadable."""
    faults = source.faults
    reader = csv.reader(source.lines(), strict=True)
    header = next((row for (row,) in _rows(reader, faults, 1) if any(row)), [])
    places = _places(header, faults, gather)
    begin = reader.line_num
    for rows in _rows(reader, faults, BATCH):
        ragged = reader.line_num - begin != len(rows) or set(map(len, rows)) != {len(header)}
        lines: Sequence[int] = range(begin + 1, reader.line_num + 1)
        if ragged:
            rows, lines = _whole(rows, begin, len(header), faults)
        if rows:
            gather.add(_columns(rows, places), lines.__getitem__)
        begin = reader.line_num


def _rows(reader: "Reader", faults: Faults, most: int) -> Iterator[list[list[str]]]:
    """Yield the rows, so many at once at most."""
    while True:
        rows: list[list[str]] = []
        broken = ""
        try:
            rows.extend(islice(reader, most))
        except csv.Error as error:
            broken = str(error)
        if rows:
            yield rows
        if broken:
            quotes = (
                "a quotation mark is never closed" if "end of data" in broken or "limit" in broken else broken
            )
            raise faults.error(reader.line_num, f'{quotes}; a field with a comma or quotes is written "so"')
        if not rows:
            return


def _places(header: Sequence[str], faults: Faults, gather: Gather) -> dict[str, int | None]:
    """Return where each key stands in a row; None = it does not. Raises TraceError."""
    names = [name.strip().lower() for name in header]
    if not any(names):
        raise faults.error(0, f"it is empty; the first line names the columns: {_EXAMPLE}")
    if not set(names) & set(KEYS):
        raise faults.error(1, _no_header(header))
    for name in dict.fromkeys(names):
        if names.count(name) > 1 and name in KEYS:
            faults.add(1, f"there are {names.count(name)} columns {shown(name)}; delete all but one")
    for key in NEEDED:
        if key not in names:
            near = [n for n in names if n in _ALSO[key]] or get_close_matches(key, names, 1)
            hint = f"; call the column {shown(near[0])} so" if near else ""
            faults.add(1, f"there is no column {shown(key)}{hint}; needed are t and model")
    faults.raise_any()
    unknown = [shown(name) for name in names if name and name not in KEYS]
    if unknown:
        gather.trace.notes.append(f"not used: the column{'s' * (len(unknown) > 1)} {', '.join(unknown[:10])}")
    return {key: names.index(key) if key in names else None for key in KEYS}


def _no_header(header: Sequence[str]) -> str:
    if len(header) == 1 and any(sign in header[0] for sign in ";\t"):
        sign = "semicolons" if ";" in header[0] else "tabs"
        return f"the columns are separated by {sign}; use commas"
    return f"{shown(','.join(header))} is no header; the first line names the columns: {_EXAMPLE}"


def _columns(rows: list[list[str]], places: dict[str, int | None]) -> dict[str, Sequence[object]]:
    columns = list(zip(*rows, strict=True))
    missing = ("",) * len(rows)
    return {key: missing if place is None else columns[place] for key, place in places.items()}


def _whole(
    rows: list[list[str]], begin: int, width: int, faults: Faults
) -> tuple[list[list[str]], list[int]]:
    """Return the rows that have all fields, and their lines."""
    whole, lines, line = [], [], begin + 1
    for row in rows:
        if len(row) == width:
            whole.append(row)
            lines.append(line)
        elif len(row) > 1 or (row and row[0].strip()):
            fields = "is 1 field" if len(row) == 1 else f"are {len(row)} fields"
            faults.add(line, f"there {fields}, and {width} in the header")
        line += 1 + sum(field.count("\n") for field in row)
    return whole, lines


def write_csv(trace: Trace, file: TextIO) -> None:
    """Write a trace so that it is read back exactly as it is."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(HEADER)
    models, clients = trace.models, trace.clients
    for at, model, client, prompt, output, think, seconds in zip(
        trace.at,
        trace.model,
        trace.client,
        trace.prompt_tokens,
        trace.output_tokens,
        trace.think,
        trace.seconds,
        strict=True,
    ):
        think_text = "" if isnan(think) else think
        writer.writerow(
            (
                at,
                models[model],
                "" if prompt == UNKNOWN else prompt,
                "" if output == UNKNOWN else output,
                clients[client],
                think_text,
                "" if isnan(seconds) else seconds,
            )
        )
