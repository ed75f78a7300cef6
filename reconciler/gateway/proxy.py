"""A request of the data API, stage by stage: read it, find its model, see that it fits, wait, pass the answer on."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import httpx
import structlog
from starlette.types import Receive, Scope, Send

from reconciler.board import Snapshot
from reconciler.engines import registry
from reconciler.gateway.access.guard import started
from reconciler.gateway.asking import Asking
from reconciler.gateway.body.bodies import LARGE, Body
from reconciler.gateway.call import Call, read_call
from reconciler.gateway.context import Budget, Counter, Wish, budget_of, count_answer, early, fit
from reconciler.gateway.error_form import form_of
from reconciler.gateway.errors import ApiError, send_json
from reconciler.gateway.messages import CHAT_TARGET, MessagesTransform, to_chat, upstream_headers
from reconciler.gateway.naming import resolve
from reconciler.gateway.protocol.cycle import CYCLE
from reconciler.gateway.reply import Reply, Transform
from reconciler.gateway.routing.choose import choose, facts_of, states_of
from reconciler.gateway.shared import Shared
from reconciler.gateway.surface import COUNT_TOKENS, Path, spelling_for
from reconciler.gateway.task import Task
from reconciler.gateway.upstream.pool import Headers, Outgoing, UnreachableError, build_request
from reconciler.gateway.upstream.transport import PoolTransport
from reconciler.gateway.wait import Comments, asked_comments, ticket_text
from reconciler.gateway.withheld import check_fields
from reconciler.leases import Endpoint, Lease, LeaseRefused, Ticket

#: How the names of our headers begin.
OURS: Final = "x-reconciler-"

log = structlog.get_logger(__name__)


class DataTask(Task):
    """One request of the data API."""

    #: The request, until it is sent: a large body is not kept longer.
    call: Call | None = None
    #: Whether the client wants to be told what it waits for; None = as the manifest says.
    asked_comments: bool | None = None
    #: What the model's engine answers; None = nobody can tell.
    served: frozenset[str] | None = None
    #: The request for the engine, and what its answer goes through, from when it is made.
    ready: tuple[Outgoing, Transform | None] | None = None
    comments: Comments | None = None
    #: What they say; and headers that came too late for the head of an answer begun with them.
    says: Callable[[], str] | None = None
    late: Headers | None = None

    def __init__(self, shared: Shared, scope: Scope, receive: Receive, send: Send, path: Path) -> None:
        super().__init__(shared, scope, Reply(send, form_of(path), cycle=scope[CYCLE]))
        self.receive = receive
        self.send = send
        self.path = path
        self.body = Body()

    async def work(self) -> None:
        """Do it, stage by stage."""
        snapshot = started(self.board.snapshot)
        shared = self.shared
        limit = shared.max_body(snapshot)
        call = await read_call(self.scope, self.receive, self.path, limit, shared.room, self._keep)
        self.watch()
        self.asked_comments = asked_comments(call.headers)
        call = self._route(snapshot, call)
        self.served = shared.served.check(snapshot.applied, self.model, self.path, call.model)
        check_fields(snapshot.applied, self.model, call)
        if self.translated and self.path.name != COUNT_TOKENS:
            # What cannot be said in the other form is refused before anything is loaded. Made again when it is sent:
            # the prompt may be shortened meanwhile, and images are not held twice while it waits.
            to_chat(call.document)
        budget = budget_of(snapshot, self.model)
        fits = early(call, budget)
        self.call = call
        del call
        if self.path.name == COUNT_TOKENS:
            await self._count()
        else:
            await self._answer(snapshot, None if fits else budget)

    def _route(self, snapshot: Snapshot, call: Call) -> Call:
        """Find the model; behind a virtual name, the one that its rules choose, which is then asked by its own name."""
        virtual = snapshot.applied.virtual.get(call.model)
        if virtual is None:
            self.asks(snapshot, resolve(snapshot, call.model))
            return call
        choice = choose(virtual, facts_of(call), states_of(snapshot, self.book.demands()))
        log.info("routed", route=choice.why)
        self.asks(snapshot, choice.model)
        self.extra.append(choice.header)
        return call.for_model(choice.model)

    @property
    def translated(self) -> bool:
        """Whether the engine is asked in another form than the client asks us."""
        return self.path.anthropic and (self.served is None or self.path.name not in self.served)

    async def _answer(self, snapshot: Snapshot, budget: Budget | None) -> None:
        """Wait for the model and have it answer; where a summary is wished for, have that made in between."""
        failed: str | None = None
        try:
            while (wish := await self._serve(budget, failed)) is not None:
                failed = await self._summarize(snapshot, wish)
        except (ApiError, LeaseRefused):
            await self._end_comments()
            raise

    async def _serve(self, budget: Budget | None, failed: str | None) -> Wish | None:
        """Have the model answer; None = it did, else what it needs before that."""
        while True:
            async with self.lease() as lease:
                try:
                    self.holds(lease)
                    if budget is not None and self.ready is None:
                        wish = await self._fit(lease, budget, failed)
                        if wish is not None:
                            return wish
                    await self._end_comments()
                    self.ready = self.ready or self._outgoing(lease)
                    await self.exchange(lease, *self.ready)
                except UnreachableError as error:
                    missed = lease.endpoint, str(error)
                else:
                    return None
            await self.missed(*missed)

    async def _summarize(self, snapshot: Snapshot, wish: Wish) -> str:
        """Have a summary made; no lease is held. Returns why there is none, or ""."""
        summaries, asking = self.shared.summaries, Asking(self.shared, wish.summarizer, self.priority)
        shown = budget_of(snapshot, wish.summarizer)
        # Another request may have it made, and then that one knows.
        self._tell(lambda: summaries.says(wish) or asking.text())
        with self.book.away(self.model, wish.summarizer):
            return await summaries.make(wish, asking, shown.tokens if shown else None, asking.text)

    async def _fit(self, lease: Lease, budget: Budget, failed: str | None) -> Wish | None:
        assert self.call is not None, "a request is sent once"
        self.says = _counting
        count = self._counter(lease.endpoint)
        fitted = await fit(self.call, budget, count, summaries=self.shared.summaries, failed=failed)
        if fitted.wish is None:
            self.call = fitted.call
            if self.comments is None:
                self.extra += fitted.headers
            else:
                self.late = fitted.headers
        return fitted.wish

    async def _count(self) -> None:
        """Answer how many tokens a prompt has. Nothing is loaded for that: who is not there cannot count."""
        assert self.call is not None, "a request is sent once"
        try:
            async with self.lease(quiet=True) as lease:
                self.holds(lease)
                if not self.translated:
                    await self.exchange(lease, *self._outgoing(lease))
                    return
                said, headers = await count_answer(self.call, self._counter(lease.endpoint))
        except LeaseRefused as refused:
            if refused.refusal.code != "not_loaded":
                raise
            said, headers = await count_answer(self.call, None)
        self.reply.started = self.reply.finished = True
        await send_json(self.send, 200, said, [*self.extra, *headers])

    def _counter(self, endpoint: Endpoint) -> Counter:
        """Return what asks the engine's own tokenizer."""
        launch = started(self.board.snapshot).applied.launches.get(self.model)

        async def count(path: str, document: Mapping[str, Any]) -> int | None:
            if launch is None:
                return None
            engine = registry.get(launch.engine)
            transport = PoolTransport(self.pool, endpoint, self.cut)
            async with httpx.AsyncClient(transport=transport, trust_env=False) as client:
                return await engine.count_tokens(launch, endpoint.base_url, path, document, client)

        return count

    def _outgoing(self, lease: Lease) -> tuple[Outgoing, Transform | None]:
        """Return the request for the engine, and what its answer goes through."""
        call, self.call = self.call, None
        assert call is not None, "a request is sent once"
        through: Transform | None = None
        target, headers = self._target(call), call.headers
        if self.translated:
            through = MessagesTransform(call.model, stream=call.stream)
            target, headers = CHAT_TARGET, upstream_headers(headers)
            call = call.with_document(to_chat(call.document))
        name = lease.endpoint.upstream_model
        if name is not None:
            call = call.for_model(name)
        size = len(call.body)
        self.body.data = call.body
        payload = self.body.data if size < LARGE else self.body.pieces()
        return build_request(target, headers, payload, length=size), through

    def _target(self, call: Call) -> bytes:
        """Return path and query for the engine, byte for byte unless it knows another spelling only."""
        if not self.path.also:
            return call.target
        came: str = self.scope["path"]
        wanted = spelling_for(self.served, self.path, came)
        return call.target if wanted == came else wanted.encode() + call.target[len(came) :]

    # --- the client ---

    def waits(self, ticket: Ticket) -> None:
        """Note that there is no lease yet, and tell a stream what for, where that is wanted."""
        super().waits(ticket)
        board, clock = self.board, self.shared.clock
        self._tell(lambda: ticket_text(board, ticket, clock()))

    def _tell(self, says: Callable[[], str]) -> None:
        """From now on `says` is what a stream waits for: begin to tell it, where that is wanted."""
        self.says = says
        snapshot, call = self.board.snapshot, self.call
        if call is None or snapshot is None or self.comments is not None:
            return
        if not (call.stream and self.path.streams):
            return
        asked = self.asked_comments
        if snapshot.applied.gateway.comments if asked is None else asked:
            self.comments = Comments(self.reply, lambda: self.says() if self.says is not None else "")
            self.comments.begin(list(self.extra))

    async def _end_comments(self) -> None:
        comments, self.comments, self.says = self.comments, None, None
        if comments is None:
            return
        await comments.end()
        for name, value in self.late or ():
            await self.reply.comment(f"{name.decode().removeprefix(OURS)}: {value.decode('latin-1')}")

    def release(self) -> None:
        """Give back what the request took, however it ended."""
        self.body.release()
        comments, self.comments, self.says = self.comments, None, None
        if comments is not None:
            comments.cancel()

    def _keep(self, body: Body) -> None:
        self.body = body


def _counting() -> str:
    return "counting the tokens of the prompt"
