"""The answer to one client: an engine's bytes as they come, or an error, also in the middle of a stream."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import anyio
import structlog
from starlette.types import Message, Send

from reconciler.gateway.errors import ApiError, send_json
from reconciler.gateway.protocol.cycle import FOLLOWS, Cycle
from reconciler.gateway.stall import Stall
from reconciler.gateway.upstream.headers import Headers, answer_headers, first
from reconciler.gateway.upstream.pool import Incoming
from reconciler.gateway.usage import Edges, Tokens

EVENT_STREAM: Final = b"text/event-stream"
#: Seconds to hand a client the last words of a broken stream; it may not be reading.
LAST_WORDS_SECONDS: Final = 1.0
#: Seconds after which a client that takes nothing of what there is for it is given up.
STALL_SECONDS: Final = 60.0
#: Bytes of an engine's error that are read to be put into an event.
MAX_ERROR_BYTES: Final = 256 * 1024
_UNBUFFERED: Final = (b"x-accel-buffering", b"no")
_EVENT_ENDS: Final = (b"\n\n", b"\r\r", b"\r\n\r\n")

log = structlog.get_logger(__name__)


class Transform(Protocol):
    """Turns an engine's answer into another form. One object serves one answer."""

    @property
    def tokens(self) -> tuple[int, int] | None:
        """Tokens of the prompt and of the answer, if the engine said so by now."""
        ...

    def head(self, status: int, headers: Headers) -> Headers:
        """Return the headers for the client; the length is dropped anyway."""
        ...

    def feed(self, piece: bytes) -> bytes:
        """Return what the client gets for the next bytes of the body; it may be nothing."""
        ...

    def finish(self) -> bytes:
        """Return what comes after the last of them."""
        ...


@dataclass(frozen=True, slots=True)
class ErrorForm:
    """How errors of ours look to a client: their JSON, and what stands before `data:` of one within a stream."""

    body: Callable[[ApiError], Mapping[str, Any]] = ApiError.body
    event: bytes = b""


OPENAI: Final = ErrorForm()


class StalledError(Exception):
    """The client took nothing for too long."""


class Reply:
    """What was sent so far, so that an error finds the right form.

    `stall` in seconds; where `cycle` is given, which says when a client does not keep up, the others cost no timer.
    """

    def __init__(
        self,
        send: Send,
        form: ErrorForm = OPENAI,
        *,
        stall: float = STALL_SECONDS,
        cycle: Cycle | None = None,
    ) -> None:
        self._send = send
        self._cycle = cycle
        self._form = form
        self._stall_seconds = stall
        self.started = False
        self.finished = False
        self._events = False
        self._tail = b"\n\n"
        self._edges = Edges()

    def tokens(self) -> Tokens | None:
        """Return the tokens that an answer passed on as it came tells of; None = it tells of none."""
        return self._edges.tokens()

    async def begin_events(self, extra: Headers) -> None:
        """Begin an event stream before there is an answer, so that a client with little patience stays."""
        self._events = True
        headers = [(b"content-type", EVENT_STREAM), (b"cache-control", b"no-store"), _UNBUFFERED]
        await self._start(200, [*headers, *extra])

    async def comment(self, text: str) -> None:
        """Send a line that clients of event streams skip. Only between `begin_events` and `relay`."""
        await self._put(b": " + " ".join(text.split()).encode() + b"\n\n")

    async def relay(self, incoming: Incoming, extra: Headers, through: Transform | None = None) -> None:
        """Pass status, headers and body on, each piece as soon as it is here. Raises what `incoming` does.

        An event stream that has begun is continued by another, without `extra`; whatever else the engine says
        becomes an error in it. A client that takes nothing for too long is given up: its answer stays unfinished.
        """
        headers = answer_headers(incoming.headers)
        if through is None and incoming.complete and self._answer_at_once(incoming, headers, extra):
            return
        if through is not None:
            headers = [
                pair for pair in through.head(incoming.status, headers) if pair[0] != b"content-length"
            ]
        if self.started and not (incoming.status == 200 and _continues(headers)):
            await self._fail_as(incoming, headers, through)
            return
        try:
            if not self.started:
                await self._begin(incoming, headers, extra, through)
            await self._relay_body(incoming, through)
        except StalledError:
            log.warning("client given up", reason=f"it took nothing for {self._stall_seconds:g} s")

    async def fail(self, error: ApiError, extra: Headers) -> None:
        """Answer with `error`. A stream that has begun gets it as an event, and never a clean end.

        The missing end is what tells the client's library that the answer is not whole: the server closes the
        connection when the application returns without having completed its response.
        """
        if not self.started:
            self.started = self.finished = True
            await send_json(self._send, error.status, self._form.body(error), [*error.headers(), *extra])
        else:
            await self._fail_event(self._form.body(error))

    def _answer_at_once(self, incoming: Incoming, headers: Headers, extra: Headers) -> bool:
        """Send an answer that is here as a whole past ASGI, if nothing stands between; return whether it was."""
        cycle = self._cycle
        if (
            cycle is None
            or self.started
            or cycle.congested
            or self._send != cycle.send
            or _is_events(headers)
        ):
            return False
        self.started = self.finished = True
        body = incoming.take()
        cycle.answer(incoming.status, headers + extra, body)
        self._edges.add(body)
        return True

    async def _begin(
        self, incoming: Incoming, headers: Headers, extra: Headers, through: Transform | None
    ) -> None:
        if _is_events(headers):
            self._events = not _has(headers, b"content-encoding", b"content-length")
            if not _has(headers, b"x-accel-buffering"):
                headers.append(_UNBUFFERED)
        headers += extra
        start: Message = {"type": "http.response.start", "status": incoming.status, "headers": headers}
        if incoming.complete or (through is None and incoming.waiting):
            start[FOLLOWS] = True
        self.started = True
        await self._pass(start)

    async def _relay_body(self, incoming: Incoming, through: Transform | None) -> None:
        async for piece in incoming.pieces():
            last = incoming.drained
            if through is not None:
                piece = through.feed(piece) + (through.finish() if last else b"")
            if piece or last:
                await self._pass(self._piece(piece, last=last))
            if through is None:
                self._edges.add(piece)
        if not self.finished:
            await self._pass(self._piece(through.finish() if through is not None else b"", last=True))

    async def _pass(self, message: Message) -> None:
        """Send a part of an engine's answer. Raises `StalledError` if the client takes nothing for too long."""
        if self._cycle is not None and not self._cycle.congested:
            await self._send(message)
            return
        with Stall(self._stall_seconds) as stall:
            await self._send(message)
        if stall.happened:
            raise StalledError

    async def _fail_as(self, incoming: Incoming, headers: Headers, through: Transform | None) -> None:
        body = b""
        async for piece in incoming.pieces():
            body += piece if through is None else through.feed(piece)
            if len(body) > MAX_ERROR_BYTES:
                break
        else:
            body += b"" if through is None else through.finish()
        try:
            said = json.loads(body)
        except ValueError:
            said = None
        if not (isinstance(said, dict) and "error" in said):
            kind = first(headers, b"content-type").decode("latin-1") or "no type"
            text = f"the model's server answered {incoming.status} ({kind}) instead of a stream of events"
            said = self._form.body(ApiError("upstream_error", text))
        await self._fail_event(said)

    async def _fail_event(self, said: Mapping[str, Any]) -> None:
        if self._events and not self.finished and self._tail.endswith(_EVENT_ENDS):
            with anyio.move_on_after(LAST_WORDS_SECONDS):
                await self._put(self._form.event + b"data: " + json.dumps(said).encode() + b"\n\n")

    async def _start(self, status: int, headers: Headers) -> None:
        self.started = True
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def _put(self, piece: bytes) -> None:
        await self._send(self._piece(piece, last=False))

    def _piece(self, piece: bytes, *, last: bool) -> Message:
        self._tail = piece[-4:] if len(piece) >= 4 else (self._tail + piece)[-4:]
        self.finished = last
        return {"type": "http.response.body", "body": piece, "more_body": not last}


def _is_events(headers: Headers) -> bool:
    return first(headers, b"content-type").lower().startswith(EVENT_STREAM)


def _continues(headers: Headers) -> bool:
    return _is_events(headers) and not _has(headers, b"content-encoding")


def _has(headers: Headers, *names: bytes) -> bool:
    return any(name in names for name, _ in headers)
