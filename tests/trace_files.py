"""Traces for tests: compared as they are stored, since nan is equal to nothing."""

from pathlib import Path

import pytest

from reconciler.simulate.trace import Trace
from reconciler.simulate.trace_errors import TraceError
from reconciler.simulate.trace_read import read_trace

OPEN = Path(__file__).resolve().parent / "traces"
HEADER = "t,model,prompt_tokens,output_tokens,client,think,seconds\n"


def columns(trace: Trace) -> tuple[object, ...]:
    """Return all that a trace says, as something that can be compared."""
    arrays = (
        trace.at,
        trace.model,
        trace.client,
        trace.prompt_tokens,
        trace.output_tokens,
        trace.think,
        trace.seconds,
    )
    return (*(a.tobytes() for a in arrays), tuple(trace.models), tuple(trace.clients))


def rows(trace: Trace) -> list[tuple[float, str, str, int, int]]:
    """Return time, model, client and tokens of each request."""
    return [
        (at, trace.models[model], trace.clients[client], prompt, output)
        for at, model, client, prompt, output in zip(
            trace.at, trace.model, trace.client, trace.prompt_tokens, trace.output_tokens, strict=True
        )
    ]


def refused(path: Path) -> list[str]:
    """Return what is said of a file that is refused, without its folder."""
    with pytest.raises(TraceError) as caught:
        read_trace(path)
    return str(caught.value).replace(f"{path.parent}/", "").splitlines()
