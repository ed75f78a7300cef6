"""Policies that are compared, each as what it makes of a layout, what plans, and what is known of the future."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from benchmarks.foresight import Foresight
from benchmarks.plain_lru import plain_lru
from reconciler.core.habits import Habits
from reconciler.core.plan import plan
from reconciler.core.types import Manifest, Policy, Prewarm
from reconciler.simulate.engine import Planner, run
from reconciler.simulate.layout import Layout
from reconciler.simulate.result import Result
from reconciler.simulate.trace import Trace

#: Seconds after which an idle model is unloaded, where people set none: Ollama's `keep_alive`.
KEEP_ALIVE: Final = 300.0


@dataclass(frozen=True, slots=True)
class Variant:
    """One line of the comparison."""

    what: str
    policy: Policy = Policy.LRU
    prewarm: Prewarm = Prewarm.OFF
    planner: Planner = plan
    #: Models know when they are used next.
    clairvoyant: bool = False
    #: What else is different in the manifest.
    edit: Callable[[Manifest, Layout], Manifest] = lambda manifest, layout: manifest

    def run(self, layout: Layout, trace: Trace) -> Result:
        """Return what this policy makes of a trace."""
        manifest = replace(layout.manifest, policy=self.policy, prewarm=self.prewarm)
        changed = replace(layout, manifest=self.edit(manifest, layout))
        habits = Foresight(trace, layout.routes) if self.clairvoyant else Habits()
        return run(changed, trace, planner=self.planner, habits=habits)


def _alone(manifest: Manifest, layout: Layout) -> Manifest:
    """Let each model take all memory, so that no other stands beside it."""
    whole = layout.memory.total
    return replace(manifest, models=tuple(replace(m, steady=whole, peak=whole) for m in manifest.models))


def _kept_for_a_while(manifest: Manifest, layout: Layout) -> Manifest:
    return replace(manifest, models=tuple(replace(m, idle_ttl=KEEP_ALIVE) for m in manifest.models))


_COST: Final = Policy.COST
#: What all others are divided by.
BASE: Final = "plain"
VARIANTS: Final[Mapping[str, Variant]] = {
    BASE: Variant("plain LRU", planner=plain_lru),
    "lru": Variant("`policy: lru`"),
    "off": Variant("`cost`, `prewarm: off`", _COST),
    "free": Variant("`cost`, `prewarm: free`", _COST, Prewarm.FREE),
    "full": Variant("`cost`, `prewarm: full`", _COST, Prewarm.FULL),
    "alone": Variant("one model at a time", edit=_alone),
    "ttl": Variant("unloaded after 5 min idle, else plain LRU", planner=plain_lru, edit=_kept_for_a_while),
    "seer": Variant("the future known, on demand", _COST, clairvoyant=True),
    "seer-full": Variant("the future known, `prewarm: full`", _COST, Prewarm.FULL, clairvoyant=True),
}
