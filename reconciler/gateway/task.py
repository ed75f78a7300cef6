"""One request on its way: what may end it from outside, and how whatever went wrong becomes an answer."""

import asyncio
import enum
from collections.abc import Coroutine
from dataclasses import replace
from typing import Final

import anyio
from starlette.types import Scope

from reconciler.awake import Timer, awake
from reconciler.board import Snapshot
from reconciler.gateway.access.guard import KEY
from reconciler.gateway.body.bodies import ClientGoneError
from reconciler.gateway.errors import ApiError
from reconciler.gateway.interrupt import Interrupt
from reconciler.gateway.lastline import last_line
from reconciler.gateway.naming import header_form
from reconciler.gateway.protocol.cycle import CYCLE, Cycle
from reconciler.gateway.reply import Reply, Transform
from reconciler.gateway.shared import Shared
from reconciler.gateway.upstream.exchange import Exchange
from reconciler.gateway.upstream.pool import Headers, Outgoing, UnreachableError, UpstreamError
from reconciler.gateway.wait import priority_of
from reconciler.gateway.waiting import load_hint, retry_after, state_text
from reconciler.leases import Endpoint, Entry, Lease, LeaseRefused, Refusal, Ticket
from reconciler.manifest.applied import ApiKey, RequestLimits

#: Refusals of the lease book whose `Retry-After` is worked out from what loads take.
TIMED: Final = frozenset({"queue_full", "queue_timeout"})
#: Seconds after which a request whose model was stopped may come again: it will wait in the queue.
AGAIN_SECONDS: Final = 1.0
#: Seconds between two looks whether an engine that is not there was found to be gone, and how many looks.
MISSED_SECONDS: Final = 0.05
MISSED_LOOKS: Final = 20
#: The status of an answer that says what it took.
OK: Final = 200
#: From this status on an engine says that it is at fault itself.
BROKEN: Final = 500
#: The code of an engine that takes longer than it may.
TIMEOUT: Final = "upstream_timeout"
WAITED_HEADER: Final = b"x-reconciler-waited"
WAITED_FOR_HEADER: Final = b"x-reconciler-waited-for"
_LIMITS: Final = RequestLimits()


class Ending(enum.Enum):
    """Why a request is ended from outside."""

    GONE = "the client left"
    CUT = "the lease was cut"
    LATE = "its time is over"


class Stop(Interrupt):
    """Ends the work on one request; the first reason counts."""

    __slots__ = ("_timer", "reason")

    def __init__(self) -> None:
        super().__init__()
        self.reason: Ending | None = None
        self._timer: Timer | None = None

    def __call__(self, reason: Ending) -> None:
        self.reason = self.reason or reason
        self.end()

    def within(self, seconds: float) -> None:
        """End the work when so many seconds are over, and at no other time."""
        self.over()
        self._timer = awake().call_later(seconds, self, Ending.LATE)

    def over(self) -> None:
        """Note that there is nothing left to end."""
        if self._timer is not None:
            self._timer.cancel()

    @property
    def ended(self) -> Ending | None:
        """What ended the work; None = it came to its own end."""
        return self.reason if self.caught else None


class Task:
    """One request to one model; a subclass says in `work` what is done for it."""

    #: The model that was asked, once that is known.
    model = ""
    limits = _LIMITS
    #: Seconds it waited for leases.
    waited = 0.0
    _watching: asyncio.Task[None] | None = None
    _exchange: Exchange | None = None
    #: The lease it holds, or held last: it tells why it was cut, and whether the process has ended that it led to.
    _lease: Lease | None = None
    #: When the request is not tried any more at engines that are not there, in time awake.
    _give_up: float | None = None

    def __init__(self, shared: Shared, scope: Scope, reply: Reply) -> None:
        self.shared = shared
        self.book = shared.book
        self.board = shared.board
        self.pool = shared.pool
        self.scope = scope
        self.reply = reply
        self.key: ApiKey | None = scope.get(KEY)
        self.stop = Stop()
        #: Headers for its answer.
        self.extra: Headers = []

    async def work(self) -> None:
        """Do all that the request asks for."""
        raise NotImplementedError

    def asks(self, snapshot: Snapshot, model: str) -> None:
        """Note which model the request is for."""
        self.model = model
        self.limits = snapshot.applied.limits.get(model, _LIMITS)
        self.extra.append((b"x-reconciler-model", header_form(model)))

    @property
    def priority(self) -> int:
        """How urgent the request is, and whatever else is asked of a model for its sake."""
        return priority_of(self.scope["headers"], self.key, self.limits.priority)

    def lease(self, *, quiet: bool = False) -> Entry:
        """Return the block that holds a lease, with the urgency of this request."""
        return self.book.lease(
            self.model,
            priority=self.priority,
            owner=self.key.name if self.key is not None else "",
            quiet=quiet,
            seen=self.waits,
        )

    def waits(self, ticket: Ticket) -> None:
        """Note that there is no lease yet. What a request waits for again, after a summary, is not told once more."""
        if not any(name == WAITED_FOR_HEADER for name, _ in self.extra):
            place = f"{ticket.waits_for}, place {ticket.place}"
            self.extra.append((WAITED_FOR_HEADER, place.encode("ascii", "replace")))

    def watch(self) -> None:
        """End the work when the client leaves, from now on."""
        cycle: Cycle = self.scope[CYCLE]
        cycle.on_leave(self.gone)

    def begin_watching(self, work: Coroutine[None, None, None]) -> None:
        """Run what sees the client leave, until the request is done."""
        self._watching = asyncio.get_running_loop().create_task(work)

    def gone(self) -> None:
        """End the work because the client left. (The server reports that too once the answer is complete.)"""
        if not self.reply.finished:
            self.stop(Ending.GONE)

    def holds(self, lease: Lease) -> None:
        """Note that the lease is there: its cut ends the work from now on.

        Raises `UnreachableError` if it has been cut already: the model went while its holder waited for its turn.
        """
        self.waited += lease.waited
        if lease.cut.is_set():
            raise UnreachableError(f"model {self.model!r} was stopped")
        self._lease = lease
        lease.cut.on_set(self.cut)

    async def exchange(self, lease: Lease, outgoing: Outgoing, through: Transform | None = None) -> None:
        """Send the request to the engine and pass its answer on, within the time for all of it."""
        if self.waited > 0:
            self.extra = [header for header in self.extra if header[0] != WAITED_HEADER]
            self.extra.append((WAITED_HEADER, f"{self.waited:.3f}".encode()))
        limits = self.limits
        if limits.request is not None:
            self.stop.within(limits.request)
        self._exchange = exchange = self.pool.exchange(
            lease.endpoint, outgoing, first_byte=limits.first_byte, chunk=limits.chunk, abort=self.cut
        )
        lease.failed, lease.flow = True, exchange
        try:
            async with exchange as incoming:
                if incoming.status < BROKEN:
                    lease.failed = False
                else:
                    lease.fault = f"it answered {incoming.status}"
                await self.reply.relay(incoming, self.extra, through)
                if through is not None:
                    lease.tokens = through.tokens
                elif incoming.status == OK:
                    lease.tokens = self.reply.tokens()
        except UpstreamError as error:
            lease.failed, lease.fault = True, str(error) or type(error).__name__
            raise
        except ApiError as error:  # anything but a limit of time is a fault of the client's
            if error.code == TIMEOUT:
                lease.failed, lease.fault = True, error.message
            raise
        finally:
            self._exchange = None

    async def missed(self, endpoint: Endpoint | None, why: str) -> None:
        """Return when it is worth while to ask for a lease again: nothing was sent to the engine that it led to.

        That is when the loop has closed the endpoint or opened another, or after a while. Raises `UnreachableError`,
        with `why`, when the time of a request in the queue is over.
        """
        self.stop.over()
        now = awake().time()
        self._give_up = self._give_up or now + self.limits.queue.timeout
        if now >= self._give_up:
            raise UnreachableError(why)
        self.book.suspect()
        for _ in range(MISSED_LOOKS):
            if endpoint is None or self.book.endpoint(self.model) is not endpoint:
                return
            await anyio.sleep(MISSED_SECONDS)

    def cut(self) -> None:
        """End the work because the model goes; a request of which nothing was sent yet may have another."""
        exchange = self._exchange
        if exchange is not None and not exchange.sent:
            exchange.miss()
        else:
            self.stop(Ending.CUT)

    async def run(self) -> None:
        """Serve the request; whatever goes wrong becomes an answer."""
        failure: Exception | None = None
        try:
            with self.stop:
                try:
                    await self.work()
                except Exception as failed:
                    failure = failed
        finally:
            self.stop.over()
            # Not kept: its traceback holds this object, and only the collector would take such a ring apart.
            watching, self._watching = self._watching, None
            if watching is not None:
                watching.cancel()
        try:
            fault = await self._failed(failure)
            if failure is not None:
                if fault:
                    raise failure  # the server logs it
                # It holds the frames through which it came, and with them the body; and they hold it: more rings.
                failure.__traceback__ = None
        finally:
            failure = None

    async def _failed(self, failure: Exception | None) -> bool:
        """Answer with what went wrong, if anything did; tell whether that is a fault of the gateway itself."""
        ended = self.stop.ended
        error = await self._error_of(failure) if ended is None else await self._ended(ended)
        # It knows how to cut this request: another such ring.
        self._lease = None
        if error is None:
            return False
        self.board.counts.error(self.model, error.code)
        await self.reply.fail(error, self.extra)
        return error.code == "internal_error"

    async def _error_of(self, failure: Exception | None) -> ApiError | None:
        """Return what the client is told of a failure; None = nothing, or nobody is there to be told."""
        if failure is None or isinstance(failure, ClientGoneError):
            return None
        if isinstance(failure, LeaseRefused):
            return ApiError.refused(self._explained(failure.refusal))
        if isinstance(failure, ApiError):
            return failure
        if isinstance(failure, UpstreamError):
            self.book.suspect()
            return await self._broken(failure)
        return ApiError("internal_error", "the gateway failed; its log says how")

    def _explained(self, refusal: Refusal) -> Refusal:
        """Add what becomes of the model, and when it is worth while to try again."""
        if refusal.code == "not_loaded":
            return replace(refusal, message=f"{refusal.message}; {load_hint(self.model)}")
        if refusal.code not in TIMED:
            return refusal
        snapshot, now = self.board.snapshot, self.shared.clock()
        text = state_text(snapshot, self.model, now)
        message = f"{refusal.message} ({text})" if text else refusal.message
        return replace(refusal, message=message, retry_after=retry_after(snapshot, self.model, now))

    async def _ended(self, ending: Ending) -> ApiError | None:
        if ending is Ending.GONE:
            return None
        if ending is Ending.LATE:
            text = f"model {self.model!r} did not finish within {self.limits.request or 0:g} s"
            return ApiError(TIMEOUT, text)
        lease = self._lease
        if lease is not None and lease.endpoint.exited is not None and lease.endpoint.exited.is_set():
            # Seen sooner than the end of the connection, which a child of the process may hold open besides.
            return await self._broken(UpstreamError("its process ended"))
        if lease is not None and lease.cut.why:
            text = f"model {self.model!r} hangs: {lease.cut.why}"
            return ApiError("model_hung", text, retry_after=AGAIN_SECONDS)
        text = f"model {self.model!r} was stopped meanwhile"
        return ApiError("model_stopped", text, retry_after=AGAIN_SECONDS)

    async def _broken(self, error: UpstreamError) -> ApiError:
        snapshot = self.board.snapshot
        path = snapshot.log_paths.get(self.model) if snapshot else None
        spec = snapshot.applied.launches.get(self.model) if snapshot else None
        line = await anyio.to_thread.run_sync(last_line, path, spec) if path else None
        text = f"the server of model {self.model!r} failed: {str(error) or type(error).__name__}"
        return ApiError("upstream_error", f"{text}; its log ends with: {line}" if line else text)
