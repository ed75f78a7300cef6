"""What every step needs: the process, the book, the account, and how a process is ended. No decision is taken here."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import anyio
import structlog

from reconciler.board import Progress
from reconciler.boot import boot_id
from reconciler.core.crashes import FailureKind
from reconciler.core.machine import Event, Exited, Failed, expected
from reconciler.host import Host, StopError
from reconciler.leases import LeaseBook
from reconciler.loop.keeper import Keeper
from reconciler.loop.launches import Launch, Launches, record_of
from reconciler.loop.observe import Observer
from reconciler.loop.scarce import insist
from reconciler.loop.states import States
from reconciler.store import AsyncStore

#: Grace of a process that is ended because it never became ready, or because the user is in a hurry.
SHORT_GRACE: Final = 2.0

log = structlog.get_logger("reconciler.loop")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a step ended. `error` is a sentence for people; `seconds` is what it took."""

    event: Event
    seconds: float
    error: str = ""
    launch: Launch | None = None
    #: What kind of failure the error is.
    kind: FailureKind = FailureKind.CRASHED
    #: It did not survive that its state was restored, or that it was woken: a new process may well serve.
    afresh: bool = False


class Hands:
    """What loading and evicting share, and the progress of whichever is in flight (the state machine sees to that)."""

    def __init__(
        self,
        *,
        host: Host,
        store: AsyncStore,
        keeper: Keeper,
        book: LeaseBook,
        launches: Launches,
        observer: Observer,
        states: States,
        clock: Callable[[], float] = time.monotonic,
        changed: Callable[[], None],
    ) -> None:
        self.host = host
        self.store = store
        self.keeper = keeper
        self.book = book
        self.launches = launches
        self.observer = observer
        self.states = states
        self.clock = clock
        self.changed = changed
        self.progress: Progress | None = None
        #: Set when the user is in a hurry: drains end at once, graces are short.
        self.hurry = anyio.Event()

    def tell(self, progress: Progress | None) -> None:
        """Note how far the step in flight is."""
        if progress != self.progress:
            self.progress = progress
            self.changed()

    async def record(self, launch: Launch, stage: str = "") -> bool:
        """Write down how a launch is now, so that a later run knows; return whether that succeeded.

        `stage`: what is about to be done with it; it is neither ready nor asleep meanwhile. Should we die now, it is
        ended. One that died in between is not written down again: nobody would ever take it out.
        """
        if not self.launches.has(launch):
            return True
        return await self.keeper.keep(self.store.put_launch(record_of(launch, boot_id(), stage)))

    async def end(self, launch: Launch, grace: float, *, failed: bool) -> Event:
        """Stop all processes of a launch and forget it. Its memory should then be back; it is not waited for here."""
        launch.stopping = True
        before = await self.observer.available()
        held = launch.committed or 0

        def escalate(text: str) -> None:
            log.warning("stopping is slow", model=launch.model, now=text)

        stop = partial(
            self.host.stop,
            launch.process,
            launch.id,
            grace=grace,
            on_escalate=escalate,
            hurried=self.hurry.is_set,
        )
        if launch.ready or launch.asleep:  # the next run, should it find it alive, ends what we began to end
            await self.record(launch, "stopping")
        try:
            # Begun anew, a stop finds what is left: nothing that was started is given up for want of a file.
            await insist(stop, f"ending {launch.model}")
        except StopError as error:
            # Still there, so still charged: the plan will name it again.
            launch.broken, launch.ready, launch.asleep = True, False, False
            log.error("could not stop", model=launch.model, pids=error.pids, error=str(error))
            return Failed(None)
        self.launches.drop(launch)
        self.observer.evicted()
        await self.keeper.keep(self.store.drop_launch(launch.id))
        expect = expected(before, held)
        return Failed(expect) if failed else Exited(expect)
