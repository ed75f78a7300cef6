"""Views of a live screen that are drawn in tests."""

from dataclasses import replace
from typing import Any

from board_samples import NOW, SOURCE, design_plan, gib, quiet_plan, refused_snapshot, snapshot
from history_samples import EVENTS
from history_samples import NOW as WALL
from reconciler.board import Snapshot
from reconciler.core.memory import Watermarks
from reconciler.core.pressure import Level, Pressure
from reconciler.core.types import Plan
from reconciler.render.plan_document import plan_json
from reconciler.render.status_document import status_json
from reconciler.render.top_view import View

BUSY_EVENTS: tuple[dict[str, Any], ...] = tuple(
    {"id": n, "at": WALL - ago, "kind": kind, "model": model, "reason": reason, "message": message}
    for n, (ago, kind, model, reason, message) in enumerate(EVENTS, 1)
)


def view(shown: Snapshot, plan: Plan, **more: Any) -> View:
    """Return a view of a snapshot and a plan."""
    return View(status_json(shown, NOW), plan_json(plan, SOURCE), BUSY_EVENTS, **more)


def busy() -> View:
    """A desk on which a model is being loaded, others fail, and memory is short."""
    made = snapshot()
    seen = replace(
        made.world.observation,
        pressure=Pressure(Level.HARD, 0.88, relieving=True, cause="88 % of the memory is in use"),
    )
    manifest = replace(made.applied.manifest, watermarks=Watermarks(), reserve=gib(3))
    applied = replace(made.applied, manifest=manifest)
    return view(
        replace(made, applied=applied, world=replace(made.world, observation=seen)), design_plan(), age=1.5
    )


def calm() -> View:
    """The same desk, nothing to do, its newest manifest refused."""
    return view(refused_snapshot(), quiet_plan(blocked=True))


def crowded(count: int) -> View:
    """So many models, each a little larger than the one before."""
    made = busy()
    pattern = made.status["models"][0]
    models = [
        {**pattern, "name": f"model-{n:03}", "held": gib(1) + n, "size": gib(1) + n, "idle": float(count - n)}
        for n in range(count)
    ]
    return replace(made, status={**made.status, "models": models})
