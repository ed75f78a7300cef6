"""A request of our own to a model of the manifest: the summary of a conversation. Under a lease like any other."""

import json
from collections.abc import Callable
from typing import Any, Final

import anyio

from reconciler.awake import move_on_after
from reconciler.excerpt import excerpt
from reconciler.gateway.errors import ApiError
from reconciler.gateway.shared import Shared
from reconciler.gateway.surface import CHAT
from reconciler.gateway.upstream.pool import Headers, Incoming, UpstreamError, build_request
from reconciler.gateway.usage import Edges
from reconciler.gateway.wait import ticket_text
from reconciler.leases import Lease, Ticket
from reconciler.manifest.applied import RequestLimits

#: Bytes of an answer at most.
MAX_ANSWER_BYTES: Final = 4 * 1024 * 1024
#: Bytes of an error that are looked at.
EXCERPT_BYTES: Final = 1024
OWNER: Final = "reconcile (summary)"
_HEADERS: Final[Headers] = [(b"content-type", b"application/json"), (b"accept", b"application/json")]


class Asking:
    """How one request of our own is asked, and how far it is."""

    def __init__(self, shared: Shared, model: str, priority: int) -> None:
        self._shared = shared
        self._model = model
        self._priority = priority
        self._ticket: Ticket | None = None

    async def __call__(self, model: str, document: dict[str, Any]) -> str:
        """Ask it. Raises what `ask` does."""
        return await ask(self._shared, model, document, self._priority, self._waits)

    def text(self) -> str:
        """Return what it waits for, or that it is answered, in words."""
        ticket = self._ticket
        if ticket is None or ticket.settled.is_set():
            return f"{self._model} is summarizing the earlier turns"
        what = ticket_text(self._shared.board, ticket, self._shared.clock())
        return f"{what}; {self._model} is to summarize the earlier turns"

    def _waits(self, ticket: Ticket) -> None:
        self._ticket = ticket


async def ask(
    shared: Shared,
    model: str,
    document: dict[str, Any],
    priority: int,
    seen: Callable[[Ticket], None] | None = None,
) -> str:
    """Send a chat request to a model, loading it if need be, and return the text of its answer.

    `seen` gets its ticket if it has to wait. The model's own limits of time hold. Nobody who awaits this may hold a
    lease. Raises `LeaseRefused`, and `ApiError` when there is no answer.
    """
    snapshot = shared.board.snapshot
    limits = snapshot.applied.limits.get(model, RequestLimits()) if snapshot else RequestLimits()
    answer: bytes | None = None
    with anyio.CancelScope() as scope:
        async with shared.book.lease(model, priority=priority, owner=OWNER, seen=seen) as lease:
            lease.cut.on_set(scope.cancel)
            body = json.dumps(document | {"model": lease.endpoint.upstream_model or model}).encode()
            with move_on_after(limits.request) as time:
                answer = await _exchange(shared, lease, body, limits, scope.cancel)
            if time.cancelled_caught:
                raise ApiError("upstream_timeout", f"it did not finish within {limits.request:g} s")
    if answer is None:
        raise ApiError("model_stopped", f"model {model!r} was stopped meanwhile")
    return _text_of(model, answer)


async def _exchange(
    shared: Shared, lease: Lease, body: bytes, limits: RequestLimits, abort: Callable[[], None]
) -> bytes:
    outgoing = build_request(CHAT.encode(), _HEADERS, body)
    try:
        async with shared.pool.exchange(
            lease.endpoint, outgoing, first_byte=limits.first_byte, chunk=limits.chunk, abort=abort
        ) as incoming:
            answer = await _collect(incoming)
            edges = Edges()
            edges.add(answer)
            lease.tokens = edges.tokens()
            return answer
    except UpstreamError as error:
        shared.book.suspect()
        raise ApiError("upstream_error", f"the server of model {lease.model!r} failed: {error}") from None


async def _collect(incoming: Incoming) -> bytes:
    answer = await incoming.whole(MAX_ANSWER_BYTES)
    if answer is None:
        raise ApiError("upstream_error", f"the answer has more than {MAX_ANSWER_BYTES} bytes")
    if incoming.status != 200:
        said = excerpt(answer[:EXCERPT_BYTES].decode("utf-8", "replace"))
        raise ApiError("upstream_error", f"the answer is {incoming.status}: {said}")
    return answer


def _text_of(model: str, answer: bytes) -> str:
    try:
        text = json.loads(answer)["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError):
        text = None
    if not isinstance(text, str):
        raise ApiError("upstream_error", f"the server of model {model!r} answered with no chat completion")
    return text
