"""The lease book: who is served by which model right now, who waits, and which models take no new request.

It lives on one event loop: no lock, no I/O, and every change is made without an `await`, so that "check and
seal" or "grant everybody" can never be interleaved with anything. A request is in exactly one place: waiting
or active. Whenever a model is open and not sealed nobody waits for it.
"""

import itertools
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import anyio

from reconciler.core.types import Demand

#: Seconds after which a client that met a full or slow queue may try again.
RETRY_AFTER_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """Bound of one model's queue: requests waiting at most, and seconds each waits at most."""

    max: int = 64
    timeout: float = 120.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a ready model is reached."""

    model: str
    #: `http://127.0.0.1:18100`
    base_url: str
    #: Name to put into the `model` field of requests; None = leave the client's.
    upstream_model: str | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a waiting request is answered with an error now; the gateway makes it an OpenAI-shaped reply."""

    status: int
    code: str
    message: str
    #: Seconds after which trying again makes sense; None = trying again will not help.
    retry_after: float | None = None


class LeaseRefused(Exception):
    """No lease was granted; `refusal` says why."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class Cut:
    """Told once, when a lease ends before its holder is done: the holder must stop at once."""

    def __init__(self) -> None:
        self._event = anyio.Event()
        self._hooks: list[Callable[[], None]] = []

    def is_set(self) -> bool:
        """Return whether the lease was cut."""
        return self._event.is_set()

    async def wait(self) -> None:
        """Return when the lease is cut."""
        await self._event.wait()

    def on_set(self, hook: Callable[[], None]) -> None:
        """Call `hook` when the lease is cut; now, if it already is."""
        if self.is_set():
            hook()
        else:
            self._hooks.append(hook)

    def set(self) -> None:
        """Cut: set the event and run every hook, once."""
        hooks, self._hooks = self._hooks, []
        self._event.set()
        for hook in hooks:
            hook()


@dataclass(eq=False, slots=True)
class Lease:
    """One request being served. Ends with the block of `LeaseBook.lease`."""

    id: str
    model: str
    endpoint: Endpoint
    #: When it was granted, and seconds it had waited for that (0 = granted at once).
    since: float
    waited: float = 0.0
    cut: Cut = field(default_factory=Cut)
    #: Which opening of the model it belongs to.
    run: int = 0


@dataclass(eq=False, slots=True)
class _Waiter:
    """One request in the queue; settled by exactly one of `lease` and `refusal`."""

    since: float
    settled: anyio.Event = field(default_factory=anyio.Event)
    lease: Lease | None = None
    refusal: Refusal | None = None


@dataclass(eq=False, slots=True)
class _Model:
    """The book's page of one model."""

    name: str
    limits: QueueLimits | None = None
    endpoint: Endpoint | None = None
    run: int = 0
    sealed: bool = False
    active: dict[str, Lease] = field(default_factory=dict)
    waiting: deque[_Waiter] = field(default_factory=deque)
    #: Set whenever the last active lease ends; replaced by who waits for that.
    idle: anyio.Event | None = None
    last_used: float | None = None
    served: int = 0
    wanted: bool = False
    dismissed: bool = False

    @property
    def serves_at(self) -> Endpoint | None:
        """Where new leases are granted; None = they are not."""
        return None if self.sealed else self.endpoint


class LeaseBook:
    """Leases and queues of all models. `wake` tells the loop to look; it carries no content."""

    def __init__(self, wake: Callable[[], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._wake = wake
        self._clock = clock
        self._pages: dict[str, _Model] = {}
        self._ids = itertools.count(1)
        self._tell_idle: frozenset[str] = frozenset()
        self._shut: Refusal | None = None

    # --- the client's side ---

    @asynccontextmanager
    async def lease(self, model: str) -> AsyncIterator[Lease]:
        """Hold a lease for the block, waiting in the model's queue until one is granted.

        Raises `LeaseRefused`: unknown model (404), full queue (429), waited too long (503), as the loop says.
        """
        if self._shut is not None:
            raise LeaseRefused(self._shut)
        page = self._pages.get(model)
        if page is None or page.limits is None:
            raise LeaseRefused(_unknown(model))
        endpoint = page.serves_at
        lease = self._grant(page, endpoint) if endpoint else await self._wait(page, page.limits)
        try:
            yield lease
        finally:
            self._end(page, lease)

    def shut(self, refusal: Refusal) -> None:
        """Grant nothing more to anybody: who waits, and whoever comes, is answered with `refusal`."""
        self._shut = refusal
        for model in sorted(self._pages):
            self.refuse(model, refusal)

    def suspect(self) -> None:
        """Ask the loop to look at the world now: a model that should answer did not."""
        self._wake()

    async def _wait(self, page: _Model, limits: QueueLimits) -> Lease:
        if len(page.waiting) >= limits.max:
            raise LeaseRefused(_full(page.name, limits))
        waiter = _Waiter(self._clock())
        page.waiting.append(waiter)
        page.dismissed = False
        self._wake()
        try:
            with anyio.move_on_after(limits.timeout):
                await waiter.settled.wait()
        except BaseException:  # the client left: give back whatever it has by now
            if waiter.lease is not None:
                self._end(page, waiter.lease)
            self._withdraw(page, waiter)
            raise
        if waiter.lease is not None:  # also when it was granted in the very moment the time ran out
            return waiter.lease
        self._withdraw(page, waiter)
        raise LeaseRefused(waiter.refusal or _late(page.name, limits))

    def _withdraw(self, page: _Model, waiter: _Waiter) -> None:
        if waiter in page.waiting:
            page.waiting.remove(waiter)
            self._wake()  # maybe nobody wants the model now

    def _grant(self, page: _Model, endpoint: Endpoint, since: float | None = None) -> Lease:
        now = self._clock()
        waited = 0.0 if since is None else max(0.0, now - since)
        lease = Lease(str(next(self._ids)), page.name, endpoint, now, waited, run=page.run)
        page.active[lease.id] = lease
        return lease

    def _grant_waiting(self, page: _Model) -> None:
        while (endpoint := page.serves_at) and page.waiting:
            waiter = page.waiting.popleft()
            waiter.lease = self._grant(page, endpoint, waiter.since)
            waiter.settled.set()

    def _end(self, page: _Model, lease: Lease) -> None:
        if page.active.pop(lease.id, None) is None:
            return
        if lease.run == page.run:
            page.last_used = self._clock()
            page.served += 1
        if page.active:
            return
        if page.idle is not None:
            page.idle.set()
            page.idle = None
        if page.name in self._tell_idle or page.sealed or page.dismissed or self._anybody_waits():
            self._wake()

    def _anybody_waits(self) -> bool:
        return any(page.waiting or page.wanted for page in self._pages.values())

    # --- the loop's side ---

    def configure(
        self, limits: Mapping[str, QueueLimits], *, tell_idle: frozenset[str] = frozenset()
    ) -> None:
        """Set the known models and their queue limits; the waiters of a model that disappears are refused.

        The end of the last lease of a model in `tell_idle` always wakes the loop (transient models); of the
        others only when somebody waits for something.
        """
        self._tell_idle = tell_idle
        for name, page in sorted(self._pages.items()):
            if name not in limits:
                page.limits = None
                page.wanted = page.dismissed = False
                self.refuse(name, _unknown(name))
                if not page.active and page.endpoint is None:
                    del self._pages[name]
        for name in sorted(limits):
            self._page(name).limits = limits[name]

    def open(self, endpoint: Endpoint, now: float) -> None:
        """The model is ready at `endpoint`: clear seal and wish, grant all waiters in order of arrival."""
        page = self._page(endpoint.model)
        if page.endpoint != endpoint:
            self.cut(endpoint.model)
            page.endpoint, page.run = endpoint, page.run + 1
            page.last_used, page.served = now, 0
        page.sealed = page.wanted = False
        self._grant_waiting(page)

    def close(self, model: str) -> None:
        """The process is gone or going: nothing is granted until `open`, leases still active are cut."""
        page = self._page(model)
        page.endpoint, page.sealed = None, False
        self.cut(model)

    def seal(self, model: str, *, drain: bool) -> bool:
        """Take no new lease from now on; requests queue. Without `drain` refuse (False) if one is active."""
        page = self._page(model)
        if page.active and not drain:
            return False
        page.sealed = True
        return True

    def unseal(self, model: str) -> None:
        """Grant again, first to those who queued meanwhile."""
        page = self._page(model)
        page.sealed = False
        page.wanted = page.wanted and page.endpoint is None
        self._grant_waiting(page)

    def cut(self, model: str) -> None:
        """End the active leases of a model now; `drained` tells when their holders are gone."""
        for lease in list(self._page(model).active.values()):
            lease.cut.set()

    async def drained(self, model: str) -> None:
        """Return when the model has no active lease. Unbounded: the caller brings the deadline."""
        page = self._page(model)
        while page.active:
            if page.idle is None:
                page.idle = anyio.Event()
            await page.idle.wait()

    def refuse(self, model: str, refusal: Refusal) -> None:
        """Answer everybody who waits for the model right now with `refusal`."""
        page = self._page(model)
        while page.waiting:
            waiter = page.waiting.popleft()
            waiter.refusal = refusal
            waiter.settled.set()

    def want(self, model: str) -> None:
        """A person asks for the model; stands until it is ready."""
        page = self._page(model)
        page.wanted, page.dismissed = page.serves_at is None, False
        self._wake()

    def wish_over(self, model: str) -> None:
        """What a person asked for was tried, and failed: it is not tried again for their sake."""
        self._page(model).wanted = False

    def dismiss(self, model: str) -> None:
        """A person asks for the model to go; stands until somebody asks for it again."""
        page = self._page(model)
        page.wanted, page.dismissed = False, True
        self._wake()

    def demands(self) -> tuple[Demand, ...]:
        """Return what is wanted of each model of which there is something to say, sorted by name."""
        return tuple(
            Demand(
                model=name,
                active=len(page.active),
                waiting=len(page.waiting),
                oldest=page.waiting[0].since if page.waiting else None,
                wanted=page.wanted,
                dismissed=page.dismissed,
            )
            for name, page in sorted(self._pages.items())
            if page.active or page.waiting or page.wanted or page.dismissed
        )

    def active(self, model: str) -> int:
        """Return how many requests the model is serving."""
        page = self._pages.get(model)
        return len(page.active) if page else 0

    def last_used(self, model: str) -> float | None:
        """Return when its last lease ended (when it was opened, before the first); None = never open."""
        page = self._pages.get(model)
        return page.last_used if page else None

    def served(self, model: str) -> int:
        """Return the number of leases ended since the model was opened."""
        page = self._pages.get(model)
        return page.served if page else 0

    def _page(self, model: str) -> _Model:
        return self._pages.setdefault(model, _Model(model))


def _unknown(model: str) -> Refusal:
    return Refusal(404, "model_not_found", f"model {model!r} is not in the manifest")


def _full(model: str, limits: QueueLimits) -> Refusal:
    text = f"{limits.max} requests already wait for model {model!r}"
    return Refusal(429, "queue_full", text, RETRY_AFTER_SECONDS)


def _late(model: str, limits: QueueLimits) -> Refusal:
    text = f"model {model!r} was not ready within {limits.timeout:g} s"
    return Refusal(503, "queue_timeout", text, RETRY_AFTER_SECONDS)
