"""Plain LRU as a planner: whoever was used longest ago goes, and the next one, until the model in turn fits.

Our own `lru` is a little better: of those it passes on its way to enough room it keeps the ones that prove unnecessary.
"""

from dataclasses import replace

from reconciler.core.plan import plan
from reconciler.core.types import Evict, Instance, Manifest, Plan, Policy, Reason, World


def plain_lru(manifest: Manifest, world: World, now: float) -> Plan:
    """Return the plan of `Policy.LRU`, but that nobody who was used longest ago is passed over.

    Only the head of a plan is ever performed, so it is the only step that is exchanged. Priorities, pins and the times
    within which a model is safe are not looked at: no trace here has any.
    """
    made = plan(replace(manifest, policy=Policy.LRU), world, now)
    head = made.head
    if not isinstance(head, Evict) or head.reason is not Reason.MAKE_ROOM:
        return made
    oldest = _oldest(world)
    if oldest is None or oldest.pid == head.pid:
        return made
    head = replace(
        head,
        model=oldest.model,
        pid=oldest.pid,
        started=oldest.started,
        frees=oldest.committed or 0,
        drain=False,
        last_used=oldest.last_used,
        detail="used longest ago",
    )
    return replace(made, steps=(head, *made.steps[1:]))


def _oldest(world: World) -> Instance | None:
    """Return the idle model that was used longest ago."""
    used = {d.model for d in world.observation.demands if d.in_use}
    idle = [i for i in world.observation.instances if i.ready and i.model not in used]
    return min(idle, key=lambda i: (i.last_used, i.model), default=None)
