"""The end of the loop: its models are stopped, or left running for the next one."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Final

import anyio
import structlog

from reconciler.board import STOP_SECONDS
from reconciler.core.types import Evict, ModelSpec, Reason
from reconciler.leases import LeaseBook, Refusal
from reconciler.loop.evicting import Evictor
from reconciler.loop.giving_up import STOPPING
from reconciler.loop.hands import SHORT_GRACE, Hands
from reconciler.loop.history import History
from reconciler.loop.journal import Journal
from reconciler.loop.launches import Launch
from reconciler.loop.outcomes import Outcomes

#: What requests in flight get at most when reconcile itself is stopped, in seconds; a second signal cuts them.
LAST_DRAIN: Final = STOP_SECONDS
#: Leases from outside that are named in the log when reconcile is stopped.
NAMED: Final = 20

log = structlog.get_logger("reconciler.loop")


class Ending:
    """Brings a run to its end. Called by the loop's task when nothing is in flight any more."""

    def __init__(
        self,
        hands: Hands,
        evictor: Evictor,
        book: LeaseBook,
        journal: Journal,
        history: History,
        outcomes: Outcomes,
        promised: Callable[[str], ModelSpec],
    ) -> None:
        self._hands, self._evictor, self._book = hands, evictor, book
        self._journal, self._history, self._outcomes = journal, history, outcomes
        self._promised = promised

    def hurry(self) -> None:
        """Have what is under way end now: somebody asked for the second time. Again is harmless."""
        if self._hands.hurry.is_set():
            log.info("it is being ended as fast as it can be")
            return
        log.warning(
            "forced: requests in flight are cut, what is being stopped is killed soon", within=SHORT_GRACE
        )
        self._hands.hurry.set()

    def end_leases(self) -> None:
        """End the leases from outside at once: nobody can tell their holders to be quick."""
        ended = self._book.end_holds(STOPPING)
        if ended:
            named = [f"{hold.model} ({hold.owner})" for hold in ended[:NAMED]]
            more = {"more": len(ended) - NAMED} if len(ended) > NAMED else {}
            log.info("leases are ended: reconcile is stopping", leases=named, **more)

    async def stop_all(self) -> None:
        """Stop every model, one after the other; requests that come now are told so at once."""
        self._book.shut(Refusal(503, "model_stopped", STOPPING, retry_after=10.0))
        await self._stop(self._hands.launches)
        log.info("stopped")

    async def leave_all(self) -> None:
        """Let every model run on for the next manager once its requests are done; stop what is good for nothing."""
        self._book.shut(Refusal(503, "model_stopped", STOPPING, retry_after=10.0))
        staying = [
            x for x in self._hands.launches if (x.ready or x.asleep) and not x.broken and x.exit is None
        ]
        async with anyio.create_task_group() as tasks:
            for launch in staying:
                tasks.start_soon(self._leave, launch)
        await self._stop(x for x in self._hands.launches if x not in staying)
        left = [launch for launch in staying if launch.exit is None]
        for launch in left:
            await self._journal.left(launch)
        log.info("stopped, and the models run on", models=[launch.model for launch in left])

    async def _stop(self, launches: Iterable[Launch]) -> None:
        waiting = list(launches)
        while waiting and not self._hands.hurry.is_set():
            await self._evict(waiting.pop(0))
        async with anyio.create_task_group() as tasks:
            for launch in waiting:
                tasks.start_soon(self._kill, launch)

    async def _evict(self, launch: Launch) -> None:
        model, step = self._promised(launch.model), _step(launch)
        self._history.begun(step, self._hands.clock())
        await self._journal.begun(step)
        last = replace(model, drain_timeout=min(model.drain_timeout, LAST_DRAIN))
        done = await self._evictor.evict(step, partial(_always, last))
        await self._outcomes.after_evict(step, done)

    async def _kill(self, launch: Launch) -> None:
        """End one of many side by side: nothing is begun any more that their memory would be needed for."""
        await self._journal.begun(_step(launch))
        if self._hands.launches.serving(launch.model) is launch:
            self._book.close(launch.model)
        await self._hands.end(launch, SHORT_GRACE, failed=False)

    async def _leave(self, launch: Launch) -> None:
        """Let what is served come to its end, and write down how the process is left."""
        if self._hands.launches.serving(launch.model) is launch:
            launch.used_at = self._book.last_used(launch.model)
            if await self._served(launch):
                launch.used_at = self._hands.clock()
            launch.served = self._book.served(launch.model)
        await self._hands.record(launch)

    async def _served(self, launch: Launch) -> bool:
        """Wait until nobody is served any more, or cut what is left; return whether anybody was."""
        model, limit = launch.model, min(self._promised(launch.model).drain_timeout, LAST_DRAIN)
        self._book.seal(model, drain=True)
        self._book.jobs(model, 0)  # they go on with their server
        if not (requests := self._book.active(model)):
            return False
        log.info("requests in flight get to end", model=model, requests=requests, within=f"{limit:g} s")
        with anyio.move_on_after(0 if self._hands.hurry.is_set() else limit) as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_hasten, self._hands.hurry, scope)
                await self._book.drained(model)
                tasks.cancel_scope.cancel()
        if scope.cancelled_caught:
            log.warning("requests are cut", model=model, requests=self._book.active(model))
        self._book.cut(model)
        return True


async def _hasten(hurry: anyio.Event, scope: anyio.CancelScope) -> None:
    await hurry.wait()
    scope.cancel()


def _step(launch: Launch) -> Evict:
    pid, started = launch.process.pid, launch.process.started
    return Evict(launch.model, pid, started, launch.holds or 0, Reason.SHUTDOWN, drain=True)


def _always(model: ModelSpec) -> ModelSpec:
    return model
