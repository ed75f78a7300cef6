"""Whether models that are ready still answer: who is suspected to hang is asked, and who does not answer is given up.

Looks once a second at those in use, seldom at the others, and never on a request's way. What it finds the loop takes
over at its next turn; until then nothing is changed but the requests that a process that hangs will never answer.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import anyio
import anyio.abc
import anyio.to_thread
import httpx
import structlog

from reconciler.board import Health
from reconciler.core.words import span
from reconciler.engines.base import Readiness
from reconciler.excerpt import excerpt, secrets_of
from reconciler.loop import careful
from reconciler.loop.hands import Hands
from reconciler.loop.journal import Journal
from reconciler.loop.launches import Launch
from reconciler.loop.scarce import Looking
from reconciler.loop.suspicion import Cause, Suspicion, Use, Vitals
from reconciler.loop.vitals import Ask, VitalSigns
from reconciler.manifest.applied import Applied, RequestLimits

#: Seconds between two looks at models that are in use or suspected, and at the others.
PACE: Final = 1.0
CALM_PACE: Final = 5.0
#: A look that comes so many seconds after the one before: the machine slept, or we were stopped.
LATE: Final = 5.0
#: Seconds until a request of ours that was answered wrongly is made again.
AGAIN: Final = 1.0
#: A request that gets something at least so often, in seconds, goes on although its model hangs.
STREAMING: Final = 10.0
_NEXT: Final = "it is being stopped, and loaded again for whoever asks: a request sent again waits for that"
_LIMITS: Final = RequestLimits()

log = structlog.get_logger("reconciler.loop")


@dataclass(slots=True, eq=False)
class _Watched:
    """One launch that serves."""

    launch: Launch
    suspicion: Suspicion
    #: When it was looked at, by the seconds that we ran.
    looked: float = float("-inf")
    #: Of each of its leases how often something came, and when that was last; and how often for all together.
    received: dict[str, int] = field(default_factory=dict)
    moved: dict[str, float] = field(default_factory=dict)
    total: int = 0
    #: The request of ours that is on its way.
    asking: anyio.CancelScope | None = None
    #: When it was over, by the loop's clock, what it took in seconds, and what was wrong with its answer.
    asked_at: float | None = None
    took: float = 0.0
    wrong: str = ""
    #: What the loop was told last.
    told: Cause | None = None
    told_hung: bool = False


@dataclass(frozen=True, slots=True)
class _News:
    """Something the loop does not know yet: a cause = suspected for it, None = not any more."""

    launch: Launch
    cause: Cause | None
    text: str
    #: It is sure that it hangs; it had been well for so many seconds.
    hung: bool = False
    lived: float = 0.0


class Liveness:
    """Watches the launches that serve. `applied` is the manifest in force."""

    def __init__(self, hands: Hands, http: httpx.AsyncClient, applied: Callable[[], Applied]) -> None:
        self._hands, self._http, self._applied = hands, http, applied
        self._signs = VitalSigns(hands.host)
        self._watched: dict[str, _Watched] = {}
        self._news: list[_News] = []
        #: Seconds in which we ran, and when that was counted.
        self._ran, self._counted = 0.0, hands.clock()

    # -- for the loop ----------------------------------------------------------------------------------------------

    async def take(self, journal: Journal, now: float) -> None:
        """Note in the launches, the lease book and the history what was found; for the loop's turns."""
        news, self._news = self._news, []
        for launch in self._hands.launches:
            watched = self._watched.get(launch.id)
            cause = watched.suspicion.cause if watched is not None and not launch.hung else None
            launch.suspect = watched.suspicion.why if watched is not None and cause is not None else ""
            launch.suspected_for = "" if cause is None else str(cause)
        for found in news:
            launch = found.launch
            if not self._serves(launch):
                continue
            if found.hung:
                launch.hung, launch.suspect = found.text, ""
                self._hands.book.seal(launch.model, drain=True)
                answered = self._hands.book.answered(launch.model)
                await journal.hung(launch, found.text, found.lived, answered, now)
            elif found.cause is not None:
                await journal.suspected(launch.model, found.cause, found.text)
            else:
                await journal.cleared(launch.model, found.text)

    def health(self) -> Mapping[str, Health]:
        """Return what is known of each model that serves, sorted by name; for people."""
        found = sorted(self._watched.values(), key=lambda w: w.launch.model)
        return {w.launch.model: self._health(w) for w in found if self._serves(w.launch)}

    def _health(self, watched: _Watched) -> Health:
        faults, fault = self._hands.book.faults(watched.launch.model)
        return Health(
            probed=self._acts(watched.launch.model),
            suspect=watched.launch.suspect,
            hung=watched.launch.hung,
            asking=watched.asking is not None,
            asked_at=watched.asked_at,
            took=watched.took,
            wrong=watched.wrong,
            faults=faults,
            fault=fault if faults else "",
        )

    # -- looking ---------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Look, over and over."""
        life = Looking("the life of the models")
        async with anyio.create_task_group() as tasks:
            while True:
                await anyio.sleep(PACE)
                await life.attempt(partial(self._look, tasks), None)

    async def _look(self, tasks: anyio.abc.TaskGroup) -> None:
        late = self._count()
        self._follow(late=late)
        due = [w for w in self._watched.values() if self._is_due(w)]
        if not due:
            return  # mostly so: no thread is woken for nothing
        read = await anyio.to_thread.run_sync(self._signs.read, [self._question(w) for w in due])
        for watched in due:
            if self._serves(watched.launch):
                self._judge(watched, read[watched.launch.id], tasks)

    def _question(self, watched: _Watched) -> Ask:
        doubtful = watched.suspicion.cause is not None or self._hands.book.faults(watched.launch.model)[0] > 0
        return Ask(watched.launch, self._in_use(watched), doubtful)

    def _count(self) -> bool:
        """Count the seconds that we ran; return whether we did not for a while."""
        now = self._hands.clock()
        gap, self._counted = now - self._counted, now
        self._ran += min(gap, 2 * PACE)
        return gap > LATE

    def _follow(self, *, late: bool) -> None:
        """Watch those that serve now, and nobody else."""
        serving = {x.id: x for x in self._hands.launches if self._serves(x)}
        for launch_id in [i for i in self._watched if i not in serving]:
            gone = self._watched.pop(launch_id)
            self._stop_asking(gone)
            self._signs.forget(gone.launch)
        for launch_id, launch in serving.items():
            if launch_id not in self._watched:
                self._watched[launch_id] = _Watched(launch, Suspicion(self._ran))
            elif late:
                self._watched[launch_id].suspicion.restart(self._ran)

    def _serves(self, launch: Launch) -> bool:
        ends = launch.exit is not None or launch.stopping or launch.broken
        return launch.ready and not ends and self._hands.launches.serving(launch.model) is launch

    def _in_use(self, watched: _Watched) -> bool:
        if watched.suspicion.cause is not None or watched.launch.hung:
            return True
        model = watched.launch.model
        return self._hands.book.active(model) > 0 or self._hands.book.faults(model)[0] > 0

    def _is_due(self, watched: _Watched) -> bool:
        return self._in_use(watched) or self._ran - watched.looked >= CALM_PACE

    def _acts(self, model: str) -> bool:
        return self._applied().limits.get(model, _LIMITS).liveness

    # -- judging ---------------------------------------------------------------------------------------------------

    def _judge(self, watched: _Watched, vitals: Vitals, tasks: anyio.abc.TaskGroup) -> None:
        launch, suspicion, watched.looked = watched.launch, watched.suspicion, self._ran
        limits = self._applied().limits.get(launch.model, _LIMITS)
        suspicion.look(self._ran, vitals, self._use(watched), limits.first_byte, acts=limits.liveness)
        if watched.asking is not None and (suspicion.hung or suspicion.asked_at is None):
            self._stop_asking(watched)
        askable = limits.liveness and launch.spec is not None and watched.asking is None
        if askable and suspicion.is_to_be_asked(self._ran, limits.first_byte):
            suspicion.asked(self._ran)
            watched.asking = anyio.CancelScope()
            tasks.start_soon(self._ask, watched, watched.asking)
        self._tell(watched)
        if launch.hung:
            self._hands.book.seal(launch.model, drain=True)
            self._give_up(watched)

    def _use(self, watched: _Watched) -> Use:
        """Return what its requests say of it."""
        book, model = self._hands.book, watched.launch.model
        leases = book.leases(model)
        received = {x.id: x.flow.received for x in leases if x.flow is not None}
        moved = [i for i, count in received.items() if count != watched.received.get(i, 0)]
        watched.moved = {i: at for i, at in watched.moved.items() if i in received}
        watched.moved |= dict.fromkeys(moved, self._ran)
        watched.received, watched.total = received, watched.total + len(moved)
        owed = sum(1 for x in leases if x.flow is not None and x.flow.owed)
        faults, fault = book.faults(model)
        return Use(len(leases), owed, watched.total, book.answered(model), faults, fault)

    def _tell(self, watched: _Watched, cleared: str = "it goes on") -> None:
        """Leave what is new for the loop, and have it look."""
        suspicion, launch = watched.suspicion, watched.launch
        if suspicion.hung and not watched.told_hung:
            watched.told_hung = True
            lived = self._hands.clock() - launch.loaded_at - (self._ran - suspicion.well_until)
            self._news.append(
                _News(launch, suspicion.cause, suspicion.hung, hung=True, lived=max(0.0, lived))
            )
        elif not suspicion.hung and suspicion.cause is not watched.told:
            watched.told = suspicion.cause
            text = suspicion.why if suspicion.cause is not None else cleared
            self._news.append(_News(launch, suspicion.cause, text))
        else:
            return
        self._hands.changed()

    def _give_up(self, watched: _Watched) -> None:
        """Tell those whom a model that hangs owes something that nothing will come."""
        for lease in self._hands.book.leases(watched.launch.model):
            silent = self._ran - watched.moved.get(lease.id, float("-inf")) >= STREAMING
            if lease.flow is not None and lease.flow.owed and silent and not lease.cut.is_set():
                lease.cut.set(f"{watched.launch.hung}; {_NEXT}")

    # -- asking ----------------------------------------------------------------------------------------------------

    async def _ask(self, watched: _Watched, scope: anyio.CancelScope) -> None:
        """Make a small request of our own until it is answered as it should be, or nobody wants to know any more."""
        launch, began = watched.launch, self._hands.clock()
        assert launch.spec is not None, "nobody is asked of whom we do not know how"
        with scope:
            while True:
                probe = await careful.get(launch.spec.engine).prove(launch.spec, launch.base_url, self._http)
                if watched.asking is not scope:
                    return
                now = self._hands.clock()
                watched.asked_at, watched.took = now, now - began
                watched.wrong = excerpt(probe.detail, secrets_of(launch.spec))
                if probe.readiness is Readiness.READY:
                    watched.asking, watched.wrong = None, ""
                    watched.suspicion.answered(self._ran)
                    self._tell(watched, f"it answered a small request of our own in {span(now - began)}")
                    return
                if probe.readiness is Readiness.FAILED and watched.suspicion.wrong(watched.wrong):
                    watched.asking = None
                    self._tell(watched)
                    return
                await anyio.sleep(AGAIN)

    def _stop_asking(self, watched: _Watched) -> None:
        scope, watched.asking = watched.asking, None
        if scope is not None:
            scope.cancel()
