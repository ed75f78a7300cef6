"""What our own store remembers of single requests, as a trace."""

from collections.abc import Iterable
from datetime import tzinfo
from math import nan

from reconciler.simulate.trace import UNKNOWN, Trace
from reconciler.simulate.trace_names import Names
from reconciler.simulate.trace_order import in_order
from reconciler.simulate.trace_times import midnight_before
from reconciler.store import RequestRecord


def trace_of_requests(records: Iterable[RequestRecord], zone: tzinfo | None = None) -> Trace:
    """Return the requests that `records` tell of, in order of time; none = an empty trace.

    Requests that were refused, or left while they waited, are there as well: their model was asked for. What they
    would have taken is not known, nor the tokens of what its engine did not count. `zone` None = that of this machine.
    """
    trace = Trace()
    models, clients = Names("model"), Names("client")
    for record in records:
        trace.add(
            record.at,
            models.number(record.model),
            clients.number(record.client),
            UNKNOWN if record.prompt_tokens is None else record.prompt_tokens,
            UNKNOWN if record.output_tokens is None else record.output_tokens,
            seconds=record.seconds if record.seconds > 0 else nan,
        )
    trace.models, trace.clients = models.names, clients.names
    if len(trace):
        midnight = midnight_before(min(trace.at), zone)
        for place, at in enumerate(trace.at):
            trace.at[place] = round(at - midnight, 6)
    in_order(trace)
    # Requests are written down when they end: that they came in another order is no news.
    trace.notes.clear()
    return trace
