"""Who waits for what, as parts of the status document."""

from typing import TYPE_CHECKING

from reconciler.core.types import Demand
from reconciler.render.traffic_shapes import (
    GateDocument,
    LeaseDocument,
    NextDocument,
    QueueDocument,
    RequestsDocument,
)

if TYPE_CHECKING:  # the command line renders, too, and needs no event loop
    from reconciler.board import Snapshot
    from reconciler.leases import Hold, QueueTraffic, Traffic


def oldest_arrival(snapshot: "Snapshot", demand: Demand) -> float | None:
    """Return when the request came that waits longest for a model, be it for a load or at a gate."""
    queues = snapshot.traffic.queues if snapshot.traffic else ()
    times = [demand.oldest, *(q.oldest for q in queues if q.model == demand.model)]
    return min((t for t in times if t is not None), default=None)


def queue_document(snapshot: "Snapshot", model: str, now: float) -> QueueDocument | None:
    """Return who may wait for a model; None for one the manifest does not name."""
    limits, admission = snapshot.applied.limits.get(model), snapshot.admissions.get(model)
    if limits is None:
        return None
    queues = snapshot.traffic.queues if snapshot.traffic else ()
    found = next((q for q in queues if q.model == model), None)
    return QueueDocument(
        max=limits.queue.max,
        timeout=limits.queue.timeout,
        concurrency=admission.concurrency if admission else limits.concurrency,
        gates=admission.gates if admission else limits.gates or (),
        quiet=found.quiet if found else 0,
        oldest_place=found.oldest_place if found else 0,
        next=_next(found, now) if found else None,
    )


def _next(queue: "QueueTraffic", now: float) -> NextDocument | None:
    head = queue.head
    if head is None:
        return None
    return NextDocument(head.owner, head.priority, max(0.0, now - head.since), head.waits_for)


def gate_documents(traffic: "Traffic | None") -> tuple[GateDocument, ...]:
    """Return the gates, sorted by name."""
    gates = traffic.gates if traffic else ()
    return tuple(GateDocument(g.name, g.limit, g.inside, g.waiting) for g in gates)


def lease_documents(traffic: "Traffic | None", now: float) -> tuple[LeaseDocument, ...]:
    """Return the leases from outside, in order of their beginning."""
    return tuple(_lease(hold, now) for hold in (traffic.holds if traffic else ()))


def _lease(hold: "Hold", now: float) -> LeaseDocument:
    ended = bool(hold.ended)
    return LeaseDocument(
        id=hold.id,
        model=hold.model,
        owner=hold.owner,
        state="ended" if ended else "waiting" if hold.granted is None else "held",
        ends_in=0.0 if ended else max(0.0, hold.until - now),
        reason=hold.ended,
    )


def requests_document(traffic: "Traffic | None") -> RequestsDocument:
    """Return how many requests were granted a place in this run, and how many of those have ended."""
    return RequestsDocument(traffic.granted, traffic.ended) if traffic else RequestsDocument(0, 0)
