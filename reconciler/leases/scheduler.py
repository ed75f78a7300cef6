"""Who is served next. The one place where leases are granted and ended.

After every change nobody waits who could be served: `dispatch` sees to it, and so a newcomer can only be in the way
of, or behind, those who wait already.
"""

import itertools
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final

from reconciler.leases.gates import Claims
from reconciler.leases.lease import Lease
from reconciler.leases.page import AGEING_SECONDS, Page, Ticket, rank
from reconciler.leases.pages import Pages
from reconciler.leases.record import CUT, FAILED, LEFT, OK, REFUSED, Record
from reconciler.leases.types import Endpoint, Refusal

#: A model that enters a gate takes along those of its requests whose rank is at most so many seconds behind the
#: first one's: taken one by one, in turns with another model, an engine could compute nothing side by side.
COMPANY_SECONDS: Final = AGEING_SECONDS


class Scheduler(Pages):
    """Grants and ends leases. `wake` tells the loop to look; it carries no content."""

    def __init__(self, wake: Callable[[], None], clock: Callable[[], float]) -> None:
        super().__init__()
        self.wake = wake
        self.clock = clock
        #: Pages with somebody in the queue.
        self.queued: dict[str, Page] = {}
        #: Models a person asks for, with the time, and how many holds wait for a model to be loaded.
        self.wished: dict[str, float] = {}
        self.pending_holds = 0
        self.tell_idle: frozenset[str] = frozenset()
        self.granted = 0
        self.ended = 0
        self.shut: Refusal | None = None
        self.record = Record()
        self._ids = itertools.count(1)

    # --- granting ---

    def at_once(self, page: Page, priority: int, owner: str = "") -> Lease | None:
        """Grant a lease to somebody who comes now; None = it has to wait."""
        endpoint = page.serves_at
        if endpoint is None or not self._open_to(page, priority):
            return None
        lease = self._lease(page, endpoint, priority, owner)
        self.record.arrived((page.name, lease.since))
        self._activate(page, lease)
        return lease

    def _open_to(self, page: Page, priority: int) -> bool:
        """Whether somebody who comes now to a model that takes requests is served before all who wait."""
        if len(page.active) >= page.concurrency:
            return False
        if not self.queued:  # the usual case, on every request's way
            return bool(page.active) or all(len(gate.inside) < gate.limit for gate in page.gates)
        now = self.clock()
        claims, mine = Claims(now), rank(now, priority)
        for (first, _), other in sorted(self._lines() if page.gates else ()):
            if first > mine:
                break
            if other is page:
                return False
            claims.hold_back(other)
        return claims.obstacle(page) is None

    def _lines(self) -> list[tuple[tuple[float, int], Page]]:
        """Return the models that take requests and have some in the queue, with the key of the first of those."""
        return [(page.queue[0][0], page) for page in self.queued.values() if page.serves_at is not None]

    def dispatch(self) -> None:
        """Serve everybody who can be served, in order of rank over all models."""
        lines = self._lines()
        if not lines:
            return
        heapify(lines)
        claims = Claims(self.clock())
        while lines:
            page = heappop(lines)[1]
            obstacle = claims.obstacle(page)
            if obstacle is not None:
                page.obstacle = obstacle
                claims.hold_back(page)
                continue
            self._serve_first(page)
            if page.queue:
                heappush(lines, (page.queue[0][0], page))

    def _serve_first(self, page: Page) -> None:
        entering = bool(page.gates) and not page.active
        last = page.queue[0][0][0] + COMPANY_SECONDS
        self._settle(page, page.pop())
        while entering and page.queue and page.queue[0][0][0] <= last:
            if len(page.active) >= page.concurrency:
                break
            self._settle(page, page.pop())
        if not page.queue:
            del self.queued[page.name]

    def _settle(self, page: Page, ticket: Ticket) -> None:
        endpoint = page.endpoint
        assert endpoint is not None, "only a model that takes requests is looked at"
        lease = ticket.lease = self._lease(page, endpoint, ticket.priority, ticket.owner, ticket.since)
        lease.cold = min(lease.waited, page.cold(lease.since) - ticket.cold_before)
        self._activate(page, lease)
        ticket.settled.set()

    def _lease(
        self, page: Page, endpoint: Endpoint, priority: int, owner: str, since: float | None = None
    ) -> Lease:
        now = self.clock()
        waited = 0.0 if since is None else max(0.0, now - since)
        number = str(next(self._ids))
        return Lease(
            number, page.name, endpoint, now, self, waited, run=page.run, priority=priority, owner=owner
        )

    def quiet(self, page: Page, endpoint: Endpoint, priority: int, owner: str = "") -> Lease:
        """Grant a lease that counts for nothing."""
        lease = self._lease(page, endpoint, priority, owner)
        page.quiet[lease.id] = lease
        return lease

    def _activate(self, page: Page, lease: Lease) -> None:
        if not page.active:
            for gate in page.gates:
                gate.inside.add(page.name)
        page.active[lease.id] = lease
        self.granted += 1

    # --- ending ---

    def end(self, page: Page, lease: Lease, *, left: bool = False) -> None:
        """A lease is over; nothing happens if it was before. `left`: its holder went before it was done."""
        if page.active.pop(lease.id, None) is None:
            page.quiet.pop(lease.id, None)
            return
        self.ended += 1
        now = self.clock()
        outcome = CUT if lease.cut.is_set() else LEFT if left else FAILED if lease.failed else OK
        waited = lease.waited
        self.record.ended(
            (page.name, lease.owner, lease.since - waited, waited, lease.cold, now, outcome, lease.tokens)
        )
        if lease.run == page.run:
            page.last_used = now
            page.over(lease, outcome)
        if not page.active:
            for gate in page.gates:
                gate.inside.discard(page.name)
        if self.queued and (page.queue or not page.active):
            self.dispatch()
        if not page.active:
            self.rest(page)

    def rest(self, page: Page) -> None:
        """Tell those whom it concerns that a model has nothing to do any more, if that is so."""
        if page.busy:
            return
        if page.idle is not None:
            page.idle.set()
            page.idle = None
        if page.name in self.tell_idle or page.sealed or page.dismissed or self._loop_is_asked():
            self.wake()

    def _loop_is_asked(self) -> bool:
        if self.wished or self.pending_holds:
            return True
        return any(page.serves_at is None for page in self.queued.values())

    def hush(self, lease: Lease) -> None:
        """Turn a lease into a quiet one."""
        page = self.pages.get(lease.model)
        if page is not None and lease.id in page.active:
            page.quiet[lease.id] = lease
            self.end(page, lease)

    def speak(self, lease: Lease) -> bool:
        """Turn a quiet lease into a normal one, if there is a place; return whether it is one now."""
        page = self.pages.get(lease.model)
        if page is None or lease.cut.is_set():
            return False
        if lease.id in page.active:
            return True
        if lease.id not in page.quiet or page.serves_at is None or not self._open_to(page, lease.priority):
            return False
        del page.quiet[lease.id]
        lease.since, lease.waited, lease.cold = self.clock(), 0.0, 0.0
        self.record.arrived((page.name, lease.since))
        self._activate(page, lease)
        return True

    # --- the queue ---

    def line_up(self, page: Page, priority: int, owner: str) -> Ticket:
        """Put a request into the queue of a model; it cannot be served now."""
        ticket = Ticket(page, self.clock(), next(self._ids), priority, owner)
        self.record.arrived((page.name, ticket.since))
        first = page.add(ticket)
        self.queued[page.name] = page
        if page.serves_at is None:
            page.dismissed = False
            self.wake()
        elif first:
            self.dispatch()  # it serves nobody; what the others wait for may be this one now
        return ticket

    def withdraw(self, page: Page, ticket: Ticket, outcome: str = LEFT) -> None:
        """Take a request out of the queue, if it is still there; `outcome` is why."""
        if ticket.lease is not None or ticket.refusal is not None:
            return
        self._ended_waiting(page, ticket, outcome)
        was_first = page.remove(ticket)
        if not page.queue:
            del self.queued[page.name]
        if page.serves_at is None:
            self.wake()  # maybe nobody wants the model now
        elif was_first:
            self.dispatch()  # what it claimed is free

    def turn_away(self, page: Page, refusal: Refusal) -> None:
        """Answer everybody in the queue of a model with `refusal`."""
        if self.queued.pop(page.name, None) is None:
            return
        rows, page.queue = page.queue, []
        for _, ticket in rows:
            self._ended_waiting(page, ticket, REFUSED + refusal.code)
            ticket.refusal = refusal
            ticket.settled.set()
        self.dispatch()

    def refused(self, page: Page, owner: str, refusal: Refusal) -> None:
        """Note a request that was not even let into the queue."""
        now = self.clock()
        self.record.arrived((page.name, now))
        self.record.ended((page.name, owner, now, 0.0, 0.0, now, REFUSED + refusal.code, None))

    def _ended_waiting(self, page: Page, ticket: Ticket, outcome: str) -> None:
        now = self.clock()
        waited = max(0.0, now - ticket.since)
        cold = min(waited, page.cold(now) - ticket.cold_before)
        self.record.ended((page.name, ticket.owner, ticket.since, waited, cold, now, outcome, None))
