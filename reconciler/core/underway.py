"""What a plan says of those who wait for a step that is being performed already."""

from dataclasses import replace
from typing import Final

from reconciler.core.machine import Evicting, State
from reconciler.core.types import Outcome, Plan, Reason, Verdict

#: What a model may be told that lacks room, although it is being made.
_LACKS_ROOM: Final = frozenset(
    {Reason.VICTIMS_BUSY, Reason.VICTIMS_KEPT, Reason.OUTRANKED, Reason.INSUFFICIENT_MEMORY, Reason.NO_PORT}
)


def told(made: Plan, state: State) -> Plan:
    """Return the plan with what the step in flight means for the model it is for: it waits for a victim to stop.

    A victim counts as in use again as soon as a request waits at its sealed door: without this, whoever it goes for
    would be told to wait until it is idle.
    """
    if not isinstance(state, Evicting) or state.action.for_model is None:
        return made
    action = state.action
    does = "give its memory back" if action.sleep else "stop"
    detail = f"waiting for {action.model} to {does}"
    return replace(
        made,
        verdicts=tuple(
            replace(v, reason=Reason.VICTIM_STOPPING, detail=detail, retry_in=None)
            if v.model == action.for_model and _lacks_room(v)
            else v
            for v in made.verdicts
        ),
    )


def _lacks_room(verdict: Verdict) -> bool:
    return verdict.outcome is Outcome.BLOCKED and verdict.reason in _LACKS_ROOM
