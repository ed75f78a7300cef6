"""How a request gets its lease: at once, or by waiting in the queue."""

from collections.abc import Callable
from types import TracebackType

from reconciler.awake import move_on_after
from reconciler.leases.lease import Lease
from reconciler.leases.page import Page, Ticket
from reconciler.leases.record import REFUSED
from reconciler.leases.scheduler import Scheduler
from reconciler.leases.types import LeaseRefused, QueueLimits, full, late, not_loaded, unknown


class Entry:
    """The block during which a lease is held. A class of its own: a generator costs more on every request."""

    __slots__ = ("_lease", "_model", "_owner", "_page", "_priority", "_quiet", "_scheduler", "_seen")

    def __init__(
        self,
        scheduler: Scheduler,
        model: str,
        priority: int,
        owner: str,
        quiet: bool,
        seen: Callable[[Ticket], None] | None,
    ) -> None:
        self._scheduler = scheduler
        self._model = model
        self._priority = priority
        self._owner = owner
        self._quiet = quiet
        self._seen = seen

    async def __aenter__(self) -> Lease:
        scheduler = self._scheduler
        if scheduler.shut is not None:
            raise LeaseRefused(scheduler.shut)
        page = scheduler.pages.get(self._model)
        if page is None or page.limits is None:
            raise LeaseRefused(unknown(self._model))
        self._page = page
        if self._quiet:
            lease: Lease | None = self._grant_quiet(page)
        else:
            lease = scheduler.at_once(page, self._priority, self._owner)
        self._lease = lease or await self._wait(page, page.limits)
        return self._lease

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A client that goes, and a time that is over, cancel the work; what fails is an exception of another kind.
        left = kind is not None and not issubclass(kind, Exception)
        self._scheduler.end(self._page, self._lease, left=left)

    def _grant_quiet(self, page: Page) -> Lease:
        endpoint = page.serves_at
        if endpoint is None:
            raise LeaseRefused(not_loaded(page.name))
        return self._scheduler.quiet(page, endpoint, self._priority, self._owner)

    async def _wait(self, page: Page, limits: QueueLimits) -> Lease:
        if len(page.queue) >= limits.max:
            refusal = full(page.name, limits)
            self._scheduler.refused(page, self._owner, refusal)
            raise LeaseRefused(refusal)
        ticket = self._scheduler.line_up(page, self._priority, self._owner)
        try:
            if self._seen is not None:
                self._seen(ticket)
            with move_on_after(limits.timeout):
                await ticket.settled.wait()
        except BaseException:  # the client left: give back whatever it has by now
            if ticket.lease is not None:
                self._scheduler.end(page, ticket.lease, left=True)
            self._scheduler.withdraw(page, ticket)
            raise
        if ticket.lease is not None:  # also when it was granted in the very moment the time ran out
            return ticket.lease
        if ticket.refusal is not None:
            raise LeaseRefused(ticket.refusal)
        refusal = late(page.name, limits, ticket.waits_for)
        self._scheduler.withdraw(page, ticket, REFUSED + refusal.code)
        raise LeaseRefused(refusal)
