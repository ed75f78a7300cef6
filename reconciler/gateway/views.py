"""What the gateway shows of the loop's snapshots; injected, so that tests of the gateway need no renderer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from reconciler.board import Snapshot
from reconciler.core.machine import Evicting, Loading
from reconciler.core.types import Outcome, Reason
from reconciler.gateway.errors import ApiError

View = Callable[[Snapshot, float], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Views:
    """The documents of `/api/v1`: each takes the snapshot and a reading of its clock."""

    status: View
    plan: View
    world: View
    budget: View


def standard_views() -> Views:
    """Return the documents whose schemas lie in `schemas/`."""
    from reconciler.render import budget_json, plan_json, status_json
    from reconciler.wire import world_to_json

    return Views(
        status=status_json,
        plan=lambda snapshot, _now: plan_json(snapshot.plan, snapshot.applied.source),
        world=lambda snapshot, _now: world_to_json(snapshot),
        budget=lambda snapshot, _now: budget_json(snapshot),
    )


def model_entry(snapshot: Snapshot, model_id: str, created: int) -> dict[str, Any]:
    """Return one id (a name or an alias) as OpenAI lists models, plus what we know of it."""
    model = snapshot.applied.routes[model_id]
    residency = next((m.residency.value for m in snapshot.applied.manifest.models if m.name == model), None)
    return {
        "id": model_id,
        "object": "model",
        "created": created,
        "owned_by": "reconcile",
        "reconcile": {"model": model, "state": model_state(snapshot, model), "residency": residency},
    }


def model_state(snapshot: Snapshot, model: str) -> str:
    """Return "ready", "loading", "evicting", "failing", "blocked" or "cold"."""
    state = snapshot.state
    instances = [i for i in snapshot.world.observation.instances if i.model == model]
    if isinstance(state, Evicting) and state.action.model == model:
        return "evicting"
    if any(i.ready for i in instances):
        return "ready"
    if instances or (isinstance(state, Loading) and state.action.model == model):
        return "loading"
    verdict = snapshot.plan.verdict(model)
    if verdict is not None and verdict.outcome is Outcome.BLOCKED:
        return "failing" if verdict.reason is Reason.BACKING_OFF else "blocked"
    return "cold"


def check_loadable(snapshot: Snapshot, model: str) -> None:
    """Raise `ApiError` (409) if the last plan says that nothing but an edit makes this model loadable."""
    verdict = snapshot.plan.verdict(model)
    if verdict is None or verdict.reason not in (
        Reason.NEVER_FITS,
        Reason.NOT_STARTABLE,
        Reason.SIZE_UNKNOWN,
    ):
        return
    detail = f": {verdict.detail}" if verdict.detail else ""
    raise ApiError("cannot_load", f"model {model!r} cannot be loaded ({verdict.reason.value}{detail})")


def verdict_entry(snapshot: Snapshot, model: str) -> dict[str, Any] | None:
    """Return what the last plan says of a model; None before it was planned."""
    verdict = snapshot.plan.verdict(model)
    if verdict is None:
        return None
    return {
        "outcome": verdict.outcome.name.lower(),
        "reason": verdict.reason.value,
        "detail": verdict.detail,
        "retry_in": verdict.retry_in,
    }
