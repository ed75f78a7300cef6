"""Loading: a process is started and becomes the model's server once a real call works, or everything is undone."""

import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import anyio
import anyio.to_thread
import httpx

from reconciler.board import Progress
from reconciler.core.crashes import FailureKind
from reconciler.core.launch import LaunchSpec
from reconciler.core.machine import Event, Failed, Ready
from reconciler.core.memory import Said
from reconciler.core.types import Load, ModelSpec
from reconciler.engines import api_key, devices
from reconciler.engines.base import Command, EngineError
from reconciler.excerpt import excerpt, secrets_of
from reconciler.host import HostError, Ports, PortsExhausted, StartError
from reconciler.host.origin import Origin
from reconciler.leases import Endpoint
from reconciler.loop import careful
from reconciler.loop.failures import Failure
from reconciler.loop.hands import SHORT_GRACE, Hands, Outcome
from reconciler.loop.launches import Launch
from reconciler.loop.readiness import BEFORE_READY, LoadError, explained, until_ready
from reconciler.loop.rebuilt import first_record
from reconciler.loop.scarce import scarce_as
from reconciler.loop.signs import Patience
from reconciler.loop.sleeping import ENDED_SECONDS, Sleeping

#: Seconds a server has to answer one real call after its state could not be restored.
ANSWER_SECONDS: Final = 10.0
WHILE_RESTORED: Final = "the process ended while its state was restored"
#: Lines of a log in which an engine may have said what its model took.
SAID_LINES: Final = 2000


class Loader:
    """Starts models, one at a time (the state machine sees to that)."""

    def __init__(self, hands: Hands, ports: Ports, started: Callable[[Launch], None]) -> None:
        self._hands = hands
        self._started = started
        # One connection a call: an idle one would keep some servers from ending.
        limits = httpx.Limits(max_keepalive_connections=0)
        self.http = httpx.AsyncClient(trust_env=False, verify=False, limits=limits)  # noqa: S501 - loopback http
        self.ports = ports
        self._sleeping = Sleeping(hands, self.http)
        #: How long the load in flight may go on; None = there is none.
        self.patience: Patience | None = None

    def use_ports(self, limits: tuple[int, int]) -> None:
        """Give ports of this range, first and last, to models from now on."""
        if limits != (self.ports.first, self.ports.last):
            self.ports = Ports(*limits)

    async def aclose(self) -> None:
        """Close the connections of the probes."""
        await self.http.aclose()

    async def load(self, action: Load, model: ModelSpec, spec: LaunchSpec, expected: float | None) -> Outcome:
        """Start a model and wait until it answers. Whatever was started is ended again if that fails.

        `expected` is how many seconds the last load took, for people.
        """
        began = self._hands.clock()
        self._hands.tell(Progress(action.model, "loading", began, expected))
        launch: Launch | None = None
        failure: Failure | None = None
        seen = ["it has not answered yet"]
        self.patience = patience = Patience(model.load_timeout, self._hands.clock)
        try:
            with patience.scope, scarce_as(_not_now):
                if action.pid is None:
                    launch = await self._start(action, spec)
                else:
                    # Known before anything can be given up: it is then to be ended.
                    launch = self._asleep(action)
                    await self._wake(launch, action, spec)
                await self._watched(launch, spec, seen.append, patience)
        except (HostError, LoadError) as error:
            failure = error.failure if isinstance(error, LoadError) else Failure(str(error), _kind(error))
        except BaseException:
            await self._undo(launch)
            raise
        else:
            if launch is None or patience.scope.cancelled_caught:
                failure = await self._given_up(launch, spec, patience.over(seen[-1]))
            elif (failure := await self._admit(launch, spec)) is None:
                # Requests have been served since then: what was noted afterwards let nobody wait for this model.
                return Outcome(Ready(), launch.loaded_at - began, launch=launch)
        finally:
            patience.close()
            self.patience = None
            self._hands.tell(None)
        woken = action.pid is not None
        if woken and launch is not None and not await self._sleeping.ended_by_others(launch):
            self._sleeping.no_more(launch)
        ended, seconds = await self._undo(launch), self._hands.clock() - began
        return Outcome(ended, seconds, failure.text, launch, failure.kind, afresh=woken or failure.afresh)

    async def _command(self, spec: LaunchSpec, port: int) -> Command:
        """Return what is started. Raises LoadError."""
        saves = await anyio.to_thread.run_sync(self._hands.states.folder, spec)
        try:
            return devices.on_device(careful.get(spec.engine).command(spec, port, saves), spec)
        except EngineError as error:
            raise LoadError(str(error), FailureKind.BAD_ARGUMENT) from error

    async def _start(self, action: Load, spec: LaunchSpec) -> Launch:
        port = await anyio.to_thread.run_sync(self.ports.allocate, self._hands.launches.ports, spec.port)
        if spec.port is not None and port != spec.port:
            raise LoadError(f"port {spec.port} is in use by another program", FailureKind.PORT_TAKEN)
        command = await self._command(spec, port)
        launch_id, created = uuid.uuid4().hex, time.time()
        told = Origin(action.model, action.digest, port, created, action.size)
        # Written before the process exists: should we die in between, its mark is known. Where nothing can be written
        # it is started all the same; the next run then makes the record from what the process tells.
        await self._hands.keeper.keep(self._hands.store.put_launch(first_record(launch_id, told)))
        found = await self._hands.observer.before(spec)
        # Shielded: a process that has been started must be on a page before anything else can happen to us.
        with anyio.CancelScope(shield=True):
            try:
                process = await self._hands.host.start(
                    command, model=action.model, launch_id=launch_id, port=port, origin=told
                )
            except HostError:
                await self._hands.keeper.keep(self._hands.store.drop_launch(launch_id))
                raise
            launch = Launch(launch_id, action.model, action.digest, spec, process, port, self._hands.clock())
            launch.admitted, launch.created = action.size, created
            self._hands.observer.begin(launch, found, self._hands.clock())
            self._hands.launches.add(launch)
            self._started(launch)
            await self._hands.record(launch)
        self._hands.changed()
        return launch

    def _asleep(self, action: Load) -> Launch:
        """Return the process that sleeps for a model. Raises LoadError."""
        launch = self._hands.launches.find(action.pid or 0, action.started or 0)
        if launch is None or not launch.asleep:
            raise LoadError("its process does not sleep any more")
        return launch

    async def _wake(self, launch: Launch, action: Load, spec: LaunchSpec) -> None:
        """Have a process that sleeps take its memory again. Raises LoadError."""
        launch.admitted = action.size
        try:
            await self._sleeping.wake(launch, spec)
        except EngineError as error:
            text = f"it could not be woken: {excerpt(str(error), secrets_of(spec))}"
            with anyio.move_on_after(ENDED_SECONDS):
                await launch.exited.wait()
            raise LoadError.of(await explained(self._hands, launch, spec, text)) from error
        self._hands.changed()

    async def _watched(
        self, launch: Launch, spec: LaunchSpec, note: Callable[[str], None], patience: Patience
    ) -> None:
        """Do as `until_ready` while `patience` looks for signs of life. Raises LoadError."""
        failure: LoadError | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(patience.watch, launch, self._hands.host.logs.path(launch.model))
            try:
                await until_ready(self._hands, self.http, launch, spec, note)
                if lie := await self._sleeping.lied(launch, spec):
                    failure = LoadError(lie)
            except LoadError as error:
                failure = error
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _given_up(self, launch: Launch | None, spec: LaunchSpec, why: str) -> Failure:
        """Return why the time for a load was over, with what the log says of that."""
        kind = FailureKind.LOAD_TIMEOUT
        return Failure(why, kind) if launch is None else await explained(self._hands, launch, spec, why, kind)

    async def _admit(self, launch: Launch, spec: LaunchSpec) -> Failure | None:
        """Open a model that answers: first to those who wait, then to the account. Return why it cannot be, or None.

        Shielded: once requests are let in, giving up the load is too late; the plan evicts it in the ordinary way.
        """
        with anyio.CancelScope(shield=True):
            launch.loaded_at = self._hands.clock()
            try:
                await self._restore(launch, spec)
            except LoadError as error:
                return replace(error.failure, afresh=True)
            launch.loaded_at = self._hands.clock()  # to restore its state took a while
            if not await self.serve(launch, spec):
                return await explained(self._hands, launch, spec, BEFORE_READY)
            await self._hands.record(launch)
            await anyio.to_thread.run_sync(self._hands.host.serving, launch.process, launch.id, spec.limits)
            await self._hands.observer.measure(launch, self._hands.clock())
            launch.said = await anyio.to_thread.run_sync(self._heard, launch, spec) or launch.said
            if launch.committed_at_ready is None:  # one that was woken may have grown before it slept
                launch.committed_at_ready = launch.committed
                await self._hands.observer.ready(launch, spec)
                await self._hands.record(launch)
        return None

    async def _restore(self, launch: Launch, spec: LaunchSpec) -> None:
        """Restore its state. Raises LoadError if the process did not survive that, or answers nobody any more.

        The state is dropped then, and a new process starts cold. After a good restore nothing is asked: the answer to
        a probe would take the place of what has just been restored.
        """
        cold = await self._hands.states.restore(launch)
        if not cold and launch.exit is None:
            return
        with anyio.move_on_after(ANSWER_SECONDS):
            await until_ready(self._hands, self.http, launch, spec, lambda _: None, WHILE_RESTORED)
            return
        why = f"it has not answered within {ANSWER_SECONDS:g} s after its state was not restored ({cold})"
        raise LoadError.of(await explained(self._hands, launch, spec, why))

    def _heard(self, launch: Launch, spec: LaunchSpec) -> Said | None:
        """Return what the log says the model took. Blocks."""
        return careful.get(spec.engine).said("\n".join(self._hands.host.logs.tail(launch.model, SAID_LINES)))

    async def serve(self, launch: Launch, spec: LaunchSpec, used: float | None = None) -> bool:
        """Send requests for a model to this launch from now on, first those that wait; False = its process has ended.

        `used` is when it was used last, for one of an earlier run.
        Between that look and the opening nothing is awaited: nobody is sent to a process that is known to be gone.
        """
        engine = careful.get(spec.engine)
        key = launch.key = await anyio.to_thread.run_sync(engine.api_key, spec)
        authorization = None if key is None else api_key.bearer(key)
        name = engine.upstream_model(spec)
        endpoint = Endpoint(
            launch.model, launch.base_url, name, authorization, launch.exited, launch.is_ending
        )
        if launch.exit is not None:
            return False
        launch.ready = True
        self._hands.launches.serve(launch)
        self._hands.book.open(endpoint, self._hands.clock(), used)
        return True

    async def _undo(self, launch: Launch | None) -> Event:
        """End what a failed load has started. Shielded: a process half ended would be nobody's any more."""
        if launch is None:
            return Failed(None)
        event: Event = Failed(None)
        with anyio.CancelScope(shield=True):
            event = await self._hands.end(launch, SHORT_GRACE, failed=True)
        return event  # noqa: RET504 - a scope may swallow a cancellation, so mypy wants it here


def _not_now(why: str) -> LoadError:
    """Return the failure of a load for which the system has no file, or no thread, to spare."""
    return LoadError(f"it could not be loaded: {why}", FailureKind.CRASHED)


def _kind(error: HostError) -> FailureKind:
    """Return what kind of failure it is that a process could not even be started."""
    if isinstance(error, PortsExhausted):
        return FailureKind.PORT_TAKEN
    if isinstance(error, StartError):
        return FailureKind.CRASHED if error.passing else FailureKind.PROGRAM_MISSING
    return FailureKind.CRASHED
