"""What the loop notes after a load holds up the next action, and no request."""

import pytest

from reconciler.core.memory import Memory
from reconciler.core.types import Manifest, ModelSpec
from reconciler.leases import QueueLimits
from reconciler.simulate.engine import run
from reconciler.simulate.layout import Layout, Speed
from reconciler.simulate.trace import Trace

GIB = 1 << 30


@pytest.mark.parametrize("after", [0.0, 0.25])
def test_the_next_load_waits_and_those_who_are_served_do_not(after: float) -> None:
    specs = tuple(ModelSpec(name, "d", steady=GIB) for name in ("a", "b"))
    layout = Layout(
        name="m",
        manifest=Manifest(specs, reserve=0),
        memory=Memory(total=8 * GIB, available=8 * GIB),
        speeds={"a": Speed(load=2.0, after=after), "b": Speed(load=3.0, after=after)},
        limits={"a": QueueLimits(), "b": QueueLimits()},
    )
    trace = Trace(models=["a", "b"], clients=["me"])
    for model in (0, 1):
        trace.add(100.0, model, 0, seconds=1.0)
    result = run(layout, trace)
    assert [(a.model, a.began, a.ended) for a in result.actions] == [
        ("a", 100.0, 102.0),
        ("b", 102.0 + after, 105.0 + after),
    ]
    assert result.models["a"].cold_seconds == 2.0
    assert result.models["b"].cold_seconds == 5.0 + after
