"""Performing one step: the only place that starts or stops models. No decision is taken here."""

import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import inf
from typing import Final

import anyio
import anyio.to_thread
import httpx
import structlog

from reconciler.board import Progress
from reconciler.boot import boot_id
from reconciler.core.launch import LaunchSpec
from reconciler.core.machine import Aborted, Event, Exited, Failed, Ready, expected
from reconciler.core.memory import Said
from reconciler.core.types import Evict, Load, ModelSpec, Reason
from reconciler.engines import registry
from reconciler.engines.base import Readiness
from reconciler.host import Host, HostError, PortOwner, Ports, StopError
from reconciler.leases import Endpoint, Hold, LeaseBook
from reconciler.loop.failures import describe
from reconciler.loop.keeper import Keeper
from reconciler.loop.launches import Launch, Launches
from reconciler.loop.observe import Observer
from reconciler.loop.signs import Patience
from reconciler.store import AsyncStore, LaunchRecord, StoreError

#: Pause between two readiness probes: a share of the time the load has taken so far, so that neither a model ready in
#: 0.1 s nor one ready in a minute is kept waiting for more than that share of it.
PROBE_SHARE: Final = 0.015
PROBE_FIRST: Final = 0.005
PROBE_CAP: Final = 0.25
#: Seconds between two looks at who listens, for a server that does not answer on its port.
PROOF_SECONDS: Final = 0.5
#: What holders of cut leases get to leave.
CUT_SECONDS: Final = 2.0
#: Lines of a log in which an engine may have said what its model took.
SAID_LINES: Final = 2000
#: Grace of a process that is ended because it never became ready, or because the user is in a hurry.
SHORT_GRACE: Final = 2.0

#: Reasons for unloading a model after which it is not wanted back at once. What is only replaced is.
RESTING: Final = frozenset(
    {
        Reason.MAKE_ROOM,
        Reason.OVER_BUDGET,
        Reason.MEMORY_PRESSURE,
        Reason.IDLE_EXPIRED,
        Reason.TRANSIENT_DONE,
        Reason.DISMISSED,
    }
)

log = structlog.get_logger("reconciler.loop")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a step ended. `error` is a sentence for people; `seconds` is what it took."""

    event: Event
    seconds: float
    error: str = ""
    launch: Launch | None = None


class LoadError(Exception):
    """The model did not become ready; the message says why."""


class Actions:
    """Loads and evicts, one at a time (the state machine sees to that)."""

    def __init__(
        self,
        *,
        host: Host,
        store: AsyncStore,
        keeper: Keeper,
        book: LeaseBook,
        launches: Launches,
        observer: Observer,
        close_upstream: Callable[[str], Awaitable[None]],
        clock: Callable[[], float],
        changed: Callable[[], None],
        started: Callable[[Launch], None],
        ports: Ports,
    ) -> None:
        self._host = host
        self._store = store
        self._keeper = keeper
        self._book = book
        self._launches = launches
        self._observer = observer
        self._close_upstream = close_upstream
        self._clock = clock
        self._changed = changed
        self._started = started
        # One connection a call: an idle one would keep some servers from ending.
        limits = httpx.Limits(max_keepalive_connections=0)
        self.http = httpx.AsyncClient(trust_env=False, verify=False, limits=limits)  # noqa: S501 - loopback http
        self.ports = ports
        self.progress: Progress | None = None
        #: How long the load in flight may go on; None = there is none.
        self.patience: Patience | None = None
        #: Set when the user is in a hurry: drains end at once, graces are short.
        self.hurry = anyio.Event()

    def use_ports(self, limits: tuple[int, int]) -> None:
        """Give ports of this range, first and last, to models from now on."""
        if limits != (self.ports.first, self.ports.last):
            self.ports = Ports(*limits)

    async def aclose(self) -> None:
        """Close the connections of the probes."""
        await self.http.aclose()

    # -- load -----------------------------------------------------------------------------------------------------

    async def load(self, action: Load, model: ModelSpec, spec: LaunchSpec, expected: float | None) -> Outcome:
        """Start a model and wait until it answers. Whatever was started is ended again if that fails.

        `expected` is how many seconds the last load took, for people.
        """
        began = self._clock()
        self._tell(Progress(action.model, "loading", began, expected))
        launch: Launch | None = None
        seen = ["it has not answered yet"]
        self.patience = patience = Patience(model.load_timeout, self._clock)
        try:
            with patience.scope:
                launch = await self._start(action, spec)
                await self._watched(launch, spec, seen.append, patience)
        except (HostError, LoadError) as error:
            failure = str(error)
        except BaseException:
            await self._undo(launch)
            raise
        else:
            if not patience.scope.cancelled_caught and launch is not None:
                await self._admit(launch, spec)
                return Outcome(Ready(), self._clock() - began, launch=launch)
            failure = patience.over(seen[-1])
        finally:
            self.patience = None
            self._tell(None)
        return Outcome(await self._undo(launch), self._clock() - began, failure, launch)

    async def _start(self, action: Load, spec: LaunchSpec) -> Launch:
        port = await anyio.to_thread.run_sync(self.ports.allocate, self._launches.ports, spec.port)
        if spec.port is not None and port != spec.port:
            raise LoadError(f"port {spec.port} is in use by another program")
        launch_id = uuid.uuid4().hex
        created = time.time()
        record = LaunchRecord(
            launch_id,
            action.model,
            action.digest,
            None,
            None,
            port,
            boot_id(),
            created=created,
            admitted=action.size,
        )
        # Written before the process exists: should we die in between, its mark is known.
        try:
            await self._store.put_launch(record)
        except StoreError as error:
            raise LoadError(str(error)) from error
        command = registry.get(spec.engine).command(spec, port)
        # Shielded: a process that has been started must be on a page before anything else can happen to us.
        with anyio.CancelScope(shield=True):
            try:
                process = await self._host.start(command, model=action.model, launch_id=launch_id, port=port)
            except HostError:
                await self._keeper.keep(self._store.drop_launch(launch_id))
                raise
            launch = Launch(launch_id, action.model, action.digest, spec, process, port, self._clock())
            launch.admitted, launch.created = action.size, created
            self._observer.begin(launch)
            self._launches.add(launch)
            self._started(launch)
            await self._keeper.keep(self._store.put_launch(_record(launch)))
        self._changed()
        return launch

    async def _watched(
        self, launch: Launch, spec: LaunchSpec, note: Callable[[str], None], patience: Patience
    ) -> None:
        """Do as `_until_ready` while `patience` looks for signs of life. Raises LoadError."""
        failure: LoadError | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(patience.watch, launch, self._host.logs.path(launch.model))
            try:
                await self._until_ready(launch, spec, note)
            except LoadError as error:
                failure = error
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _until_ready(self, launch: Launch, spec: LaunchSpec, note: Callable[[str], None]) -> None:
        """Return when the model answers on a port that is proved ours; `note` what each probe saw. Raises LoadError."""
        engine = registry.get(spec.engine)
        began = self._clock()
        prove_at = began + PROOF_SECONDS
        elsewhere = ""
        while True:
            if launch.exit is not None:
                ended, what = launch.exit, "the process ended before it was ready"
                raise LoadError(
                    await anyio.to_thread.run_sync(describe, spec, ended, self._host.logs, launch.model, what)
                )
            probe = await engine.probe(spec, launch.base_url, self.http)
            if probe.readiness is Readiness.FAILED:
                raise LoadError(f"the server will not become ready: {probe.detail}")
            note(elsewhere or probe.detail or "it does not listen yet")
            if probe.readiness is Readiness.READY or self._clock() >= prove_at:
                prove_at = self._clock() + PROOF_SECONDS
                proof = await anyio.to_thread.run_sync(
                    self._host.owns_port, launch.process, launch.id, launch.port
                )
                if proof.owner is PortOwner.STRANGER:
                    raise LoadError(proof.message)
                if probe.readiness is Readiness.READY and proof.owner is PortOwner.OURS:
                    return
                if proof.owner is PortOwner.OURS:
                    launch.host = proof.host
                elsewhere = proof.message if proof.owner is PortOwner.OTHER_PORT else ""
            pause = (self._clock() - began) * PROBE_SHARE
            with anyio.move_on_after(min(PROBE_CAP, max(PROBE_FIRST, pause))):
                await launch.exited.wait()

    async def _admit(self, launch: Launch, spec: LaunchSpec) -> None:
        """Open a model that answers: first to those who wait, then to the account.

        Shielded: once requests are let in, giving up the load is too late; the plan evicts it in the ordinary way.
        """
        with anyio.CancelScope(shield=True):
            launch.ready, launch.loaded_at = True, self._clock()
            self.serve(launch, spec)
            await self._keeper.keep(self._store.put_launch(_record(launch)))
            await anyio.to_thread.run_sync(self._host.serving, launch.process, launch.id)
            await self._observer.measure(launch, self._clock())
            launch.said = await anyio.to_thread.run_sync(self._heard, launch, spec)

    def _heard(self, launch: Launch, spec: LaunchSpec) -> Said | None:
        """Return what the log says the model took. Blocks."""
        return registry.get(spec.engine).said("\n".join(self._host.logs.tail(launch.model, SAID_LINES)))

    def serve(self, launch: Launch, spec: LaunchSpec) -> None:
        """Send requests for a model to this launch from now on; first those that wait."""
        self._launches.serve(launch)
        upstream = registry.get(spec.engine).upstream_model(spec)
        self._book.open(Endpoint(launch.model, launch.base_url, upstream), self._clock())

    async def _undo(self, launch: Launch | None) -> Event:
        """End what a failed load has started. Shielded: a process half ended would be nobody's any more."""
        if launch is None:
            return Failed(None)
        event: Event = Failed(None)
        with anyio.CancelScope(shield=True):
            event = await self._end(launch, SHORT_GRACE, failed=True)
        return event  # noqa: RET504 - a scope may swallow a cancellation, so mypy wants it here

    # -- evict ----------------------------------------------------------------------------------------------------

    def seal(self, action: Evict) -> bool:
        """Let no new request in to the model that an evict is about, or return False if it is in use after all.

        Done in the same breath as the plan is made, nothing can come between: a model that was idle when it was
        planned is idle when it is sealed.
        """
        launch = self._launches.find(action.pid, action.started)
        if launch is None or self._launches.serving(launch.model) is not launch:
            return True
        return not self._used_since(action) and self._book.seal(launch.model, drain=action.drain)

    async def evict(self, action: Evict, drain_timeout: float, grace: float) -> Outcome:
        """Drain and stop one process; requests that come meanwhile wait in the model's queue."""
        began = self._clock()
        launch = self._launches.find(action.pid, action.started)
        if launch is None:
            return Outcome(Exited(None), 0.0)
        try:
            if self._launches.serving(launch.model) is launch:
                if not self._book.seal(launch.model, drain=action.drain):
                    return Outcome(Aborted(), 0.0, launch=launch)
                await self._drain(launch, drain_timeout)
                launch.stopping = True
                self._book.close(launch.model)
                self._launches.unserve(launch)
                self._launches.unloaded(launch.model, rests=action.reason in RESTING)
                await self._close_upstream(launch.model)
            launch.stopping = True
            self._tell(Progress(launch.model, "stopping", self._clock()))
            event = await self._end(launch, SHORT_GRACE if self.hurry.is_set() else grace, failed=False)
            error = "" if isinstance(event, Exited) else "it could not be stopped"
            return Outcome(event, self._clock() - began, error, launch)
        finally:
            self._tell(None)

    def _used_since(self, action: Evict) -> bool:
        """Whether a model that is to go for being idle was used between the look and now: its time begins anew."""
        last = self._book.last_used(action.model)
        return action.reason is Reason.IDLE_EXPIRED and last is not None and last > action.last_used

    async def _drain(self, launch: Launch, timeout: float) -> None:
        """Wait until nobody is served any more, or the deadline passes: then what is left is cut."""
        requests, holds = self._book.active(launch.model), self._held(launch.model)
        if (requests or holds) and not self.hurry.is_set():
            held = {"leases": len(holds)} if holds else {}
            log.info(
                "requests in flight get to end",
                model=launch.model,
                requests=requests,
                **held,
                within=_seconds(timeout),
            )
        self._tell(Progress(launch.model, "draining", self._clock(), timeout if timeout < inf else None))
        with anyio.move_on_after(0 if self.hurry.is_set() else timeout) as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._hasten, tasks.cancel_scope)
                await self._book.drained(launch.model)
                tasks.cancel_scope.cancel()
        if scope.cancelled_caught:
            log.warning(
                "requests are cut: timeouts.drain has passed", model=launch.model, within=_seconds(timeout)
            )
        for hold in self._held(launch.model):
            log.warning("a lease is ended", model=launch.model, owner=hold.owner)
        self._book.cut(launch.model)
        with anyio.move_on_after(CUT_SECONDS):
            await self._book.drained(launch.model)

    def _held(self, model: str) -> list[Hold]:
        """Return the leases from outside that keep a model now."""
        return [h for h in self._book.holds() if h.model == model and h.granted is not None and not h.ended]

    async def _hasten(self, scope: anyio.CancelScope) -> None:
        await self.hurry.wait()
        scope.cancel()

    async def _end(self, launch: Launch, grace: float, *, failed: bool) -> Event:
        """Stop all processes of a launch and forget it. Its memory should then be back; it is not waited for here."""
        launch.stopping = True
        before = await self._observer.available()
        held = launch.committed or 0

        def escalate(text: str) -> None:
            log.warning("stopping is slow", model=launch.model, now=text)

        try:
            await self._host.stop(launch.process, launch.id, grace=grace, on_escalate=escalate)
        except StopError as error:
            # Still there, so still charged: the plan will name it again.
            launch.broken, launch.ready = True, False
            log.error("could not stop", model=launch.model, pids=error.pids, error=str(error))
            return Failed(None)
        self._launches.drop(launch)
        self._observer.evicted()
        await self._keeper.keep(self._store.drop_launch(launch.id))
        expect = expected(before, held)
        return Failed(expect) if failed else Exited(expect)

    def _tell(self, progress: Progress | None) -> None:
        if progress != self.progress:
            self.progress = progress
            self._changed()


def _seconds(timeout: float) -> str:
    return "as long as it takes" if timeout == inf else f"{timeout:g} s"


def _record(launch: Launch) -> LaunchRecord:
    process = launch.process
    return LaunchRecord(
        launch.id,
        launch.model,
        launch.digest,
        process.pid,
        process.started,
        launch.port,
        boot_id(),
        launch.ready,
        launch.created,
        launch.admitted,
    )
