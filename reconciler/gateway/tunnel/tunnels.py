"""WebSockets to an engine: `/upstream/MODEL/path`, checked and leased as a request, then bytes as they are."""

from starlette.types import Receive, Scope, Send

from reconciler.gateway.access.guard import started
from reconciler.gateway.naming import UPSTREAM, split_upstream
from reconciler.gateway.protocol.cycle import EMPTY_QUERY
from reconciler.gateway.protocol.upgrade import EXTENSION, Upgrade
from reconciler.gateway.reply import Reply
from reconciler.gateway.shared import Shared
from reconciler.gateway.task import Task
from reconciler.gateway.tunnel.engine import SWITCHING, Answer, EngineSide, shake_hands
from reconciler.gateway.tunnel.pipe import IDLE_SECONDS, Pipe
from reconciler.gateway.upstream.pool import HOP_BY_HOP, Headers, answer_headers, kept
from reconciler.gateway.withheld import check_raw
from reconciler.leases import Lease


def asks_for_tunnel(scope: Scope) -> bool:
    """Say whether a request is the handshake of a WebSocket whose connection may be taken over."""
    return EXTENSION in scope.get("extensions", ())


class Tunnels:
    """The ASGI application of handshakes. `idle_seconds`: without a message for so long a lease becomes quiet."""

    def __init__(self, shared: Shared, *, idle_seconds: float = IDLE_SECONDS) -> None:
        self.shared = shared
        self.idle_seconds = idle_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one WebSocket from its handshake to its end. What is refused is answered in plain HTTP.

        The guard comes first: it lets only pages of its own or configured origins open a WebSocket.
        """
        await TunnelTask(self, scope, receive, send).run()


class TunnelTask(Task):
    """One WebSocket. A handshake waits for its model as a POST would; there is no time limit afterwards."""

    def __init__(self, tunnels: Tunnels, scope: Scope, receive: Receive, send: Send) -> None:
        super().__init__(tunnels.shared, scope, Reply(send))
        self._idle_seconds = tunnels.idle_seconds
        self._send = send
        self._pipe: Pipe | None = None

    async def work(self) -> None:
        """Find the model, wait for it, shake hands, and serve until one side closes."""
        snapshot = started(self.board.snapshot)
        self.watch()
        routes = snapshot.applied.routes
        tail: bytes = self.scope["raw_path"][len(UPSTREAM) :]
        name, path = split_upstream(tail, routes, snapshot.applied.virtual)
        if self.scope["query_string"] or EMPTY_QUERY in self.scope:
            path += b"?" + self.scope["query_string"]
        self.asks(snapshot, routes[name])
        check_raw(snapshot.applied, self.model, self.key)
        async with self.lease() as lease:
            self.holds(lease)
            headers, first_byte = self.scope["headers"], self.limits.first_byte
            side, answer = await shake_hands(lease.endpoint, path, headers, first_byte)
            if answer.status == SWITCHING:
                await self._serve(lease, side, answer)
            else:
                side.transport.abort()
                await self._pass_refusal(answer)

    def cut(self) -> None:
        """Say goodbye because the model goes."""
        if self._pipe is None:
            super().cut()
        else:
            self._pipe.end(f"model {self.model} was unloaded")

    async def _serve(self, lease: Lease, side: EngineSide, answer: Answer) -> None:
        upgrade: Upgrade = self.scope["extensions"][EXTENSION]
        pipe = Pipe(side, lease, self._idle_seconds)
        if upgrade.take(pipe.client) is None:
            side.transport.abort()
            return
        self._pipe = pipe
        self.reply.started = self.reply.finished = True
        pipe.start(_switching(answer, self.extra), answer.body)
        await pipe.ended()

    async def _pass_refusal(self, answer: Answer) -> None:
        headers = [header for header in answer_headers(answer.headers) if header[0] != b"content-length"]
        length = (b"content-length", str(len(answer.body)).encode())
        self.reply.started = self.reply.finished = True
        start = {"type": "http.response.start", "status": answer.status}
        await self._send({**start, "headers": [*headers, length, *self.extra]})
        await self._send({"type": "http.response.body", "body": answer.body, "more_body": False})


def _switching(answer: Answer, extra: Headers) -> bytes:
    own: Headers = [(b"connection", b"Upgrade"), (b"upgrade", b"websocket")]
    lines = [b"%b: %b\r\n" % header for header in (*own, *kept(answer.headers, HOP_BY_HOP), *extra)]
    return b"HTTP/1.1 101 Switching Protocols\r\n%b\r\n" % b"".join(lines)
