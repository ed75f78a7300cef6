"""The engine's end of a tunnel: its answer to the handshake first, then bytes."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast
from urllib.parse import urlsplit

import httptools

from reconciler.awake import move_on_after
from reconciler.gateway.errors import ApiError
from reconciler.gateway.upstream.answer import check_framing
from reconciler.gateway.upstream.pool import CONNECT_SECONDS, NOT_FORWARDED, Headers, UpstreamError, kept
from reconciler.leases import Endpoint

HEAD_BYTES: Final = 64 * 1024
#: Bytes of an answer that refuses the handshake; it is passed on whole.
REFUSAL_BYTES: Final = 1024 * 1024
#: Seconds for what was written before a close to be taken.
CLOSE_SECONDS: Final = 2.0
SWITCHING: Final = 101


@dataclass(frozen=True, slots=True)
class Answer:
    """What the engine said to the handshake. After a 101 `body` is what followed it: frames."""

    status: int
    headers: Headers
    body: bytes


class EngineSide(asyncio.Protocol):
    """One connection to an engine. `taken`, `more` and `gone` are set by whoever takes the bytes after a 101."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport = cast("asyncio.Transport", None)
        self.answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.lost = asyncio.Event()
        self.taken: Callable[[bytes], None] | None = None
        self.gone: Callable[[], None] = lambda: None
        self.flow: Callable[[bool], None] = lambda on: None
        self._parser = httptools.HttpResponseParser(self)
        self._headers: Headers = []
        self._size = 0
        self._body = bytearray()
        self._headed = self._framed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start."""
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Hand on frames, or read the answer."""
        if self.taken is not None:
            self.taken(data)
            return
        if self.answer.done():
            self._body += data
            self.transport.pause_reading()
            return
        self._size += len(data)
        try:
            self._parser.feed_data(data)
            if self._headed and self._parser.get_status_code() == SWITCHING:
                self._fail("it answered 101 without saying to what it switches")
        except httptools.HttpParserUpgrade as upgrade:
            self._settle(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            cause = error.__context__ if isinstance(error, httptools.HttpParserCallbackError) else error
            self._fail(f"its answer to the WebSocket handshake is not HTTP: {cause}")
        if not self._headed and self._size > HEAD_BYTES:
            self._fail(f"the head of its answer is larger than {HEAD_BYTES} bytes")
        if self._size > HEAD_BYTES + REFUSAL_BYTES:
            self._fail(f"it refused the WebSocket with more than {REFUSAL_BYTES} bytes")

    def eof_received(self) -> None:
        """Take its end; it is also that of a body without length."""
        if self._headed and not self._framed and not self.answer.done():
            self._settle(bytes(self._body))

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell everybody."""
        self._fail(f"it closed the connection during the WebSocket handshake{f': {exc}' if exc else ''}")
        self.lost.set()
        self.gone()

    def pause_writing(self) -> None:
        """It takes no more for now."""
        self.flow(False)

    def resume_writing(self) -> None:
        """It takes more."""
        self.flow(True)

    def begin(self, taken: Callable[[bytes], None]) -> None:
        """Hand every byte to `taken` from now on, those that came since the answer first."""
        self.taken = taken
        if self._body:
            taken(bytes(self._body))
            self._body.clear()
        self.transport.resume_reading()

    def close(self) -> None:
        """Close once everything is sent, or after a while without."""
        self.transport.close()
        if not self.lost.is_set():
            asyncio.get_running_loop().call_later(CLOSE_SECONDS, self.transport.abort)

    # --- the parser's side ---

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header. What comes behind the body are trailers: they are counted with it, and dropped."""
        if not self._headed:
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Take the head; an answer before the answer (100, 103) is forgotten."""
        status = self._parser.get_status_code()
        if 100 <= status < 200 and status != SWITCHING:
            self._headers = []
            return
        if status != SWITCHING:
            check_framing(status, self._headers)
        names = {name for name, _ in self._headers}
        self._headed = True
        self._framed = bool(names & {b"content-length", b"transfer-encoding"})

    def on_body(self, body: bytes) -> None:
        """Take a piece of a refusal."""
        self._body += body
        if len(self._body) > REFUSAL_BYTES:
            self._fail(f"it refused the WebSocket with more than {REFUSAL_BYTES} bytes")

    def on_message_complete(self) -> None:
        """Settle, unless it was an interim answer or the frames are still to come."""
        if self._headed and self._parser.get_status_code() != SWITCHING:
            self._settle(bytes(self._body))

    def _settle(self, body: bytes) -> None:
        status = self._parser.get_status_code()
        self._body.clear()
        if not self.answer.done():
            self.answer.set_result(Answer(status, self._headers, body))

    def _fail(self, text: str) -> None:
        if not self.answer.done():
            self.answer.set_exception(UpstreamError(text))
            self.answer.exception()  # whoever waited may be gone: then nobody needs to know


async def shake_hands(
    endpoint: Endpoint, path: bytes, headers: Headers, first_byte: float
) -> tuple[EngineSide, Answer]:
    """Connect, pass the client's handshake on, and return the connection and the engine's answer.

    `path` goes with the query, `first_byte` is in seconds. Raises `UpstreamError`, and `ApiError` (504).
    """
    side = await _connect(endpoint)
    side.transport.write(_head(endpoint, path, headers))
    answer: Answer | None = None
    try:
        with move_on_after(first_byte):
            answer = await asyncio.shield(side.answer)
    finally:
        if answer is None:
            side.transport.abort()
    if answer is None:
        text = f"model {endpoint.model!r} did not answer the WebSocket handshake for {first_byte:g} s"
        raise ApiError("upstream_timeout", text)
    return side, answer


async def _connect(endpoint: Endpoint) -> EngineSide:
    parts = urlsplit(endpoint.base_url)
    host, port = parts.hostname or "", parts.port or 80
    loop = asyncio.get_running_loop()
    try:
        with move_on_after(CONNECT_SECONDS):
            _, side = await loop.create_connection(EngineSide, host, port)
            return side
    except OSError as error:
        raise UpstreamError(f"cannot connect to {host} port {port}: {error.strerror or error}") from error
    raise UpstreamError(f"{host} port {port} took no connection")


def _head(endpoint: Endpoint, path: bytes, headers: Headers) -> bytes:
    host = urlsplit(endpoint.base_url).netloc.encode()
    own: Headers = [(b"host", host), (b"connection", b"Upgrade"), (b"upgrade", b"websocket")]
    if endpoint.authorization is not None:
        own.append((b"authorization", endpoint.authorization.encode()))
    lines = [b"%b: %b\r\n" % header for header in (*own, *kept(headers, NOT_FORWARDED))]
    return b"GET %b HTTP/1.1\r\n%b\r\n" % (path, b"".join(lines))
