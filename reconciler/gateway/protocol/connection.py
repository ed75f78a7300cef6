"""HTTP/1.1 towards clients within bounds, so that no client costs more than its share."""

import asyncio
from typing import Any, Final

import httptools
from uvicorn.server import ServerState

from reconciler.gateway.body.bodies import declared_length
from reconciler.gateway.errors import ApiError
from reconciler.gateway.protocol.base import parse_target
from reconciler.gateway.protocol.config import GatewayConfig, crowded, too_large
from reconciler.gateway.protocol.end import EndingProtocol
from reconciler.gateway.protocol.resume import resumed_parser
from reconciler.gateway.protocol.upgrade import EXTENSION, Successor, Upgrade

#: Below this path WebSockets are passed on. Everywhere else the wish to upgrade is ignored, as HTTP allows.
UPGRADED: Final = b"/upstream/"
#: What some path or other takes.
ALLOWED: Final = b"DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT"


class _Trailers(list[tuple[bytes, bytes]]):
    """Takes the trailers of a body, and keeps none of them. Raises `ApiError` (431) above so many bytes."""

    def __init__(self, limit: int) -> None:
        self.left = self.limit = limit

    def append(self, header: tuple[bytes, bytes]) -> None:
        self.left -= len(header[0]) + len(header[1]) + 4
        if self.left < 0:
            raise too_large(self.limit)


class GatewayProtocol(EndingProtocol):
    """One client's connection: what it sends, and how long it may take."""

    def __init__(
        self,
        config: GatewayConfig,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        #: A head has begun and is not complete.
        self._in_head = False
        #: Bytes received of a head that is not complete.
        self._head_bytes = 0
        self._head_is_new = False
        #: Bytes that the parser is being fed.
        self._fed = 0
        self._upgrade: Upgrade | None = None
        #: The parser stopped, or is about to, before the body of a request whose wish to upgrade is ignored.
        self._stopped = False
        #: When the last part of a body came, by the clock of the event loop.
        self._last_byte = 0.0
        #: Whether the client was not to send when that was last looked at.
        self._held = False

    # --- the connection ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first head, or refuse a client too many."""
        super().connection_made(transport)
        limit, refused = self.rules.max_connections(), self.rules.refused
        if len(self.connections) - len(refused) <= limit:
            self._watch_reading()
        elif len(refused) < self.limits.refused:
            refused.add(self)
            self._say(crowded(limit))
        else:
            self.transport.abort()

    def release(self, successor: Successor) -> asyncio.Transport | None:
        """Hand the connection over and be gone; None if the client is."""
        cycle = self.cycle
        if cycle is None or cycle.disconnected or self.transport.is_closing():
            return None
        self._cancel_timers()
        self._idle.close()
        self._upgrade = None
        cycle.disconnected = True  # what the application still sends through ASGI goes nowhere
        self.connections.discard(self)
        self.connections.add(successor)  # type: ignore[arg-type]
        self.transport.set_protocol(successor)  # type: ignore[arg-type]
        connections = self.connections
        successor.taken_over(self.transport, lambda: connections.discard(successor))
        self.flow.resume_reading()
        return self.transport

    # --- reading ---

    def data_received(self, data: bytes) -> None:
        """Parse what came; what is no HTTP is answered, once, and nothing more is heard."""
        self._idle.lift()
        if self._deaf:
            return
        while data and not self._deaf:
            if self._upgrade is not None:
                self._upgrade.early(data)
                break
            self._head_is_new = False
            data = self._parse(data)
        self._watch_reading()
        if self.flow.read_paused:
            self._watch_presence()

    def _parse(self, data: bytes) -> bytes:
        """Feed the parser; return what it left unread after a wish to upgrade."""
        self._fed = len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            if self._stopped:
                self._stopped = False
                self.parser = resumed_parser(self, declared_length(self.scope["headers"]))
            return data[upgrade.args[0] :]
        except httptools.HttpParserError as error:
            cause = error.__context__
            text = f"this is not HTTP/1.1: {error}" if str(error) else "this is not HTTP/1.1"
            self._refuse(cause if isinstance(cause, ApiError) else ApiError("invalid_http", text))
            return b""
        if self._in_head and not self._head_is_new:
            self._head_bytes += len(data)
            if self._head_bytes > self.limits.head_bytes:
                self._refuse(too_large(self.limits.head_bytes))
        return b""

    def on_message_begin(self) -> None:
        """Begin a head."""
        super().on_message_begin()
        self._in_head = self._head_is_new = True
        self._head_bytes = 0

    def on_headers_complete(self) -> None:
        """Start the request, unless its body could be read in more than one way."""
        chunked = self._check_head()
        upgraded = False
        if self.parser.should_upgrade():
            has_body = chunked or bool(declared_length(self.headers))
            upgraded = self._asks_for_websocket(has_body=has_body)
            self._stopped = has_body
        if self._read_timer is not None:
            self._cancel_read_timer()
        super().on_headers_complete()
        self._in_head, self._in_body = False, True
        self._body_came = True  # the time for its first part begins
        if upgraded and self.cycle is not None:
            self._upgrade = Upgrade(self)
            self.cycle.keep_alive = False
            self.scope["extensions"] = {EXTENSION: self._upgrade}
        if chunked:  # trailers come after the checks of what stands in the head: they must not get into it
            self.headers = _Trailers(self.limits.head_bytes)

    def _check_head(self) -> bool:
        """Return whether the body is in chunks; raise `ApiError` for a head that is not taken."""
        if not self._head_is_new or self._fed > self.limits.head_bytes:  # else it cannot be too large
            size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            if size > self.limits.head_bytes:
                raise too_large(self.limits.head_bytes)
        coded = 0
        if b"transfer-encoding" in dict(self.headers):
            values = [value.lower() for name, value in self.headers if name == b"transfer-encoding"]
            coded = 1 if values == [b"chunked"] else 2
        version = self.parser.get_http_version()
        if (version != "1.1" and (version != "1.0" or coded)) or coded > 1:
            raise ApiError("invalid_http", "only HTTP/1.1 with a body as it is, or in chunks, is spoken here")
        if self.parser.get_method() == b"CONNECT":
            text = "CONNECT is for proxies; this is none"
            raise ApiError("method_not_allowed", text, headers=((b"allow", ALLOWED),))
        if len(self.pipeline) >= self.limits.pipelined:
            text = f"{self.limits.pipelined} requests were sent ahead; wait for their answers"
            raise ApiError("invalid_http", text)
        return coded == 1

    def on_message_complete(self) -> None:
        """End the body."""
        if self._stopped:
            return
        self._in_body = False
        if self._read_timer is not None:
            self._cancel_read_timer()
        super().on_message_complete()

    def _asks_for_websocket(self, *, has_body: bool) -> bool:
        """Return whether another protocol is to follow. Raises `ApiError` for a body, which could be that already."""
        asked = (
            _wished(self.headers) == b"websocket"
            and self.parser.get_method() == b"GET"
            and parse_target(self.url)[1].startswith(UPGRADED)
        )
        if asked and has_body:
            raise ApiError("invalid_http", "the handshake of a WebSocket has no body")
        return asked

    # --- time ---

    def _watch_reading(self) -> None:
        """See to it that a timer runs while the client owes us something, and only then."""
        if self._in_body:
            if (
                self._body_came
            ):  # sizes of chunks, their extensions and trailers do not count: they may have no end
                self._body_came = False
                self._last_byte = self.awake.time()
            if self._read_timer is None and not self._deaf:
                self._read_timer = self.awake.call_later(self.limits.body_seconds, self._body_is_late)
            return
        answering = self.cycle is not None and not self.cycle.response_complete
        if answering and not self._in_head:
            if self._read_timer is not None:
                self._cancel_read_timer()
        elif self._read_timer is None and not self._deaf and not self.transport.is_closing():
            self._read_timer = self.awake.call_later(self.limits.head_seconds, self._head_is_late)

    def _head_is_late(self) -> None:
        self._read_timer = None
        if self._in_head:
            text = f"the head of the request was not complete within {self.limits.head_seconds:g} s"
            self._refuse(ApiError("request_timeout", text))
        else:  # not a byte came: a connection kept in reserve, which needs no answer
            self.transport.close()

    def _body_is_late(self) -> None:
        self._read_timer = None
        if not self._in_body or self._deaf:
            return
        now = self.awake.time()
        held, self._held = self._held, self.flow.read_paused or self._is_to_ask()
        if held or self._held:
            self._last_byte = now  # it is we who do not want to read, or did not until a moment ago
        left = self._last_byte + self.limits.body_seconds - now
        if left > 0:
            self._read_timer = self.awake.call_later(left, self._body_is_late)
            return
        text = f"nothing of the body came for {self.limits.body_seconds:g} s"
        self._refuse(ApiError("request_timeout", text))

    def _is_to_ask(self) -> bool:
        """Whether the client waits to be told that it may send its body."""
        return self.cycle is not None and self.cycle.waiting_for_100_continue


def _wished(headers: list[tuple[bytes, bytes]]) -> bytes:
    """Return the protocol a client wishes to change to; b"" if it does not."""
    tokens = [
        token.strip()
        for name, value in headers
        if name == b"connection"
        for token in value.lower().split(b",")
    ]
    wishes = [value.lower() for name, value in headers if name == b"upgrade"]
    return wishes[-1] if wishes and b"upgrade" in tokens else b""
