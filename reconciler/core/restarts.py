"""When a model that serves well is replaced by a fresh process all the same: what leaks over days is given back."""

from typing import Final

from reconciler.core.diff import Fitness, Row
from reconciler.core.types import Instance, ModelSpec
from reconciler.core.words import size, span

#: A process that has grown is replaced at most so often, in seconds: one that grows right after its load would
#: otherwise be loaded and stopped in turns.
GROWTH_PACE: Final = 600.0


def restart_due(row: Row, now: float) -> str:
    """Return why a running model is to be replaced as soon as it is idle, for people; "" = it is not."""
    spec, instance = row.spec, row.instance
    if not _limited(spec) or instance is None or not instance.ready or row.fitness is not Fitness.FRESH:
        return ""
    ran, served = now - _began(instance), instance.served + instance.served_before
    if spec.restart_after is not None and ran >= spec.restart_after:
        return f"restart due: loaded {span(ran)} ago"
    if spec.restart_requests is not None and served >= spec.restart_requests:
        return f"restart due: served {served} requests"
    growth = _growth(spec, instance)
    if growth is not None and ran >= GROWTH_PACE:
        return f"restart due: grew by {size(growth)} since it was ready"
    return ""


def next_restart(spec: ModelSpec, instance: Instance) -> float | None:
    """Return when the time alone makes a restart due that is not due yet; None = it never does."""
    times = []
    if spec.restart_after is not None:
        times.append(_began(instance) + spec.restart_after)
    if _growth(spec, instance) is not None:
        times.append(_began(instance) + GROWTH_PACE)
    return min(times, default=None)


def _limited(spec: ModelSpec) -> bool:
    if spec.restart_after is not None or spec.restart_requests is not None:
        return True
    return spec.restart_growth is not None


def _began(instance: Instance) -> float:
    """Return when its process began: neither sleep nor a new manager makes it younger."""
    return instance.loaded_at if instance.began is None else instance.began


def _growth(spec: ModelSpec, instance: Instance) -> int | None:
    """Return the bytes a process has grown by since it was ready, if that is more than it may."""
    first, now = instance.committed_at_ready, instance.committed
    if spec.restart_growth is None or first is None or now is None:
        return None
    return now - first if now - first > spec.restart_growth else None
