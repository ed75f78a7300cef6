"""From client to engine and back, under a lease from the queue to the last byte. A plain ASGI application."""

import enum
from collections.abc import Callable
from dataclasses import replace

import anyio
from starlette.types import Receive, Scope, Send

from reconciler.board import Board
from reconciler.gateway.call import ClientGoneError, read_call, with_model
from reconciler.gateway.errors import ApiError
from reconciler.gateway.guard import started
from reconciler.gateway.lastline import last_line
from reconciler.gateway.naming import header_form, resolve
from reconciler.gateway.reply import Reply
from reconciler.gateway.upstream import Headers, UpstreamError, UpstreamPool, build_request
from reconciler.leases import Lease, LeaseBook, LeaseRefused, Refusal
from reconciler.manifest.applied import RequestLimits


class Ending(enum.Enum):
    """Why a request is ended from outside."""

    GONE = "the client left"
    CUT = "the lease was cut"
    LATE = "its time is over"


class Stop:
    """Ends the work on one request; the first reason counts."""

    def __init__(self) -> None:
        self.scope = anyio.CancelScope()
        self.reason: Ending | None = None

    def __call__(self, reason: Ending) -> None:
        self.reason = self.reason or reason
        self.scope.cancel()

    @property
    def ended(self) -> Ending | None:
        """What ended the work; None = it came to its own end."""
        return (self.reason or Ending.LATE) if self.scope.cancelled_caught else None


class Proxy:
    """The endpoint of every path that an engine answers."""

    def __init__(self, book: LeaseBook, board: Board, pool: UpstreamPool, max_body: int) -> None:
        self.book = book
        self.board = board
        self.pool = pool
        self.max_body = max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; the client's leaving ends it and nothing else."""
        reply = Reply(send)
        try:
            snapshot = started(self.board.snapshot)
            name, body = await read_call(scope, receive, self.max_body)
            model = resolve(snapshot, name)
        except ClientGoneError:
            return
        except ApiError as error:
            await reply.fail(error, [])
            return
        limits = snapshot.applied.limits.get(model, RequestLimits())
        task = _Task(self, scope, body, model, limits, reply)
        async with anyio.create_task_group() as group:
            group.start_soon(task.watch, receive)
            await task.run()
            group.cancel_scope.cancel()

    def log_path(self, model: str) -> str | None:
        """Return the log file of a model's process, if the loop named one."""
        return self.board.snapshot.log_paths.get(model) if self.board.snapshot else None


class _Task:
    """One request on its way."""

    def __init__(
        self, proxy: Proxy, scope: Scope, body: bytes, model: str, limits: RequestLimits, reply: Reply
    ) -> None:
        self.proxy = proxy
        self.scope = scope
        self.body = body
        self.model = model
        self.limits = limits
        self.reply = reply
        self.stop = Stop()
        self.extra: Headers = [(b"x-reconciler-model", header_form(model))]

    async def watch(self, receive: Receive) -> None:
        """Stop the work when the client leaves. (The server reports that too once the answer is complete.)"""
        while (await receive())["type"] != "http.disconnect":
            pass
        if not self.reply.finished:
            self.stop(Ending.GONE)

    async def run(self) -> None:
        """Serve the request; whatever goes wrong becomes an answer."""
        error: ApiError | None = None
        broken: UpstreamError | None = None
        with self.stop.scope:
            try:
                async with self.proxy.book.lease(self.model) as lease:
                    await self._exchange(lease)
            except LeaseRefused as refused:
                error = ApiError.refused(self._with_reason(refused.refusal))
            except ApiError as failed:
                error = failed
            except UpstreamError as failed:
                broken = failed
        if self.stop.ended is not None:
            error, broken = self._ended(self.stop.ended), None
        if broken is not None:
            self.proxy.book.suspect()
            error = await self._broken(broken)
        if error is not None:
            await self.reply.fail(error, self.extra)

    def _with_reason(self, refusal: Refusal) -> Refusal:
        """Add to "waited too long" what the last plan says of the model: nobody waits without a reason."""
        snapshot = self.proxy.board.snapshot
        verdict = snapshot.plan.verdict(self.model) if snapshot is not None else None
        if refusal.code != "queue_timeout" or verdict is None:
            return refusal
        reason = f"{verdict.reason.value}: {verdict.detail}" if verdict.detail else verdict.reason.value
        return replace(refusal, message=f"{refusal.message} ({reason})")

    async def _exchange(self, lease: Lease) -> None:
        cut: Callable[[], None] = lambda: self.stop(Ending.CUT)  # noqa: E731
        lease.cut.on_set(cut)
        if lease.waited > 0:
            self.extra.append((b"x-reconciler-waited", f"{lease.waited:.3f}".encode()))
        if self.limits.request is not None:
            self.stop.scope.deadline = anyio.current_time() + self.limits.request
        wanted = lease.endpoint.upstream_model
        body = self.body if wanted is None else with_model(self.body, wanted)
        self.body = b""
        path = self.scope["raw_path"]
        if self.scope["query_string"]:
            path += b"?" + self.scope["query_string"]
        request = build_request(lease.endpoint, path, self.scope["headers"], body)
        first_byte = self.limits.first_byte
        async with self.proxy.pool.exchange(
            lease.endpoint, request, first_byte=first_byte, chunk=self.limits.chunk, abort=cut
        ) as response:
            await self.reply.relay(response, self.extra)

    def _ended(self, ending: Ending) -> ApiError | None:
        if ending is Ending.GONE:
            return None
        if ending is Ending.CUT:
            return ApiError("model_stopped", f"model {self.model!r} was stopped meanwhile", retry_after=1)
        text = f"model {self.model!r} did not finish within {self.limits.request or 0:g} s"
        return ApiError("upstream_timeout", text)

    async def _broken(self, error: UpstreamError) -> ApiError:
        path = self.proxy.log_path(self.model)
        line = await anyio.to_thread.run_sync(last_line, path) if path else None
        text = f"the server of model {self.model!r} failed: {str(error) or type(error).__name__}"
        return ApiError("upstream_error", f"{text}; its log ends with: {line}" if line else text)
