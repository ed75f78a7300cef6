"""How steps ended: what is written down of them, and what those who waited are told."""

from reconciler.core import book, crashes, machine
from reconciler.core.crashes import FailureKind
from reconciler.core.types import Evict, Load
from reconciler.leases import LeaseBook, Refusal
from reconciler.loop.failures import Failure
from reconciler.loop.floor import Sunk
from reconciler.loop.hands import Outcome
from reconciler.loop.history import History
from reconciler.loop.journal import Journal
from reconciler.loop.launches import Launches


class Outcomes:
    """Closes the books on each step. Called by the loop's task only."""

    def __init__(self, journal: Journal, book: LeaseBook, launches: Launches, history: History) -> None:
        self._journal, self._book, self._launches, self._history = journal, book, launches, history

    async def close(
        self, ended: machine.State, done: Outcome, sunk: Sunk | None, given_up: str, now: float
    ) -> None:
        """Note how the step of the state that ended went.

        `sunk` is why its load was ended for want of memory, `given_up` why for another reason.
        """
        if isinstance(ended, machine.Loading):
            await self._after_load(ended.action, done, sunk, given_up, now)
        elif isinstance(ended, machine.Evicting):
            await self.after_evict(ended.action, done)

    async def _after_load(
        self, step: Load, done: Outcome, sunk: Sunk | None, given_up: str, now: float
    ) -> None:
        error, kind = done.error, done.kind
        if sunk is not None and not error and not isinstance(done.event, machine.Ready):
            error, kind = (sunk.message, FailureKind.KILLED_BY_US) if sunk.own_fault else ("", kind)
        if isinstance(done.event, machine.Ready):
            self._history.loaded(step, "ready", done)
            await self._journal.loaded(step, done.seconds, done.launch)
        elif not error:
            why = sunk.message if sunk else given_up
            self._history.loaded(step, "given-up", done, why)
            await self._journal.given_up(step, why, done.seconds)
        elif step.pid is not None or done.afresh:  # who waits goes on waiting: a new process may well work
            if sunk is not None:  # it would take as much at its next waking
                self._launches.no_sleep(step.model, step.digest)
            self._history.loaded(step, "failed", done, error)
            await self._journal.begins_anew(step, Failure(error, kind), done.launch, done.seconds, now)
        else:
            self._history.loaded(step, "failed", done, error, kind)
            await self._failed(step, Failure(error, kind), done, now)

    async def _failed(self, step: Load, failure: Failure, done: Outcome, now: float) -> None:
        """Note a failure, and tell those who wait; not if it is tried again at once."""
        entry = await self._journal.load_failed(step, failure, done.launch, done.seconds, now)
        wait = (entry.retry_at or now) - now
        if wait <= 0:
            return
        self._book.wish_over(step.model)
        text = f"model {step.model!r} could not be loaded ({failure.kind}): {failure.text}"
        text += f"; what helps: {crashes.remedy(failure.kind, step.model)}"
        again = None if book.gave_up(entry) else wait
        self._book.refuse(step.model, Refusal(502, "load_failed", text, retry_after=again))

    async def after_evict(self, step: Evict, done: Outcome) -> None:
        """Note how an eviction went: called off, asleep, or gone."""
        if isinstance(done.event, machine.Aborted):
            self._history.evicted(step, "given-up", done.seconds)
            await self._journal.given_up(step, done.error or "a request came first", done.seconds)
        elif not isinstance(done.event, machine.Exited):
            return
        elif step.sleep and self._launches.find(step.pid, step.started):
            self._history.evicted(step, "asleep", done.seconds)
            await self._journal.asleep(step, done.seconds, done.launch)
        else:
            self._history.evicted(step, "gone", done.seconds)
            await self._journal.evicted(step, done.seconds)
