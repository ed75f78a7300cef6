"""What the gateway shows of the loop's snapshots; injected, so that tests of the gateway need no renderer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from reconciler.board import Snapshot
from reconciler.core.launch import Role
from reconciler.core.machine import Evicting, Loading
from reconciler.core.types import Outcome, Reason
from reconciler.gateway.context import budget_of
from reconciler.gateway.errors import ApiError
from reconciler.gateway.surface import reachable
from reconciler.manifest.applied import GENERATING

_GENERATING: Final = ("chat", "completion")
_CAPABILITIES: Final[Mapping[Role, tuple[str, ...]]] = {
    role: (*_GENERATING, "vision")
    if role is Role.VISION
    else _GENERATING
    if role in GENERATING
    else (role.value,)
    for role in Role
}
_BEST_FIRST: Final = ("ready", "loading", "evicting", "asleep", "cold", "failing", "blocked")

View = Callable[[Snapshot, float], dict[str, Any]]
#: Raises KeyError for a model that nobody knows.
AdviceView = Callable[[Snapshot, float, str], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Views:
    """The documents of `/api/v1`: each takes the snapshot and a reading of its clock."""

    status: View
    plan: View
    world: View
    budget: View
    advice: AdviceView
    #: Status and plan at once: what both say, the advice, is worked out once.
    live: Callable[[Snapshot, float], tuple[dict[str, Any], dict[str, Any]]]


def standard_views() -> Views:
    """Return the documents whose schemas lie in `schemas/`.

    What makes them is imported by the first who asks for one: it is an eighth of all that a start would import.
    """
    return Views(status=_status, plan=_plan, world=_world, budget=_budget, advice=_advice, live=_live)


def _status(snapshot: Snapshot, now: float) -> dict[str, Any]:
    from reconciler.render.status_document import status_json

    return status_json(snapshot, now)


def _plan(snapshot: Snapshot, now: float) -> dict[str, Any]:
    from reconciler.render.advice_document import hint_documents
    from reconciler.render.plan_document import plan_json

    hints = hint_documents(snapshot.applied.manifest, snapshot.world, snapshot.plan, now)
    return plan_json(snapshot.plan, snapshot.applied.source, hints)


def _world(snapshot: Snapshot, _now: float) -> dict[str, Any]:
    from reconciler.wire import world_to_json

    return world_to_json(snapshot)


def _budget(snapshot: Snapshot, _now: float) -> dict[str, Any]:
    from reconciler.render.budget_document import budget_json

    return budget_json(snapshot)


def _advice(snapshot: Snapshot, now: float, model: str) -> dict[str, Any]:
    from reconciler.render.advice_document import advice_json

    return advice_json(snapshot, now, model)


def _live(snapshot: Snapshot, now: float) -> tuple[dict[str, Any], dict[str, Any]]:
    from reconciler.render.plan_document import plan_json

    status, plan = _status(snapshot, now), plan_json(snapshot.plan, snapshot.applied.source)
    return status, plan | {"advice": status["advice"]}


def model_ids(snapshot: Snapshot) -> list[str]:
    """Return every id a client may use: names, aliases and virtual models, sorted."""
    return sorted({*snapshot.applied.routes, *snapshot.applied.virtual})


def model_entry(snapshot: Snapshot, model_id: str, created: int) -> dict[str, Any]:
    """Return one id as OpenAI lists models, with what other clients look for, and what we know of it.

    A virtual model is ready when one of its models is; its context is the longest of theirs.
    """
    virtual = snapshot.applied.virtual.get(model_id)
    entry = {"id": model_id, "object": "model", "created": created, "owned_by": "reconcile"}
    if virtual is None:
        model = snapshot.applied.routes[model_id]
        return entry | _known_of(snapshot, (model,)) | {"reconcile": _own(snapshot, model)}
    models = tuple(sorted(virtual.models))
    states = {model_state(snapshot, model) for model in models}
    best = next(state for state in _BEST_FIRST if state in states)
    own = {"virtual": True, "models": list(models), "state": best}
    return entry | _known_of(snapshot, models) | {"reconcile": own}


def _own(snapshot: Snapshot, model: str) -> dict[str, Any]:
    residency = next((m.residency.value for m in snapshot.applied.manifest.models if m.name == model), None)
    role = snapshot.applied.limits[model].role.value if model in snapshot.applied.limits else None
    return {
        "model": model,
        "state": model_state(snapshot, model),
        "residency": residency,
        "role": role,
    }


def _known_of(snapshot: Snapshot, models: tuple[str, ...]) -> dict[str, Any]:
    """Return what clients choose by: the roles, and how long a conversation may be under the names in use."""
    limits = snapshot.applied.limits
    # What no path of the data API reaches is nothing to a client that chooses by it.
    roles = {limits[m].role for m in models if m in limits and reachable(snapshot.applied, m)}
    said: dict[str, Any] = {"capabilities": sorted({word for role in roles for word in _CAPABILITIES[role]})}
    budgets = [budget.tokens for model in models if (budget := budget_of(snapshot, model)) is not None]
    if budgets:
        tokens = max(budgets)
        said |= {"context_length": tokens, "max_model_len": tokens, "meta": {"n_ctx": tokens}}
    return said


def model_state(snapshot: Snapshot, model: str) -> str:
    """Return "ready", "loading", "evicting", "failing", "blocked", "asleep" or "cold"."""
    state = snapshot.state
    instances = [i for i in snapshot.world.observation.instances if i.model == model]
    if isinstance(state, Evicting) and state.action.model == model:
        return "evicting"
    if any(i.ready for i in instances):
        return "ready"
    awake = [i for i in instances if not i.asleep]
    if awake or (isinstance(state, Loading) and state.action.model == model):
        return "loading"
    verdict = snapshot.plan.verdict(model)
    if verdict is not None and verdict.outcome is Outcome.BLOCKED:
        return "failing" if verdict.reason in (Reason.BACKING_OFF, Reason.GIVEN_UP) else "blocked"
    return "asleep" if instances else "cold"


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
