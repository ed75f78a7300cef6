"""Our own single requests as a trace in a file."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reconciler.cli.output import CliError, note

if TYPE_CHECKING:
    from reconciler.simulate.trace import Trace


def export_requests(requests: Iterable[dict[str, Any]], path: Path, *, force: bool) -> None:
    """Write the requests, in order of time, as a CSV trace. Says on stderr how many.

    Raises CliError if there are none, if the file is there already and not to be written over, or cannot be written.
    """
    from reconciler.core.words import counted
    from reconciler.simulate.trace_history import trace_of_requests
    from reconciler.store import RequestRecord

    if path.exists() and not force:
        raise CliError(f"{path} is there already: --force writes over it")
    trace = trace_of_requests(RequestRecord(**request) for request in requests)
    if not len(trace):
        raise CliError("no single request is kept of that time: nothing was written")
    try:
        _write(trace, path, force=force)
    except FileExistsError:
        raise CliError(f"{path} is there already: --force writes over it") from None
    except OSError as error:
        raise CliError(f"{path} cannot be written: {error.strerror or error}") from error
    days = (trace.at[-1] - trace.at[0]) / 86400
    note(
        f"{counted(len(trace), 'request')} of {days:.1f} days, of {counted(len(trace.models), 'model')}"
        f" and {counted(len(trace.clients), 'client')}"
    )


def _write(trace: "Trace", path: Path, *, force: bool) -> None:
    """Write the file whole or not at all; without `force` whoever made it meanwhile keeps theirs."""
    from reconciler.simulate.trace_csv import write_csv

    draft = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with draft.open("x", encoding="utf-8", newline="") as file:
            write_csv(trace, file)
        if force:
            draft.replace(path)
        else:
            os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)
