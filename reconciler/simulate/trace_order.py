"""A trace in order of time."""

from array import array
from itertools import islice
from operator import le, lt, sub
from typing import Final

from reconciler.simulate.trace import Trace

_COLUMNS: Final = ("at", "model", "client", "prompt_tokens", "output_tokens", "think", "seconds")


def ascends(times: "array[float]", begin: int = 0) -> bool:
    """Tell whether no time from place `begin` on is before the one above it."""
    begin = max(begin, 1)
    return all(map(le, islice(times, begin - 1, None), islice(times, begin, None)))


def in_order(trace: Trace) -> Trace:
    """Sort a trace in place if need be, requests of the same time as they are, and note it; return it."""
    times = trace.at
    if ascends(times):
        return trace
    back = sum(map(lt, islice(times, 1, None), times))
    most = max(map(sub, times, islice(times, 1, None)))
    order = sorted(range(len(times)), key=times.__getitem__)
    for name in _COLUMNS:
        column = getattr(trace, name)
        setattr(trace, name, array(column.typecode, map(column.__getitem__, order)))
    number_anew(trace)
    which = "1 request was" if back == 1 else f"{back:,} requests were"
    trace.notes.append(f"{which} earlier than the one above, by {most:.6g} s at most: sorted by time")
    return trace


def number_anew(trace: Trace) -> None:
    """Number models and clients in the order in which they first come, and drop the names of none."""
    for numbers, names in ((trace.model, trace.models), (trace.client, trace.clients)):
        order = {number: place for place, number in enumerate(dict.fromkeys(numbers))}
        names[:] = [names[number] for number in order]
        numbers[:] = array(numbers.typecode, map(order.__getitem__, numbers))
