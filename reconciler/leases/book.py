"""The lease book: who is served by which model right now, who waits, and which models take no new request.

It lives on one event loop: no lock, no I/O, and every change is made without an `await`, so that "check and
seal" or "grant everybody" can never be interleaved with anything. A request is in exactly one place: waiting
or active. Nobody waits who could be served: whenever a model is open and not sealed, its requests wait for
nothing but its own places and its gates.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Final

import anyio

from reconciler.core.types import Demand
from reconciler.leases.demands import demands
from reconciler.leases.entry import Entry
from reconciler.leases.holds import Hold, Holds
from reconciler.leases.lease import Lease
from reconciler.leases.page import Page, Ticket
from reconciler.leases.record import Arrival, Ended
from reconciler.leases.scheduler import Scheduler
from reconciler.leases.traffic import Traffic, traffic
from reconciler.leases.types import Admission, Endpoint, QueueLimits, Refusal, unknown

NO_GATES: Final[Mapping[str, int]] = MappingProxyType({})
DRAINED: Final = "the model had to go, and the time its leases had to end is over"


class LeaseBook:
    """Leases, queues and gates of all models. `wake` tells the loop to look; it carries no content."""

    def __init__(self, wake: Callable[[], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._wake = wake
        self._clock = clock
        self._scheduler = Scheduler(wake, clock)
        self._holds = Holds(self._scheduler)

    # --- the client's side ---

    def lease(
        self,
        model: str,
        *,
        priority: int = 500,
        owner: str = "",
        quiet: bool = False,
        seen: Callable[[Ticket], None] | None = None,
    ) -> Entry:
        """Hold a lease for the block (`async with`), waiting in the model's queue until one is granted.

        `seen` gets the ticket of a request that has to wait. A quiet lease is granted at once or not at all (409).
        Raises `LeaseRefused`: unknown model (404), full queue (429), waited too long (503), as the loop says.
        """
        return Entry(self._scheduler, model, priority, owner, quiet, seen)

    @contextmanager
    def away(self, model: str, summarizer: str) -> Iterator[None]:
        """Let a request that gave its lease back count as one that returns, while `summarizer` writes for it.

        Its model is not unloaded for having nothing to do; whoever needs the room may still have it.
        """
        page = self._scheduler.page(model)
        page.away.append(summarizer)
        try:
            yield
        finally:
            page.away.remove(summarizer)
            self._scheduler.rest(page)
            self._forget(page)

    def hold(self, model: str, owner: str, seconds: float, now: float) -> Hold:
        """Keep a model for `owner`; it is loaded if need be. Raises `LeaseRefused` (400, 404, 429)."""
        return self._holds.hold(model, owner, seconds, now)

    def renew(self, hold_id: str, seconds: float, now: float) -> Hold:
        """Let a hold last `seconds` from now. Raises `LeaseRefused` (400; 404, with the reason if it has ended)."""
        return self._holds.renew(hold_id, seconds, now)

    def release(self, hold_id: str) -> Hold:
        """End a hold; return what it was. Raises `LeaseRefused` (404)."""
        return self._holds.release(hold_id)

    def holds(self) -> tuple[Hold, ...]:
        """Return all holds in order of their beginning, and for a while those that others ended."""
        self._holds.lapse(self._clock())
        return self._holds.all()

    def traffic(self) -> Traffic:
        """Return what goes on, for people."""
        self._holds.lapse(self._clock())
        return traffic(self._scheduler, self._holds)

    def shut(self, refusal: Refusal) -> None:
        """Grant nothing more to anybody: who waits, and whoever comes, is answered with `refusal`; holds end."""
        self._scheduler.shut = refusal
        self.end_holds(refusal.message)
        for _, page in sorted(self._scheduler.pages.items()):
            self._turn_away(page, refusal)

    def end_holds(self, reason: str) -> tuple[Hold, ...]:
        """End every hold, in force or waiting, for `reason`; return them in order of their beginning."""
        return self._holds.end_all(reason, self._clock())

    def suspect(self) -> None:
        """Ask the loop to look at the world now: a model that should answer did not."""
        self._wake()

    def endpoint(self, model: str) -> Endpoint | None:
        """Return where a model is open, also while it is sealed; None if it is not."""
        page = self._scheduler.pages.get(model)
        return page.endpoint if page is not None else None

    # --- the loop's side ---

    def configure(
        self,
        limits: Mapping[str, QueueLimits],
        *,
        tell_idle: frozenset[str] = frozenset(),
        gates: Mapping[str, int] = NO_GATES,
    ) -> None:
        """Set the known models, their queue limits, and how many models each gate lets in.

        The waiters of a model that disappears are refused. The end of the last lease of a model in `tell_idle`
        always wakes the loop (transient models); of the others only when somebody waits for something it must do.
        Raises `ValueError` for a gate that lets nobody in.
        """
        scheduler = self._scheduler
        scheduler.tell_idle = tell_idle
        for name, page in sorted(scheduler.pages.items()):
            if name not in limits:
                page.limits = None
                page.dismissed = False
                scheduler.wished.pop(name, None)
                self._turn_away(page, unknown(name))
                self._forget(page)
        for name in sorted(limits):
            scheduler.page(name).limits = limits[name]
        if scheduler.limit_gates(gates):
            scheduler.dispatch()

    def assign(self, admissions: Mapping[str, Admission]) -> None:
        """Set what requests of each model need. More grants at once, less cuts nobody; cheap if nothing changed."""
        if self._scheduler.assign(admissions):
            self._scheduler.dispatch()

    def open(self, endpoint: Endpoint, now: float, used: float | None = None) -> None:
        """The model is ready at `endpoint`: clear seal and wish, grant to those who wait, in order of rank.

        `used` is when it was used last, for one that was ready before; None = its idle time begins now.
        """
        page = self._scheduler.page(endpoint.model)
        if page.endpoint != endpoint:
            _cut_leases(page)
            page.endpoint, page.run = endpoint, page.run + 1
            page.last_used, page.served, page.answered = now if used is None else min(used, now), 0, 0
            page.faults, page.fault = 0, ""
        page.sealed = False
        self._serving(page, now)

    def close(self, model: str) -> None:
        """The process is gone or going: nothing is granted until `open`, leases still active are cut."""
        page = self._scheduler.page(model)
        if page.endpoint is not None:
            page.closed = self._clock()
        page.endpoint, page.sealed, page.jobs = None, False, 0
        self._holds.closed(page, self._clock())
        _cut_leases(page)
        self._not_serving(page)

    def seal(self, model: str, *, drain: bool) -> bool:
        """Take no new lease from now on; requests queue. Without `drain` refuse (False) if it is in use."""
        page = self._scheduler.page(model)
        if page.busy and not drain:
            return False
        page.sealed = True
        self._not_serving(page)
        return True

    def unseal(self, model: str) -> None:
        """Grant again, first to those who queued meanwhile."""
        page = self._scheduler.page(model)
        page.sealed = False
        if page.endpoint is not None:
            self._serving(page, self._clock())

    def cut(self, model: str) -> None:
        """End all leases and holds of a model now; `drained` tells when the holders of leases are gone.

        Jobs count no more: they end with the process.
        """
        page = self._scheduler.page(model)
        self._holds.end(page.held, DRAINED, self._clock())
        self.jobs(model, 0)
        _cut_leases(page)

    async def drained(self, model: str) -> None:
        """Return when the model has no active lease, hold or job. Unbounded: the caller brings the deadline."""
        page = self._scheduler.page(model)
        while page.busy:
            if page.idle is None:
                page.idle = anyio.Event()
            await page.idle.wait()

    def jobs(self, model: str, count: int) -> None:
        """Note how many jobs the engine of an open model works on: they keep it in memory as leases do."""
        page = self._scheduler.pages.get(model)
        if page is None or page.endpoint is None or not (count or page.jobs):
            return
        page.jobs, page.last_used = count, self._clock()
        self._scheduler.rest(page)

    def refuse(self, model: str, refusal: Refusal) -> None:
        """Answer everybody who waits for the model to be loaded right now with `refusal`."""
        page = self._scheduler.page(model)
        if page.serves_at is None:
            self._turn_away(page, refusal)

    def want(self, model: str) -> None:
        """A person asks for the model; stands until it is ready. Who asks again asks now."""
        page = self._scheduler.page(model)
        page.dismissed = False
        if page.serves_at is None:
            self._scheduler.wished[model] = self._clock()
        self._wake()

    def wish_over(self, model: str) -> None:
        """What a person asked for was tried, and failed: it is not tried again for their sake."""
        self._scheduler.wished.pop(model, None)

    def dismiss(self, model: str) -> None:
        """A person asks for the model to go; stands until somebody asks for it again."""
        self._scheduler.page(model).dismissed = True
        self._scheduler.wished.pop(model, None)
        self._wake()

    def expire(self, now: float) -> tuple[Hold, ...]:
        """End the holds whose time is over; return those that ended so since the last call. For the loop's turns."""
        return self._holds.expire(now)

    def next_expiry(self) -> float | None:
        """Return when the next hold's time is over; None = there is no hold."""
        return self._holds.next_expiry()

    def demands(self) -> tuple[Demand, ...]:
        """Return what is wanted of each model of which there is something to say, sorted by name."""
        self._holds.lapse(self._clock())
        return demands(self._scheduler, self._holds)

    def taken(self) -> tuple[list[Arrival], list[Ended]]:
        """Return what came and what ended since the last call, refused requests in both; the oldest may be lost."""
        return self._scheduler.record.taken()

    def works_on(self, model: str) -> int:
        """Return how many jobs the model's engine works on, as it was noted last."""
        page = self._scheduler.pages.get(model)
        return page.jobs if page else 0

    def active(self, model: str) -> int:
        """Return how many requests the model is serving."""
        page = self._scheduler.pages.get(model)
        return len(page.active) if page else 0

    def leases(self, model: str) -> tuple[Lease, ...]:
        """Return the leases of the requests that the model is serving, in order of their beginning."""
        page = self._scheduler.pages.get(model)
        return tuple(page.active.values()) if page else ()

    def faults(self, model: str) -> tuple[int, str]:
        """Return how many requests in a row the model's server failed since it was opened, and how the last one."""
        page = self._scheduler.pages.get(model)
        return (page.faults, page.fault) if page else (0, "")

    def last_used(self, model: str) -> float | None:
        """Return when its last lease or hold ended (when it was opened, before the first); None = never open."""
        page = self._scheduler.pages.get(model)
        return page.last_used if page else None

    def served(self, model: str) -> int:
        """Return the number of leases and holds ended since the model was opened."""
        page = self._scheduler.pages.get(model)
        return page.served if page else 0

    def answered(self, model: str) -> int:
        """Return the number of requests that were answered since the model was opened, cut and failed ones left out."""
        page = self._scheduler.pages.get(model)
        return page.answered if page else 0

    def _forget(self, page: Page) -> None:
        """Drop the page of a model that left the manifest, once nothing is written on it."""
        if page.limits is None and not (page.busy or page.away) and page.endpoint is None:
            self._scheduler.pages.pop(page.name, None)

    def _serving(self, page: Page, now: float) -> None:
        page.turned(self._clock())
        self._scheduler.wished.pop(page.name, None)
        self._holds.opened(page, now)
        self._scheduler.dispatch()

    def _not_serving(self, page: Page) -> None:
        """Who waited for a gate waits for the model now, and is in nobody's way any more."""
        page.turned(self._clock())
        if page.queue:
            page.dismissed = False
            self._scheduler.dispatch()

    def _turn_away(self, page: Page, refusal: Refusal) -> None:
        self._scheduler.turn_away(page, refusal)
        self._holds.end(page.pending, refusal.message, self._clock())


def _cut_leases(page: Page) -> None:
    for lease in [*page.active.values(), *page.quiet.values()]:
        lease.cut.set()
