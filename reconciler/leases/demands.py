"""What clients, holders and people want of the models, as the loop's decisions see it."""

from reconciler.core.types import Demand
from reconciler.leases.holds import Holds
from reconciler.leases.page import Page
from reconciler.leases.scheduler import Scheduler


def demands(scheduler: Scheduler, holds: Holds) -> tuple[Demand, ...]:
    """Return what is wanted of each model of which there is something to say, sorted by name."""
    return tuple(
        _demand(page, scheduler.wished.get(name), holds)
        for name, page in sorted(scheduler.pages.items())
        if page.busy or page.queue or page.pending or page.away or page.dismissed or name in scheduler.wished
    )


def _demand(page: Page, wished: float | None, holds: Holds) -> Demand:
    serves = page.serves_at is not None
    arrivals = [holds.oldest(page), None if serves else page.oldest]
    return Demand(
        model=page.name,
        active=len(page.active),
        waiting=len(page.pending) + (0 if serves else len(page.queue)),
        oldest=min((at for at in arrivals if at is not None), default=None),
        wanted=wished is not None,
        wished=wished,
        dismissed=page.dismissed,
        gated=len(page.queue) if serves else 0,
        away=tuple(sorted(page.away)),
        held=len(page.held),
        closed=page.closed,
        jobs=page.jobs,
    )
