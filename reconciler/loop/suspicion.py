"""When a model that was ready is suspected to hang, and when that is sure. No I/O: it judges what it is shown.

Times are seconds in which the manager itself ran: while the machine sleeps, or the manager is stopped, nothing ages.
A sign of life is a byte to anybody, or that its processes compute, use the GPU or read from disk. Slow is not hung: as
long as there are signs of life, everything may take as long as the manifest allows for a first byte.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from reconciler.core.words import counted, span

#: Seconds in which a model that owes somebody something gives no sign of life until it is suspected, and seconds for
#: which a request of ours is waited for without one.
SILENCE: Final = 30.0
#: Requests in a row that its server failed until it is suspected.
FAULTS: Final = 3
#: Seconds for which a process may be stopped by a signal, and for which its port may be closed.
STOPPED: Final = 30.0
CLOSED: Final = 3.0
#: Wrong answers in a row to requests of ours until it is sure.
WRONG: Final = 3
#: Seconds without a sign of life after which requests of others are not what it is busy with.
QUIET: Final = 5.0
#: Seconds until one that answered is asked again because requests fail; doubled each time up to the cap.
PAUSE_FIRST: Final = 60.0
PAUSE_CAP: Final = 3600.0
#: Seconds its processes must have computed, and bytes read from disk, to count as a sign of life.
LEAST_CPU: Final = 0.01
LEAST_READ: Final = 1 << 20


class Cause(StrEnum):
    """Why a model is suspected; also the reason of its condition."""

    STOPPED = "ProcessStopped"
    CLOSED = "PortClosed"
    SILENT = "Silent"
    FAILING = "RequestsFail"


@dataclass(frozen=True, slots=True)
class Vitals:
    """What the system says of the processes of one model. None = it does not say."""

    #: One that does not run: its pid, and whether a debugger holds it.
    stopped: int | None = None
    traced: bool = False
    #: Whether one of ours listens on the model's port.
    listens: bool | None = None
    #: Seconds computed, and on the GPU, and bytes read from disk, by all of them since they began.
    cpu: float | None = None
    gpu: float | None = None
    reads: int | None = None


@dataclass(frozen=True, slots=True)
class Use:
    """What its requests say of one model."""

    #: Requests at its server, and how many of them wait for it to send something.
    active: int = 0
    owed: int = 0
    #: How often something came for anybody, since it is watched.
    received: int = 0
    #: Requests answered since it was opened; and failed in a row, with how the last one failed.
    answered: int = 0
    faults: int = 0
    fault: str = ""


class Suspicion:
    """What is known of one process of one model that is ready. Made when it becomes ready."""

    def __init__(self, ran: float) -> None:
        self.cause: Cause | None = None
        #: Why it is suspected, for people; "" = it is not.
        self.why = ""
        #: Why it is sure; "" = it is not. It does not change any more then.
        self.hung = ""
        #: When the suspicion began, and a request of ours (None = there is none).
        self.since = ran
        self.asked_at: float | None = None
        self._vitals, self._use = Vitals(), Use()
        #: Whether something came for somebody since the look before.
        self._came = False
        self._alive_at = self._owed_at = self._stopped_at = self._closed_at = ran
        self._pause, self._not_before = PAUSE_FIRST, ran
        #: Requests failed in a row when it last answered ours.
        self._forgiven = 0
        self._wrong = 0

    def look(self, ran: float, vitals: Vitals, use: Use, patience: float, *, acts: bool = True) -> None:
        """Judge what is seen now. `patience` is how long a first byte may take, in seconds.

        Where nothing is to be done about it (not `acts`), nothing is ever sure.
        """
        if self.hung:
            return
        self._note(ran, vitals, use)
        cause, self.why = self._judge(ran, vitals, patience)
        if cause is not self.cause:
            self.cause, self.since, self.asked_at = cause, ran, None
        if cause is not None and acts:
            self.hung = self._certain(ran, vitals, patience)

    def restart(self, ran: float) -> None:
        """Let all waits begin anew: the manager did not run for a while, and perhaps nobody else did."""
        self._alive_at = self._owed_at = self._stopped_at = self._closed_at = self.since = ran
        if self.asked_at is not None:
            self.asked_at = ran

    def is_to_be_asked(self, ran: float, patience: float) -> bool:
        """Return whether a request of ours is to tell: not while it is busy with those of others."""
        if self.hung or self.cause not in _ASKED or self.asked_at is not None:
            return False
        free = self._use.active == 0 or ran - self._alive_at >= QUIET
        return free or ran - self.since >= patience

    @property
    def well_until(self) -> float:
        """When it was last seen to be well, if it is suspected."""
        return self._owed_at if self.cause is Cause.SILENT else self.since

    def asked(self, ran: float) -> None:
        """Note that a request of ours is on its way."""
        self.asked_at, self._wrong = ran, 0

    def answered(self, ran: float) -> None:
        """Note that it answered our request: nothing is wrong with it. Those that fail are not asked about for a while.

        Each time that says nothing new, the next one is later.
        """
        self.cause, self.why, self.asked_at = None, "", None
        self._forgiven = self._use.faults
        self._not_before = ran + self._pause
        self._pause = min(self._pause * 2, PAUSE_CAP)
        self._alive_at = self._owed_at = ran

    def wrong(self, detail: str) -> bool:
        """Note a wrong answer to our request; return whether it is sure now."""
        self._wrong += 1
        if self._wrong >= WRONG and not self.hung:
            self.hung = f"{self.why}, and a small request of our own fails: {detail}"
        return bool(self.hung)

    # -- judging ---------------------------------------------------------------------------------------------------

    def _note(self, ran: float, vitals: Vitals, use: Use) -> None:
        """Note what has changed since the last look."""
        before, self._use = self._use, use
        self._came = use.received > before.received or use.answered > before.answered
        if self._came or use.owed == 0:
            self._owed_at = ran
        if self._came or self._works(vitals):
            self._alive_at = ran
        if use.faults == 0 and use.answered > before.answered:
            self._pause = PAUSE_FIRST
        self._forgiven = min(self._forgiven, use.faults)
        if vitals.stopped is None:
            self._stopped_at = ran
        else:  # what it owes, it owes from the moment it goes on
            self._owed_at = self._alive_at = ran
        if vitals.listens is not False:
            self._closed_at = ran

    def _works(self, vitals: Vitals) -> bool:
        """Return whether its processes did something. Where the system does not tell, they are taken to."""
        known = self._vitals
        worked = (
            vitals.cpu is None
            or _grew(known.cpu, vitals.cpu, LEAST_CPU)
            or _grew(known.gpu, vitals.gpu, LEAST_CPU)
            or _grew(known.reads, vitals.reads, LEAST_READ)
        )
        if worked:
            self._vitals = vitals  # what is not enough to count is added up
        return worked

    def _judge(self, ran: float, vitals: Vitals, patience: float) -> tuple[Cause | None, str]:
        """Return whether it is suspected, and why."""
        if vitals.stopped is not None:
            return Cause.STOPPED, _stopped_text(vitals)
        if vitals.listens is False:
            return Cause.CLOSED, "its process lives, but does not listen on its port any more"
        if ran < self._not_before:
            return None, ""
        use, owed = self._use, ran - self._owed_at
        idle = min(owed, ran - self._alive_at) >= SILENCE
        if use.owed and (idle or owed >= max(patience, SILENCE)):
            what = f"{counted(use.owed, 'request')} got nothing for {span(owed)}"
            return Cause.SILENT, f"{what}, and its process {'does nothing' if idle else 'computes'}"
        if self.cause is Cause.SILENT and not self._came:
            return self.cause, self.why  # those it owed something may have left: that mends nothing
        if use.faults - self._forgiven >= FAULTS:
            return Cause.FAILING, f"{use.faults} requests in a row failed: {use.fault}"
        return None, ""

    def _certain(self, ran: float, vitals: Vitals, patience: float) -> str:
        """Return why it is sure that a suspected one hangs, or ""."""
        if self.cause is Cause.STOPPED:
            over = ran - self._stopped_at >= STOPPED and not vitals.traced
            stopped = f"pid {vitals.stopped} was stopped by a signal"
            return f"{stopped}, and nobody let it go on within {span(STOPPED)}" if over else ""
        if self.cause is Cause.CLOSED:
            return self.why if ran - self._closed_at >= CLOSED else ""
        if self.asked_at is None:
            return ""
        waited = ran - self.asked_at
        if min(waited, ran - self._alive_at) < SILENCE and waited < max(patience, SILENCE):
            return ""
        return f"{self.why}; a small request of our own got no answer within {span(waited)} either"


_ASKED: Final = frozenset({Cause.SILENT, Cause.FAILING})


def _grew(known: float | None, now: float | None, least: float) -> bool:
    """Return whether a sum has grown. One that was not known before, or fell, is of other processes than before."""
    return now is not None and (known is None or now < known or now - known >= least)


def _stopped_text(vitals: Vitals) -> str:
    if vitals.traced:
        return f"pid {vitals.stopped} is held by a debugger"
    return f"pid {vitals.stopped} is stopped by a signal; `kill -CONT {vitals.stopped}` lets it go on"
