"""The trace that is to be simulated: from a file or from our own history, a part of it, and who is asked for in it."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Final

from reconciler.cli.names import near
from reconciler.cli.output import CliError, UsageError
from reconciler.render.paint import one_line

if TYPE_CHECKING:
    from reconciler.render.simulate_shapes import TraceDocument, UnknownDocument
    from reconciler.simulate.speeds_past import Past
    from reconciler.simulate.trace import Trace

#: The word that stands for our own requests; a file of this name is given as ./history.
HISTORY: Final = "history"
#: Names in an error before they are only counted.
_NAMED: Final = 5


class TraceRefusedError(CliError):
    """The trace cannot be read; the message is all of its faults, each with its place."""

    prefix = ""


def read(source: str, past: "Past", progress: Callable[[float], None]) -> "Trace":
    """Return the trace in the file `source`, or that of our own history. Raises CliError."""
    if source == HISTORY:
        from reconciler.simulate.trace_history import trace_of_requests

        if not past.requests:
            raise CliError(
                "this machine has no history of requests yet: a loop writes it down as it serves them"
                " (--state-dir says where it is; a file called history is given as ./history)"
            )
        return _told(trace_of_requests(past.requests))
    from reconciler.simulate.trace_read import TraceError, read_trace

    try:
        found = read_trace(Path(source), progress=lambda done, size: progress(done / size if size else 1.0))
    except TraceError as error:
        raise TraceRefusedError(str(error)) from error
    return _told(found)


def _told(trace: "Trace") -> "Trace":
    """Note what is assumed of tokens that a trace does not tell; return it."""
    from reconciler.simulate.trace_tokens import assumption

    if note := assumption(trace):
        trace.notes.append(note)
    return trace


def between(trace: "Trace", since: str | None, until: str | None) -> "Trace":
    """Return the requests from `since` (inclusive) to `until`, durations from the trace's first midnight.

    Raises UsageError for what is no duration, CliError when nothing is left.
    """
    first = 0 if since is None else bisect_left(trace.at, _time(since, "--from"))
    last = len(trace) if until is None else bisect_left(trace.at, _time(until, "--to"))
    if first >= last:
        if since is None and until is None:
            raise CliError("the trace has no requests")
        from reconciler.render.simulate_text import clock

        began, ended = (clock(trace.at[place], days=True) for place in (0, -1)) if len(trace) else ("-", "-")
        raise CliError(f"the trace has no requests between --from and --to; it goes from {began} to {ended}")
    if (first, last) == (0, len(trace)):
        return trace
    from reconciler.simulate.trace import Trace

    part = slice(first, last)
    return Trace(
        at=trace.at[part],
        model=trace.model[part],
        client=trace.client[part],
        prompt_tokens=trace.prompt_tokens[part],
        output_tokens=trace.output_tokens[part],
        think=trace.think[part],
        seconds=trace.seconds[part],
        models=trace.models,
        clients=trace.clients,
        notes=trace.notes,
    )


def _time(text: str, option: str) -> float:
    from reconciler.manifest.sizes import UnitError, parse_duration

    try:
        return parse_duration(text)
    except UnitError as error:
        raise UsageError(
            f"{option}: {error.problem}; {error.hint}; it counts from the midnight before the first request"
        ) from error


def counts(trace: "Trace") -> dict[str, int]:
    """Return how many requests each name has."""
    return {trace.models[number]: count for number, count in sorted(Counter(trace.model).items())}


def document(trace: "Trace", source: str, unknown: "tuple[UnknownDocument, ...]") -> "TraceDocument":
    """Return what is said of a trace."""
    from reconciler.render.simulate_shapes import TraceDocument

    return TraceDocument(
        source=source,
        requests=len(trace),
        models=len(set(trace.model)),
        clients=len(set(trace.client)),
        timed=sum(map(isfinite, trace.seconds)),
        began=trace.at[0],
        ended=trace.at[-1],
        unknown=unknown,
    )


def unknown_in(
    asked: Mapping[str, int], manifest: str, models: Sequence[str], routes: Mapping[str, str]
) -> "tuple[UnknownDocument, ...]":
    """Return the names that a manifest does not have, most requests first. Raises CliError if it has none of them.

    `asked` is how many requests each name of the trace has.
    """
    from reconciler.render.simulate_shapes import UnknownDocument

    missing = [name for name in asked if routes.get(name, name) not in models]
    if len(missing) == len(asked):
        raise CliError(
            f"{manifest} has none of the models of the trace ({_listed(sorted(missing))});"
            f" it has {_listed(models) or 'no models'}"
        )
    known = sorted({*models, *routes})
    return tuple(
        UnknownDocument(name, asked[name], near(name, known))
        for name in sorted(missing, key=lambda n: (-asked[n], n))
    )


def _listed(names: Sequence[str]) -> str:
    told = ", ".join(one_line(name) for name in names[:_NAMED])
    return f"{told} and {len(names) - _NAMED} more" if len(names) > _NAMED else told
