"""What the book has written about one model, and the requests that wait for it in order of rank."""

import sys
from bisect import bisect_left, insort
from dataclasses import dataclass, field
from typing import Final, Protocol

import anyio

from reconciler.leases.lease import Lease
from reconciler.leases.record import FAILED, OK
from reconciler.leases.types import Endpoint, QueueLimits, Refusal

#: Who waits gains this much priority ...
AGEING_PRIORITY: Final = 250
#: ... for each of these seconds, steadily: so the least urgent overtakes the most urgent newcomer after 40 s.
AGEING_SECONDS: Final = 10.0
#: What a request waits for whose model takes no requests now.
LOAD: Final = "load"
#: Concurrency of a model that takes any number of requests.
UNBOUNDED: Final = sys.maxsize


def rank(since: float, priority: int) -> float:
    """Return the rank of a request that came at `since`: the lower, the earlier it is served.

    Everybody ages at the same pace, so two requests never change their order: priority is a head start in seconds.
    """
    return since - priority * (AGEING_SECONDS / AGEING_PRIORITY)


@dataclass(eq=False, slots=True)
class Gate:
    """One gate, and the models that compute behind it."""

    name: str
    limit: int
    inside: set[str] = field(default_factory=set)


class Bell(Protocol):
    """What tells whoever waits; an event, where somebody really does."""

    def set(self) -> None:
        """Tell."""

    def is_set(self) -> bool:
        """Return whether it was told."""

    async def wait(self) -> object:
        """Return once it was told."""


class Ticket:
    """One request in the queue, as it is while it is looked at. Settled by exactly one of a lease and a refusal."""

    __slots__ = ("_page", "cold_before", "key", "lease", "owner", "priority", "refusal", "settled", "since")

    def __init__(self, page: "Page", since: float, number: int, priority: int, owner: str) -> None:
        self._page = page
        #: When it began to wait, monotonic seconds.
        self.since = since
        #: Seconds the model had taken no requests by then.
        self.cold_before = page.cold(since)
        self.priority = priority
        #: Who asks, for people.
        self.owner = owner
        #: Rank, then arrival.
        self.key = (rank(since, priority), number)
        self.settled: Bell = anyio.Event()
        self.lease: Lease | None = None
        self.refusal: Refusal | None = None

    @property
    def model(self) -> str:
        """The model it waits for."""
        return self._page.name

    @property
    def place(self) -> int:
        """Its place in the model's queue, 1 = next; 0 = it waits no more."""
        if self.lease is not None or self.refusal is not None:
            return 0
        return self._page.position(self) + 1

    @property
    def waiting(self) -> int:
        """How many requests wait for the model, this one among them."""
        return len(self._page.queue)

    @property
    def waits_for(self) -> str:
        """`load`, `gate NAME`, or `place` (the model serves as many requests as it may)."""
        return self._page.waits_for


@dataclass(eq=False, slots=True)
class Page:
    """The book's page of one model."""

    name: str
    limits: QueueLimits | None = None
    endpoint: Endpoint | None = None
    run: int = 0
    sealed: bool = False
    concurrency: int = UNBOUNDED
    gates: tuple[Gate, ...] = ()
    active: dict[str, Lease] = field(default_factory=dict)
    quiet: dict[str, Lease] = field(default_factory=dict)
    #: Who waits, sorted by `Ticket.key`, which is part of each row.
    queue: list[tuple[tuple[float, int], Ticket]] = field(default_factory=list)
    #: What the first in the queue lacks although the model takes requests.
    obstacle: str = LOAD
    #: Ids of the holds in force, and of those that wait for the model to be loaded.
    held: set[str] = field(default_factory=set)
    pending: set[str] = field(default_factory=set)
    #: The models that write a summary for requests that were here and come back, one for each of these.
    away: list[str] = field(default_factory=list)
    #: Set whenever the last lease or hold ends; replaced by who waits for that.
    idle: anyio.Event | None = None
    last_used: float | None = None
    served: int = 0
    #: Of those, the requests that its server answered.
    answered: int = 0
    #: Requests in a row that its server failed, and how it failed the last one.
    faults: int = 0
    fault: str = ""
    dismissed: bool = False
    #: Jobs its engine says it works on.
    jobs: int = 0
    #: When its process last went.
    closed: float | None = None
    #: Seconds it took no requests, as far as somebody waited for it, up to `shut_since`: since then it takes none
    #: (None = it does).
    shut: float = 0.0
    shut_since: float | None = None

    @property
    def serves_at(self) -> Endpoint | None:
        """Where new leases are granted; None = they are not."""
        return None if self.sealed else self.endpoint

    def turned(self, now: float) -> None:
        """Note whether the model takes requests from now on. To be called after each change of that."""
        if self.serves_at is None:
            if self.shut_since is None:
                self.shut_since = now
        elif self.shut_since is not None:
            self.shut += max(0.0, now - self.shut_since)
            self.shut_since = None

    def cold(self, now: float) -> float:
        """Return the seconds it took no requests. Only differences mean something."""
        if self.serves_at is None and self.shut_since is None:
            self.shut_since = now
        return self.shut + (max(0.0, now - self.shut_since) if self.shut_since is not None else 0.0)

    @property
    def busy(self) -> bool:
        """Whether stopping the model would disturb somebody who was promised otherwise."""
        return bool(self.active or self.held or self.jobs)

    @property
    def waits_for(self) -> str:
        """What the first in the queue waits for."""
        return LOAD if self.serves_at is None else self.obstacle

    @property
    def oldest(self) -> float | None:
        """Arrival of the request that has waited longest; it need not be the first."""
        return min((ticket.since for _, ticket in self.queue), default=None)

    def over(self, lease: Lease, outcome: str) -> None:
        """Count a request of this opening that is over. One whose holder left, or that was cut, is no fault."""
        self.served += 1
        self.answered += not (lease.failed or lease.cut.is_set())
        if outcome == OK:
            self.faults = 0
        elif outcome == FAILED and lease.fault:
            self.faults, self.fault = self.faults + 1, lease.fault

    def add(self, ticket: Ticket) -> bool:
        """Put a request into the queue; return whether it is the first."""
        insort(self.queue, (ticket.key, ticket))
        return self.queue[0][1] is ticket

    def position(self, ticket: Ticket) -> int:
        """Return how many are before a request that waits."""
        return bisect_left(self.queue, ticket.key, key=_key)

    def first(self) -> Ticket:
        """Return the first in the queue, which is not empty."""
        return self.queue[0][1]

    def pop(self) -> Ticket:
        """Take the first out of the queue, which is not empty."""
        return self.queue.pop(0)[1]

    def remove(self, ticket: Ticket) -> bool:
        """Take a request that waits out of the queue; return whether it was the first."""
        position = self.position(ticket)
        del self.queue[position]
        return position == 0


def _key(row: tuple[tuple[float, int], Ticket]) -> tuple[float, int]:
    return row[0]
