"""When a drain that has begun is called off: nobody needs it any more, or it holds up what can do without it.

Asked at every turn of a drain, with a plan made as if the model had never been sealed: what waits at its door
because of the seal is no reason to unseal it, and none to keep it sealed.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from reconciler.core.plan import plan
from reconciler.core.types import Demand, Evict, Load, Manifest, Plan, World

UNNEEDED = "nobody needs it any more"
#: A drain is not put off before it has lasted so long, nor begun again for the same within so long; seconds.
PATIENCE: Final = 10.0


def unneeded(action: Evict, manifest: Manifest, world: World, now: float) -> bool:
    """Return whether the drain that `action` began would not be begun now.

    Who waits for its room need not have waited so long himself: the place in the line is his model's. Another drain
    for the same is no better than the one begun, and a look that shows nothing calls nothing off.
    """
    fresh = plan(manifest, _as_begun(action, world), now)
    return fresh.account.free is not None and not any(_same(action, step) for step in fresh.steps)


def overtaking(action: Evict, manifest: Manifest, world: World, since: float, now: float) -> str:
    """Return the model that could be loaded if a drain that goes on since `since` were put off; "" = there is none.

    Drains do not give way before they have lasted for `PATIENCE`.
    """
    if now - since < PATIENCE:
        return ""
    spared = _changed(world, action.model, lambda d: replace(_unsealed(d), spared=action.reason))
    return _first_load(plan(manifest, spared, now), but=action.for_model)


def _same(action: Evict, step: object) -> bool:
    if not isinstance(step, Evict):
        return False
    if (step.pid, step.started) == (action.pid, action.started):
        return True
    return step.drain and (step.reason, step.for_model) == (action.reason, action.for_model)


def _first_load(made: Plan, but: str | None) -> str:
    for step in made.steps:
        if isinstance(step, Load):
            return step.model if step.model != but else ""
        if step.drain:
            return ""
    return ""


def _as_begun(action: Evict, world: World) -> World:
    world = _changed(world, action.model, _unsealed)
    if action.for_model is None or action.for_model == action.model:
        return world
    return _changed(world, action.for_model, lambda d: replace(d, drains=True))


def _unsealed(demand: Demand) -> Demand:
    return replace(
        demand, gated=demand.gated + demand.waiting, waiting=0, oldest=None, wanted=False, wished=None
    )


def _changed(world: World, model: str, change: Callable[[Demand], Demand]) -> World:
    demands = tuple(change(d) if d.model == model else d for d in world.observation.demands)
    return replace(world, observation=replace(world.observation, demands=demands))
