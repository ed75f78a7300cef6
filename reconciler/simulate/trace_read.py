"""Reading a trace, in whatever form it comes; writing one."""

import gzip
import io
import json
import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import tzinfo
from pathlib import Path
from typing import Final

from reconciler.manifest.files import explain_os_error
from reconciler.simulate.trace import Trace
from reconciler.simulate.trace_csv import read_csv, write_csv
from reconciler.simulate.trace_errors import Faults, TraceError
from reconciler.simulate.trace_gather import Gather
from reconciler.simulate.trace_jsonl import read_jsonl, write_jsonl
from reconciler.simulate.trace_lines import Progress, Source
from reconciler.simulate.trace_llama_swap import looks_so, read_llama_swap

#: Name of a form -> what reads it.
FORMATS: Final[Mapping[str, Callable[[Source, Gather], None]]] = {
    "csv": read_csv,
    "jsonl": read_jsonl,
    "llama-swap": read_llama_swap,
}
#: Our own keys, in an array.
_ARRAY: Final = re.compile(rb'\[\s*\{[^{}]*"t"\s*:')
_DATABASE: Final = b"SQLite format 3\0"

__all__ = ["FORMATS", "TraceError", "read_trace", "write_trace"]


def read_trace(
    path: Path,
    *,
    format: str | None = None,  # noqa: A002 - that is what people call it
    progress: Progress | None = None,
    zone: tzinfo | None = None,
) -> Trace:
    """Return the trace in a file, packed with gzip or not. Blocks: a million requests take some seconds.

    `format` is one of `FORMATS`; None = whatever it looks like. `progress` is told bytes read, and bytes there are.
    `zone` is whose midnight days begin at, unless the file's dates name one; None = that of this machine. What is
    worth saying of how it was read stands in `Trace.notes`.

    Raises TraceError with all faults of the file.
    """
    faults = Faults(path)
    gather = Gather(faults, zone)
    try:
        with Source(path, faults, progress) as source:
            FORMATS[format or _looks_like(source, faults)](source, gather)
    except OSError as error:
        raise faults.error(0, explain_os_error(error)) from error
    return gather.finish()


def _looks_like(source: Source, faults: Faults) -> str:
    head = source.peek()
    if head.startswith(_DATABASE):
        raise faults.error(0, "it is a database; `reconcile history --export FILE.csv` writes its requests")
    begin = head.lstrip()
    if _ARRAY.match(begin):
        raise faults.error(0, "it is one array; write its requests one a line, for example with jq -c '.[]'")
    if begin.startswith(b"["):
        return "llama-swap"
    if not begin.startswith(b"{"):
        return "csv"
    try:
        first = json.loads(begin.partition(b"\n")[0])
    except (ValueError, RecursionError):
        # An object over several lines, or a spoilt line: only one of the two is nothing but an open bracket.
        return "llama-swap" if begin.partition(b"\n")[0].strip() == b"{" else "jsonl"
    return "llama-swap" if looks_so(first) else "jsonl"


def write_trace(trace: Trace, path: Path) -> None:
    """Write a trace: as JSONL to a name with `.jsonl`, else as CSV; packed to one with `.gz`. Raises OSError."""
    names = path.suffixes
    write = write_jsonl if ".jsonl" in names[-2:] else write_csv
    with ExitStack() as opened:
        binary: io.BufferedWriter | gzip.GzipFile = opened.enter_context(path.open("wb"))
        if names[-1:] == [".gz"]:
            # No name and no time in it: the same trace is the same file.
            binary = opened.enter_context(gzip.GzipFile("", "wb", 6, binary, mtime=0))
        write(trace, opened.enter_context(io.TextIOWrapper(binary, "utf-8", newline="")))
