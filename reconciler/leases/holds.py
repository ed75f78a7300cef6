"""Holds: leases from outside the gateway, for batch jobs and queues the gateway does not see.

A hold keeps a model in memory for a while, and asks for it to be loaded; it passes no gate and takes no place.
"""

import math
import secrets
from collections import deque
from dataclasses import dataclass, replace
from typing import Final

from reconciler.leases.page import Page
from reconciler.leases.scheduler import Scheduler
from reconciler.leases.types import RETRY_AFTER_SECONDS, LeaseRefused, Refusal, unknown

#: Holds of all models together, and seconds one may be asked for (or renewed) at a time.
MAX_HOLDS: Final = 1000
MAX_SECONDS: Final = 24 * 3600.0
MAX_OWNER: Final = 200
#: Why a hold ended whose time was over, or whose model nobody may ask for any more.
OVER: Final = "its time was over"
REMOVED: Final = "not in the manifest any more"
NO_SUCH: Final = "there is no such lease: leases end with the reconcile that gave them, so ask for a new one"
#: How many ended holds are remembered, so that their owners learn why, and for how many seconds.
MAX_ENDED: Final = 200
ENDED_SECONDS: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Hold:
    """One hold as it stands. Times are monotonic seconds."""

    #: Whoever knows it may renew and release the hold.
    id: str
    model: str
    owner: str
    #: When it was asked for.
    since: float
    #: When it ends by itself.
    until: float
    #: Since when the model is kept for it; None = it waits for the model to be loaded.
    granted: float | None = None
    #: Why and when it was ended by somebody else than its owner.
    ended: str = ""
    ended_at: float | None = None
    #: Since when it waits, if it does.
    waits_since: float | None = None

    @property
    def state(self) -> str:
        """`held`, `waiting` or `ended`."""
        if self.ended:
            return "ended"
        return "waiting" if self.granted is None else "held"


class Holds:
    """All holds, those in force, those that wait, and for a while those that were ended."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._live: dict[str, Hold] = {}
        self._ended: deque[Hold] = deque(maxlen=MAX_ENDED)
        #: Those whose time was over and of which the loop has not been told.
        self._untold: list[Hold] = []

    def hold(self, model: str, owner: str, seconds: float, now: float) -> Hold:
        """Begin a hold of `seconds`. Raises `LeaseRefused` (400, 404, 429, or as the book was shut)."""
        if self._scheduler.shut is not None:
            raise LeaseRefused(self._scheduler.shut)
        self.lapse(now)
        page = self._scheduler.pages.get(model)
        if page is None or page.limits is None:
            raise LeaseRefused(unknown(model))
        _check(owner, seconds)
        if len(self._live) >= MAX_HOLDS:
            text = f"there are {MAX_HOLDS} leases from outside already"
            raise LeaseRefused(Refusal(429, "queue_full", text, RETRY_AFTER_SECONDS))
        hold = Hold(secrets.token_hex(8), model, owner, now, now + seconds, waits_since=now)
        self._live[hold.id] = hold
        if page.serves_at is None:
            self._wait(page, hold, now)
            page.dismissed = False
        else:
            self._keep(page, hold, now)
        self._scheduler.wake()  # also for one in force: the loop sleeps until the first of them ends
        return self._live[hold.id]

    def renew(self, hold_id: str, seconds: float, now: float) -> Hold:
        """Let a hold last `seconds` from now. Raises `LeaseRefused` (400; 404, with the reason if it has ended)."""
        self.lapse(now)
        hold = self._find(hold_id)
        _check(hold.owner, seconds)
        renewed = self._live[hold_id] = replace(hold, until=now + seconds)
        if renewed.until < hold.until:
            self._scheduler.wake()  # the loop may sleep for longer
        return renewed

    def release(self, hold_id: str) -> Hold:
        """End a hold, as its owner wishes; return what it was. Raises `LeaseRefused` (404)."""
        hold = self._find(hold_id)
        self._take_out(hold)
        if hold.granted is None:
            self._scheduler.wake()  # maybe nobody wants the model now
        return hold

    def expire(self, now: float) -> tuple[Hold, ...]:
        """End the holds whose time is over; return all that ended so since the last call, sorted by that time."""
        self._ended = deque((h for h in self._ended if now - (h.ended_at or now) < ENDED_SECONDS), MAX_ENDED)
        self._lapse(now)
        told, self._untold = tuple(self._untold), []
        return told

    def lapse(self, now: float) -> None:
        """End the holds whose time is over, for whoever asks before the loop has come to it; it will want to know."""
        if self._lapse(now):
            self._scheduler.wake()

    def _lapse(self, now: float) -> bool:
        over = sorted((h for h in self._live.values() if h.until <= now), key=lambda h: h.until)
        self._untold += [self._end(hold, OVER, now) for hold in over]
        return bool(over)

    def next_expiry(self) -> float | None:
        """Return when the next hold's time is over; None = there is no hold."""
        return min((hold.until for hold in self._live.values()), default=None)

    def all(self) -> tuple[Hold, ...]:
        """Return every hold, those that were ended lately among them, in order of their beginning."""
        return tuple(sorted((*self._live.values(), *self._ended), key=lambda h: h.since))

    def oldest(self, page: Page) -> float | None:
        """Return since when the first of the waiting holds of a model waits."""
        times = [self._live[i].waits_since for i in page.pending]
        return min((t for t in times if t is not None), default=None)

    def opened(self, page: Page, now: float) -> None:
        """The model takes requests: what waits for it is in force."""
        for hold in self._of(page.pending):
            self._keep(page, hold, now)

    def closed(self, page: Page, now: float) -> None:
        """The model is gone without having been asked: its holds ask for it again, if anybody still may."""
        if page.limits is None:
            self.end(page.held, REMOVED, now)
        for hold in self._of(page.held):
            self._wait(page, hold, now)
            self._scheduler.rest(page)

    def end(self, ids: set[str], reason: str, now: float) -> None:
        """End some holds for `reason`, which their owners can read for a while."""
        for hold in self._of(ids):
            self._end(hold, reason, now)

    def end_all(self, reason: str, now: float) -> tuple[Hold, ...]:
        """End all holds for `reason`, and return them in order of their beginning."""
        live = sorted(self._live.values(), key=lambda h: h.since)
        return tuple(self._end(hold, reason, now) for hold in live)

    def _of(self, ids: set[str]) -> list[Hold]:
        """Return some holds in order of their beginning: their ids are random."""
        return [hold for hold in self._live.values() if hold.id in ids] if ids else []

    def _find(self, hold_id: str) -> Hold:
        hold = self._live.get(hold_id)
        if hold is not None:
            return hold
        ended = next((h for h in self._ended if h.id == hold_id), None)
        text = f"lease {hold_id!r} of model {ended.model!r} has ended: {ended.ended}" if ended else ""
        raise LeaseRefused(Refusal(404, "lease_not_found", text or NO_SUCH))

    def _end(self, hold: Hold, reason: str, now: float) -> Hold:
        self._take_out(hold)
        ended = replace(hold, ended=reason, ended_at=now, waits_since=None)
        self._ended.append(ended)
        return ended

    def _take_out(self, hold: Hold) -> None:
        page = self._scheduler.pages[hold.model]
        del self._live[hold.id]
        if hold.id in page.held:
            page.held.discard(hold.id)
            page.last_used = self._scheduler.clock()
            page.served += 1
            self._scheduler.rest(page)
        else:
            page.pending.discard(hold.id)
            self._scheduler.pending_holds -= 1

    def _keep(self, page: Page, hold: Hold, now: float) -> None:
        if hold.id in page.pending:
            page.pending.discard(hold.id)
            self._scheduler.pending_holds -= 1
        page.held.add(hold.id)
        self._live[hold.id] = replace(hold, granted=now, waits_since=None)

    def _wait(self, page: Page, hold: Hold, now: float) -> None:
        page.held.discard(hold.id)
        page.pending.add(hold.id)
        self._scheduler.pending_holds += 1
        self._live[hold.id] = replace(hold, granted=None, waits_since=now)


def _check(owner: str, seconds: float) -> None:
    text = ""
    if not owner or len(owner) > MAX_OWNER or not owner.isprintable():
        text = f"the owner of a lease is 1 to {MAX_OWNER} printable characters"
    elif not (math.isfinite(seconds) and 0 < seconds <= MAX_SECONDS):
        text = f"a lease lasts more than 0 and at most {MAX_SECONDS:g} s"
    if text:
        raise LeaseRefused(Refusal(400, "invalid_lease", text))
