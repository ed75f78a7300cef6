"""The book of leases as a simulation uses it: the same queues, places and gates, without anybody waiting for real."""

from collections.abc import Callable

from reconciler.leases import Lease, LeaseBook, Ticket
from reconciler.leases.page import Page
from reconciler.leases.types import full


class Told:
    """Stands in for the event a client waits for: calls back when its request is granted or refused."""

    __slots__ = ("_tell",)

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell

    def set(self) -> None:
        """Tell it."""
        self._tell()

    def is_set(self) -> bool:
        """Nobody asks in a simulation."""
        raise NotImplementedError

    async def wait(self) -> None:
        """Nobody waits in a simulation."""
        raise NotImplementedError


class Doors(LeaseBook):
    """A lease book whose clients are events of a simulation."""

    def page(self, model: str) -> Page:
        """Return the page of a model."""
        return self._scheduler.page(model)

    def enter(self, page: Page, urgency: int, client: str) -> Lease | None:
        """Return a lease if the model serves this request at once."""
        return self._scheduler.at_once(page, urgency, client)

    def is_full(self, page: Page, client: str) -> bool:
        """Return whether the queue is as long as it may be; who comes now is refused then, which is noted."""
        if page.limits is None or len(page.queue) < page.limits.max:
            return False
        self._scheduler.refused(page, client, full(page.name, page.limits))
        return True

    def line_up(self, page: Page, urgency: int, client: str) -> Ticket:
        """Put a request into the queue; it may have been served by the time this returns."""
        return self._scheduler.line_up(page, urgency, client)

    def withdraw(self, page: Page, ticket: Ticket, outcome: str) -> None:
        """Take a request out of the queue that waits no more."""
        self._scheduler.withdraw(page, ticket, outcome)

    def leave(self, page: Page, lease: Lease) -> None:
        """End a lease."""
        self._scheduler.end(page, lease)
