"""`/upstream/MODEL/any/path`: whatever the client says to the engine itself, byte for byte, under a lease.

GET and HEAD are quiet: they load no model, wait for nothing, keep nothing in memory and count as no use, so that
whoever scrapes an engine's metrics changes nothing.
"""

from collections.abc import AsyncIterator
from typing import Final

from starlette.types import Receive, Scope, Send

from reconciler.gateway.access.guard import started
from reconciler.gateway.body.bodies import declared_length
from reconciler.gateway.body.upload import Upload
from reconciler.gateway.errors import ApiError
from reconciler.gateway.naming import UPSTREAM, split_upstream
from reconciler.gateway.protocol.cycle import CYCLE, EMPTY_QUERY
from reconciler.gateway.reply import Reply
from reconciler.gateway.shared import Shared
from reconciler.gateway.task import Task
from reconciler.gateway.upstream.pool import Headers, Outgoing, UnreachableError, build_request
from reconciler.gateway.withheld import check_raw

#: Methods that change nothing at the engine.
QUIET: Final = frozenset({"GET", "HEAD", "OPTIONS"})
#: These are for whoever the connection goes to.
NOT_PASSED: Final = frozenset({"CONNECT", "TRACE"})
PASSED: Final = b"DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT"


class RawTask(Task):
    """One request that only its engine understands."""

    def __init__(self, shared: Shared, scope: Scope, receive: Receive, send: Send) -> None:
        super().__init__(shared, scope, Reply(send, cycle=scope[CYCLE]))
        self.upload = Upload(receive, self.gone)

    async def work(self) -> None:
        """Find the model, wait for it unless the request is quiet, and pass everything on."""
        method: str = self.scope["method"]
        if method in NOT_PASSED:
            text = f"{method} is not passed on to engines"
            raise ApiError("method_not_allowed", text, headers=((b"allow", PASSED),))
        self.watch()
        self.begin_watching(self.upload.pump())
        snapshot = started(self.board.snapshot)
        tail: bytes = self.scope["raw_path"][len(UPSTREAM) :]
        name, target = split_upstream(tail, snapshot.applied.routes, snapshot.applied.virtual)
        if self.scope["query_string"] or EMPTY_QUERY in self.scope:
            target += b"?" + self.scope["query_string"]
        self.asks(snapshot, snapshot.applied.routes[name])
        if method not in QUIET:
            check_raw(snapshot.applied, self.model, self.key)
        outgoing: Outgoing | None = None
        while True:
            async with self.lease(quiet=method in QUIET) as lease:
                try:
                    self.holds(lease)
                    outgoing = outgoing or self._outgoing(method, target)
                    await self.exchange(lease, outgoing)
                except UnreachableError as error:
                    missed = lease.endpoint, str(error)
                else:
                    return
            await self.missed(*missed)

    def _outgoing(self, method: str, target: bytes) -> Outgoing:
        headers: Headers = self.scope["headers"]
        length = declared_length(headers)
        chunked = any(name == b"transfer-encoding" for name, _ in headers)
        body: bytes | AsyncIterator[bytes] = self.upload.pieces() if length or chunked else b""
        return build_request(target, headers, body, method=method, length=length, shares=False)
