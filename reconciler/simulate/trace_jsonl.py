"""Traces as JSON, one object a line."""

import json
from collections.abc import Iterator
from itertools import islice
from math import isnan
from typing import Final, TextIO

from reconciler.simulate.trace import UNKNOWN, Trace
from reconciler.simulate.trace_errors import Faults, shown
from reconciler.simulate.trace_gather import KEYS, Gather
from reconciler.simulate.trace_lines import Source

BATCH: Final = 8192
_EXAMPLE: Final = '{"t": 30600.5, "model": "chat"}'
_KNOWN: Final = frozenset(KEYS)


def read_jsonl(source: Source, gather: Gather) -> None:
    """Read all lines into `gather`. Raises TraceError for what makes the rest unreadable."""
    unknown: set[str] = set()
    lines = source.lines()
    begin = 0
    while texts := list(islice(lines, BATCH)):
        places, rows = [], []
        for line, row in _objects(texts, begin, source.faults):
            unknown.update(row.keys() - _KNOWN)
            places.append(line)
            rows.append(row)
        if rows:
            gather.add({key: [row.get(key) for row in rows] for key in KEYS}, places.__getitem__)
        begin += len(texts)
    if unknown:
        names = ", ".join(map(shown, sorted(unknown)[:10]))
        gather.trace.notes.append(f"not used: the key{'s' * (len(unknown) > 1)} {names}")


def _objects(texts: list[str], begin: int, faults: Faults) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield what stands in each line that is not empty, with its number; what is no object is noted."""
    for line, text in enumerate(texts, begin + 1):
        if text.isspace():
            continue
        try:
            found = json.loads(text, parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            faults.add(line, f"it is no JSON ({_why(error)}); each line is like {_EXAMPLE}")
            continue
        if isinstance(found, dict):
            yield line, found
        else:
            faults.add(line, f"it is no object; each line is like {_EXAMPLE}")


def _why(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg}, column {error.colno}" if error.lineno == 1 else "it ends too early"
    return "it is nested too deeply" if isinstance(error, RecursionError) else f"{error} is no number"


def _refuse(text: str) -> float:
    raise ValueError(text)


def write_jsonl(trace: Trace, file: TextIO) -> None:
    """Write a trace so that it is read back exactly as it is."""
    models, clients = trace.models, trace.clients
    for i, at in enumerate(trace.at):
        row: dict[str, object] = {"t": at, "model": models[trace.model[i]]}
        tokens = {"prompt_tokens": trace.prompt_tokens[i], "output_tokens": trace.output_tokens[i]}
        row |= {key: count for key, count in tokens.items() if count != UNKNOWN}
        if client := clients[trace.client[i]]:
            row["client"] = client
        for key, value in (("think", trace.think[i]), ("seconds", trace.seconds[i])):
            if not isnan(value):
                row[key] = value
        file.write(json.dumps(row, ensure_ascii=False) + "\n")
