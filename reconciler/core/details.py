"""What plans say of their steps to people: the reason in numbers."""

from reconciler.core.diff import Row, replaced, weights_replaced
from reconciler.core.restarts import restart_due
from reconciler.core.selection import Coming, Going
from reconciler.core.sleeping import may_sleep
from reconciler.core.types import Demand, Reason
from reconciler.core.words import counted, span


def evict_detail(going: Going, now: float, shortage: str) -> str:
    """Return why a process goes; `shortage` is why memory is short."""
    rest, row, claimant = _rest(going, now), going.row, going.claimant
    if row is None or claimant is None:
        text = _why(going, rest, now, shortage)
    elif claimant.pinned:
        text = f"{claimant.name} is pinned, {rest}"
    else:
        sign = "<" if row.spec.priority < claimant.spec.priority else "="
        worth = f", worth {row.worth:.1f} s" if row.worth is not None else ""
        text = f"priority {row.spec.priority} {sign} {claimant.spec.priority}, {rest}{worth}"
    return f"{text}, sleeps" if may_sleep(going, now) else text


def _why(going: Going, rest: str, now: float, shortage: str) -> str:
    row = going.row
    if going.reason is Reason.RESTART_DUE and row is not None:
        return restart_due(row, now)
    text = {
        Reason.DRIFTED: _drift(row),
        Reason.REMOVED: "not in the manifest",
        Reason.DUPLICATE: "a second process of the same model",
        Reason.DISMISSED: "asked for",
    }.get(going.reason)
    if text is not None:
        return f"{text}, asleep" if going.instance.asleep else text
    return {
        Reason.CRASHED: "what a dead process left behind",
        Reason.HUNG: going.instance.hung,
        Reason.OVER_BUDGET: f"models hold more than the budget, {rest}",
        Reason.MEMORY_PRESSURE: f"{shortage}, {rest}",
    }.get(going.reason, rest)


def _rest(going: Going, now: float) -> str:
    if going.busy:
        return "in use: its requests get to end first"
    if going.instance.asleep:
        return "asleep"
    return f"idle {span(max(0.0, now - going.instance.last_used))}"


def _drift(row: Row | None) -> str:
    if row is None or row.instance is None:
        return "its settings changed"
    if row.instance.digest != row.spec.digest:
        return "its settings changed"
    if not weights_replaced(row.instance, row.preflight):
        return "it may not sleep"
    return f"its {_replaced(row)} {'was edited' if _replaced(row) == 'class' else 'were replaced'}"


def _replaced(row: Row) -> str:
    """Return what is not any more what a process was started with: its weights, or the class that it serves."""
    if row.instance is None or row.preflight is None:
        return "weights"
    return "class" if replaced(row.instance.weights, row.preflight.weights) == (False, True) else "weights"


def load_detail(coming: Coming, now: float) -> str:
    """Return who waits for a model that is loaded, and whether it is only woken."""
    demand = coming.row.demand
    if coming.reason is Reason.PREWARM:
        return f"nobody waits yet: in memory it is worth {coming.row.worth or 0.0:.1f} s of waiting"
    if demand.waiting == 0:
        return "wakes" if coming.wakes is not None else ""
    oldest = f", oldest {span(max(0.0, now - demand.oldest))}" if demand.oldest is not None else ""
    text = f"{counted(demand.waiting, 'request')} waiting{oldest}"
    return f"wakes, {text}" if coming.wakes is not None else text


def serves_on(row: Row) -> str:
    """Return what a model does whose process cannot be replaced now."""
    old = row.instance is not None and row.instance.digest == row.spec.digest
    return f"the process with the old {_replaced(row) if old else 'settings'} serves on"


def use(demand: Demand) -> str:
    """Return who uses a model: `2 requests being served, 3 requests at the gate, held by 1 lease`."""
    parts = []
    if demand.active:
        parts.append(f"{counted(demand.active, 'request')} being served")
    if demand.gated:
        parts.append(f"{counted(demand.gated, 'request')} at the gate")
    if demand.jobs:
        parts.append(f"{counted(demand.jobs, 'job')} being worked on")
    if demand.held:
        parts.append(f"held by {counted(demand.held, 'lease')}")
    return ", ".join(parts)
