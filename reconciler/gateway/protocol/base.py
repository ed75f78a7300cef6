"""HTTP/1.1 towards clients: one connection, its requests one after the other. No bounds yet: subclasses set them."""

import asyncio
from collections import deque
from functools import lru_cache
from typing import Any, Final, cast
from urllib.parse import unquote

import httptools
from starlette.types import Scope
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.utils import get_local_addr, get_remote_addr
from uvicorn.server import ServerState

from reconciler.awake import awake
from reconciler.gateway.access.hosts import AUTHORITY, authority_of
from reconciler.gateway.deadline import Deadline
from reconciler.gateway.protocol.config import GatewayConfig
from reconciler.gateway.protocol.cycle import CYCLE, EMPTY_QUERY, Cycle
from reconciler.gateway.protocol.flow import Flow
from reconciler.gateway.protocol.resume import new_parser

_ASGI: Final = {"version": "3.0", "spec_version": "2.3"}
#: Bytes of a path and query that are remembered with what they mean: clients ask for the same few.
_REMEMBERED_BYTES: Final = 128


class HttpProtocol(asyncio.Protocol):
    """What uvicorn's server makes for each connection. The parser calls the `on_...` methods."""

    def __init__(
        self,
        config: GatewayConfig,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """`app_state` is that of ASGI's lifespan, which is not spoken."""
        if not config.loaded:
            config.load()
        self.app = config.loaded_app
        self.rules = config
        self.loop = _loop or asyncio.get_running_loop()
        self.server_state = server_state
        self.connections: set[asyncio.Protocol] = server_state.connections  # type: ignore[assignment]
        self.parser: Any = new_parser(self)
        self.transport: asyncio.Transport = None  # type: ignore[assignment]
        self.flow: Flow = None  # type: ignore[assignment]
        self.server: tuple[str, int | None] | None = None
        self.client: tuple[str, int] | None = None
        #: The newest request; None before the first.
        self.cycle: Cycle | None = None
        self.scope: Scope = {}
        self.headers: list[tuple[bytes, bytes]] = []
        self.url = b""
        #: The request that is being answered, and those that wait for their turn.
        self._answered: Cycle | None = None
        self.pipeline: deque[tuple[Cycle, Scope]] = deque()
        self._expects = False
        #: A part of a body came since this was last looked at.
        self._body_came = False
        #: How long the connection may be idle.
        self.awake = awake(self.loop)
        self._idle = Deadline(self.awake)

    # --- the connection ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self.connections.add(self)
        self.transport = transport = cast("asyncio.Transport", transport)
        self.flow = Flow(transport)
        self.server = get_local_addr(transport)
        self.client = get_remote_addr(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the application; what waits for its turn never gets it."""
        self.connections.discard(self)
        self._idle.close()
        self.pipeline.clear()
        for cycle in (self._answered, self.cycle):
            if cycle is not None and not cycle.response_complete:
                cycle.leave()
        self._answered = None
        self.flow.resume_writing()
        if exc is None:
            self.transport.close()
        self.parser = None

    def eof_received(self) -> None:
        """Close: a client that has ended its direction has left."""

    def pause_writing(self) -> None:
        """The client takes no more for now."""
        self.flow.pause_writing()

    def resume_writing(self) -> None:
        """The client takes more."""
        self.flow.resume_writing()

    def shutdown(self) -> None:
        """End in order: the server stops."""
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
        else:
            self.cycle.keep_alive = False

    def idle_too_long(self) -> None:
        """Close a connection on which no request came."""
        if not self.transport.is_closing():
            self.transport.close()

    # --- reading ---

    def on_message_begin(self) -> None:
        """Begin a head."""
        self.url = b""
        self.headers = []
        self._expects = False

    def on_url(self, url: bytes) -> None:
        """Take a part of the address."""
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take one header."""
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self._expects = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Have the application answer, now or when the requests before have their answers."""
        method, version = self.parser.get_method().decode("ascii"), self.parser.get_http_version()
        url = self.url
        path, raw_path, query = _parsed(url) if len(url) <= _REMEMBERED_BYTES else parse_target(url)
        cycle = Cycle(
            self.transport,
            self.flow,
            self.on_response_complete,
            head_only=method == "HEAD",
            keep_alive=version != "1.0" and self.parser.should_keep_alive(),
            expects=self._expects and version != "1.0",
            chunks=version != "1.0",
        )
        self.cycle = cycle
        self.scope = scope = {
            "type": "http",
            "asgi": _ASGI,
            "http_version": version,
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": raw_path,
            "root_path": "",
            "query_string": query,
            "headers": self.headers,
            "server": self.server,
            "client": self.client,
            CYCLE: cycle,
        }
        if not url.startswith(b"/") and (authority := authority_of(url)) is not None:
            scope[AUTHORITY] = authority
        if url.endswith(b"?"):
            scope[EMPTY_QUERY] = True
        if self._answered is None:
            self._start(cycle, scope)
        else:  # read on: a client that leaves is seen only by reading
            self.pipeline.append((cycle, scope))

    def on_body(self, data: bytes) -> None:
        """Take a part of the body; what comes after its answer is dropped."""
        self._body_came = True
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            return
        if cycle is not self._answered and cycle.held + len(data) > HIGH_WATER_LIMIT:
            self.too_far_ahead()
        else:
            cycle.feed(data)

    def too_far_ahead(self) -> None:
        """Do without a request that came before its turn with more than may be kept: it is not answered."""
        self.pipeline.pop()
        self.cycle = self.pipeline[-1][0] if self.pipeline else self._answered
        if self.cycle is not None:
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        """Take the end of the body."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.whole()

    # --- answering ---

    def _start(self, cycle: Cycle, scope: Scope) -> None:
        self._answered = cycle
        tasks = self.server_state.tasks
        tasks.add(self.loop.create_task(cycle.run(self.app, scope, tasks)))

    def on_response_complete(self) -> None:
        """Go on with the next request, or wait for one."""
        self._answered = None
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start(*self.pipeline.popleft())
        else:
            self._idle.set(self.rules.timeout_keep_alive, self.idle_too_long)


def parse_target(url: bytes) -> tuple[str, bytes, bytes]:
    """Return path, path as it came, and query of a request's target."""
    parsed = httptools.parse_url(url)
    raw_path: bytes = parsed.path or b"/"
    path = raw_path.decode("ascii")
    return unquote(path) if "%" in path else path, raw_path, parsed.query or b""


_parsed: Final = lru_cache(maxsize=256)(parse_target)
