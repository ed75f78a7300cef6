"""Evicting: no new request is let in, those there are end or are cut, and the process is stopped."""

from collections.abc import Awaitable, Callable
from math import inf
from typing import Final

import anyio
import httpx
import structlog

from reconciler.board import Progress
from reconciler.core.leaving import DISPLACING, RESTING
from reconciler.core.machine import Aborted, Exited
from reconciler.core.types import Evict, ModelSpec, Reason
from reconciler.leases import Hold
from reconciler.loop.hands import SHORT_GRACE, Hands, Outcome
from reconciler.loop.jobs import Jobs
from reconciler.loop.launches import Launch
from reconciler.loop.sleeping import Sleeping
from reconciler.loop.standstill import Deadline

#: What holders of cut leases get to leave.
CUT_SECONDS: Final = 2.0
#: Seconds between two looks whether the last request of a process that hangs is over.
ENDED_PACE: Final = 0.1
#: Owners of ended leases that are named in the log.
NAMED: Final = 5
#: Reasons for which a process is stopped so that a new one of its model may take its place.
REPLACING: Final = frozenset({Reason.DRIFTED, Reason.RESTART_DUE})

log = structlog.get_logger("reconciler.loop")


class Drain:
    """One drain in progress, made on its event loop. `limit` is how many seconds it may take, standstills left out."""

    def __init__(self, launch: Launch, limit: float) -> None:
        self.launch = launch
        self.limit = limit
        self.began = anyio.current_time()
        self.scope = anyio.CancelScope()
        self._deadline = Deadline(self.scope, self.began + limit, self._stood)
        #: Why it was called off; "" = it was not.
        self.called_off = ""

    def set_limit(self, limit: float) -> None:
        """Let it take so many seconds from its beginning."""
        self.limit, self._deadline.at = limit, self.began + limit

    def close(self) -> None:
        """Be over: nobody is served any more, or nobody waits for that."""
        self._deadline.close()

    def _stood(self, seconds: float) -> None:
        self.began += seconds


class Evictor:
    """Ends models, one at a time (the state machine sees to that)."""

    def __init__(
        self,
        hands: Hands,
        close_upstream: Callable[[str], Awaitable[None]],
        jobs: Jobs,
        http: httpx.AsyncClient,
    ) -> None:
        self._hands = hands
        self._close_upstream = close_upstream
        self._jobs = jobs
        self._sleeping = Sleeping(hands, http)
        #: Nothing is asked to sleep any more: all of it is to be stopped.
        self._last = False
        #: The drain in progress, which may still be called off; None = there is none.
        self.drain: Drain | None = None

    def seal(self, action: Evict) -> bool:
        """Let no new request in to the model that an evict is about, or return False if it is in use after all.

        Done in the same breath as the plan is made, nothing can come between: a model that was idle when it was
        planned is idle when it is sealed.
        """
        launch = self._hands.launches.find(action.pid, action.started)
        if launch is None or self._hands.launches.serving(launch.model) is not launch:
            return True
        return not self._used_since(action) and self._hands.book.seal(launch.model, drain=action.drain)

    def limit(self, seconds: float) -> None:
        """Let the drain in progress take so many seconds in all."""
        if self.drain is not None and self.drain.limit != seconds:
            self.drain.set_limit(seconds)
            self._tell(self.drain)

    def hurry_sleep(self) -> None:
        """Give a server that is being asked to sleep a short time in all: somebody waits."""
        self._sleeping.hurry()

    def sleep_no_more(self) -> None:
        """Stop from now on what would have been asked to sleep, and what is being asked."""
        self._last = True
        self._sleeping.give_up()

    def call_off(self, why: str) -> None:
        """Give up the drain in progress, and let requests in again, first those that wait at the door."""
        if self.drain is not None:
            self.drain.called_off = why
            self.drain.scope.cancel()
            self._hands.book.unseal(self.drain.launch.model)
            self.drain = None

    async def evict(self, action: Evict, limits: Callable[[], ModelSpec]) -> Outcome:
        """Drain and stop one process; requests that come meanwhile wait in the model's queue.

        `limits` are the settings of the model whenever they are asked for.
        """
        began = self._hands.clock()
        launch = self._hands.launches.find(action.pid, action.started)
        if launch is None:
            return Outcome(Exited(None), 0.0)
        writes: float | None = None
        try:
            if self._hands.launches.serving(launch.model) is launch:
                if not self._hands.book.seal(launch.model, drain=action.drain):
                    return Outcome(Aborted(), 0.0, launch=launch)
                if not action.drain and not launch.hung and await self._jobs.ask(launch):
                    self._hands.book.unseal(launch.model)
                    return Outcome(Aborted(), self._hands.clock() - began, "it still works on a job", launch)
                if launch.hung:
                    await self._let_end(launch, limits().drain_timeout)
                elif why := (
                    await self._drain(launch, limits().drain_timeout) or await self._in_vain(action, launch)
                ):
                    return Outcome(Aborted(), self._hands.clock() - began, why, launch)
                writes = await self._out_of_service(action, launch)
            launch.stopping = True
            self._hands.tell(Progress(launch.model, "stopping", self._hands.clock()))
            if action.sleep and writes is None and not (self._last or self._hands.hurry.is_set()):
                slept = await self._sleep(launch)
                if slept is not None:
                    return Outcome(slept, self._hands.clock() - began, launch=launch)
            grace = SHORT_GRACE if self._hands.hurry.is_set() else limits().stop_grace
            event = await self._hands.end(
                launch, grace if writes is None else min(grace, writes), failed=False
            )
            if isinstance(event, Exited):
                await self._hands.states.stopped(launch)
            error = "" if isinstance(event, Exited) else "it could not be stopped"
            return Outcome(event, self._hands.clock() - began, error, launch)
        finally:
            self._hands.tell(None)

    async def _out_of_service(self, action: Evict, launch: Launch) -> float | None:
        """Send nothing to it any more, and have its state saved; return as `_save` does."""
        launch.stopping = True
        launch.served_before += self._hands.book.served(launch.model)
        launch.served = 0
        self._hands.book.close(launch.model)
        self._hands.launches.unserve(launch)
        self._hands.launches.unloaded(
            launch.model, rests=action.reason in RESTING, displaced=action.reason in DISPLACING
        )
        await self._close_upstream(launch.model)
        return await self._save(launch)

    async def _save(self, launch: Launch) -> float | None:
        """Have its state saved, unless the user is in a hurry, or comes to be; return how soon it has to end then.

        One that hangs would not answer.
        """
        if self._hands.hurry.is_set() or launch.hung:
            return None
        writes: float | None = None
        if (limit := self._hands.states.patience(launch.model)) is not None:
            self._hands.tell(Progress(launch.model, "saving", self._hands.clock(), limit))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._hasten, tasks.cancel_scope)
            writes = await self._hands.states.save(launch)
            tasks.cancel_scope.cancel()
        return writes

    async def _sleep(self, launch: Launch) -> Exited | None:
        """Have it give its memory back; None = it is to be stopped, because it did not, or the user is in a hurry."""
        slept: Exited | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._hasten, tasks.cancel_scope)
            slept = await self._sleeping.sleep(launch)
            tasks.cancel_scope.cancel()
        return slept

    async def _in_vain(self, action: Evict, launch: Launch) -> str:
        """Return why what it is stopped for cannot be started any more, and let requests in again; or "".

        A drain may have taken long.
        """
        coming = action.for_model or (action.model if action.reason in REPLACING else None)
        if coming is None or self._last:
            return ""
        why = await self._hands.observer.hindrance(coming, self._hands.clock())
        if why:
            self._hands.book.unseal(launch.model)
        return f"{coming} cannot be started any more: {why}" if why else ""

    def _used_since(self, action: Evict) -> bool:
        """Whether a model that is to go for being idle was used between the look and now: its time begins anew."""
        last = self._hands.book.last_used(action.model)
        return action.reason is Reason.IDLE_EXPIRED and last is not None and last > action.last_used

    async def _let_end(self, launch: Launch, timeout: float) -> None:
        """Wait for requests that a process that hangs still sends something to; the others are told by `Liveness`.

        Nobody else is waited for, and nothing is called off: leases from outside wait for the next process.
        """
        if (requests := self._hands.book.active(launch.model)) and not self._hands.hurry.is_set():
            log.info(
                "it is stopped once its requests have ended or are told",
                model=launch.model,
                requests=requests,
            )
            self._hands.tell(Progress(launch.model, "draining", self._hands.clock(), timeout))
            with anyio.move_on_after(timeout):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._hasten, tasks.cancel_scope)
                    while self._hands.book.active(launch.model):  # noqa: ASYNC110 - holds would keep `drained` waiting
                        await anyio.sleep(ENDED_PACE)
                    tasks.cancel_scope.cancel()

    async def _drain(self, launch: Launch, timeout: float) -> str:
        """Wait until nobody is served any more, or the deadline passes: then what is left is cut.

        Return why it was called off before, or "".
        """
        requests, holds = self._hands.book.active(launch.model), self._held(launch.model)
        jobs = self._hands.book.works_on(launch.model)
        if (requests or holds or jobs) and not self._hands.hurry.is_set():
            held = {"leases": len(holds)} if holds else {}
            held |= {"jobs": jobs} if jobs else {}
            log.info(
                "requests in flight get to end",
                model=launch.model,
                requests=requests,
                **held,
                within=_seconds(timeout),
            )
        drain = self.drain = Drain(launch, 0 if self._hands.hurry.is_set() else timeout)
        self._tell(drain)
        try:
            with drain.scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._hasten, tasks.cancel_scope)
                    await self._jobs.ask(launch)
                    tasks.start_soon(self._jobs.attend, launch)
                    await self._hands.book.drained(launch.model)
                    tasks.cancel_scope.cancel()
        finally:
            drain.close()
            self.drain = None  # from here on nothing is called off
        if drain.called_off:
            return drain.called_off
        await self._cut(drain)
        return ""

    async def _cut(self, drain: Drain) -> None:
        """Cut what a drain has left, and say so."""
        model = drain.launch.model
        if drain.scope.cancelled_caught:
            jobs = self._hands.book.works_on(model)
            log.warning(
                "requests are cut: timeouts.drain has passed",
                model=model,
                within=_seconds(drain.limit),
                **({"jobs": jobs} if jobs else {}),
            )
        if ended := self._held(model):
            owners = sorted({hold.owner for hold in ended})
            more = {"more": len(owners) - NAMED} if len(owners) > NAMED else {}
            log.warning("leases are ended", model=model, leases=len(ended), owners=owners[:NAMED], **more)
        self._hands.book.cut(model)
        with anyio.move_on_after(CUT_SECONDS):
            await self._hands.book.drained(model)

    def _tell(self, drain: Drain) -> None:
        limit = drain.limit if drain.limit < inf else None
        since = self._hands.clock() - (anyio.current_time() - drain.began)
        self._hands.tell(Progress(drain.launch.model, "draining", since, limit))

    def _held(self, model: str) -> list[Hold]:
        """Return the leases from outside that keep a model now."""
        return [
            h for h in self._hands.book.holds() if h.model == model and h.granted is not None and not h.ended
        ]

    async def _hasten(self, scope: anyio.CancelScope) -> None:
        await self._hands.hurry.wait()
        scope.cancel()


def _seconds(timeout: float) -> str:
    return "as long as it takes" if timeout == inf else f"{timeout:g} s"
