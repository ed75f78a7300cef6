"""What goes on between clients and models, for people: a picture of one moment. Times are monotonic seconds."""

from dataclasses import dataclass

from reconciler.leases.holds import Hold, Holds
from reconciler.leases.page import UNBOUNDED, Page
from reconciler.leases.scheduler import Scheduler


@dataclass(frozen=True, slots=True)
class GateTraffic:
    """One gate."""

    name: str
    limit: int
    #: Models that compute behind it; more than `limit` only after the limit was lowered.
    inside: tuple[str, ...]
    #: Requests that wait for it.
    waiting: int


@dataclass(frozen=True, slots=True)
class Head:
    """The request that is served next."""

    owner: str
    priority: int
    since: float
    #: `load`, `gate NAME` or `place`.
    waits_for: str


@dataclass(frozen=True, slots=True)
class QueueTraffic:
    """One model with requests or holds."""

    model: str
    #: Requests at the model, and leases that count for nothing (idle WebSockets).
    active: int
    quiet: int
    #: Requests that wait for the model to be loaded; that wait although it is.
    waiting: int
    gated: int
    held: int
    #: Arrival of the longest-waiting request; None if nobody waits.
    oldest: float | None
    head: Head | None
    #: Bounds of the queue: requests, and seconds. 0 for a model that left the manifest.
    max: int
    timeout: float
    #: Requests at the model at once; None = any number.
    concurrency: int | None
    gates: tuple[str, ...]
    #: Place in the queue of the request that waits longest, 1 = next; 0 if nobody waits.
    oldest_place: int = 0


@dataclass(frozen=True, slots=True)
class Traffic:
    """Everything, sorted by name; holds by their beginning."""

    gates: tuple[GateTraffic, ...] = ()
    queues: tuple[QueueTraffic, ...] = ()
    holds: tuple[Hold, ...] = ()
    #: Leases granted and ended in this run: their difference is what is active.
    granted: int = 0
    ended: int = 0


def traffic(scheduler: Scheduler, holds: Holds) -> Traffic:
    """Return the picture of now."""
    pages = [page for _, page in sorted(scheduler.pages.items())]
    return Traffic(
        gates=_gates(scheduler),
        queues=tuple(_queue(page) for page in pages if page.queue or page.active or page.quiet or page.held),
        holds=holds.all(),
        granted=scheduler.granted,
        ended=scheduler.ended,
    )


def _gates(scheduler: Scheduler) -> tuple[GateTraffic, ...]:
    waiting: dict[str, int] = {}
    for page in scheduler.queued.values():
        waiting[page.waits_for] = waiting.get(page.waits_for, 0) + len(page.queue)
    return tuple(
        GateTraffic(name, gate.limit, tuple(sorted(gate.inside)), waiting.get(f"gate {name}", 0))
        for name, gate in sorted(scheduler.gates.items())
    )


def _queue(page: Page) -> QueueTraffic:
    serves = page.serves_at is not None
    first = page.first() if page.queue else None
    limits = page.limits
    return QueueTraffic(
        model=page.name,
        active=len(page.active),
        quiet=len(page.quiet),
        waiting=0 if serves else len(page.queue),
        gated=len(page.queue) if serves else 0,
        held=len(page.held),
        oldest=page.oldest,
        head=Head(first.owner, first.priority, first.since, page.waits_for) if first else None,
        max=limits.max if limits else 0,
        timeout=limits.timeout if limits else 0.0,
        concurrency=None if page.concurrency == UNBOUNDED else page.concurrency,
        gates=tuple(gate.name for gate in page.gates),
        oldest_place=_oldest_place(page),
    )


def _oldest_place(page: Page) -> int:
    times = [ticket.since for _, ticket in page.queue]
    return times.index(min(times)) + 1 if times else 0
