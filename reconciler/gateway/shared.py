"""What all requests to models share."""

import time
from collections.abc import Callable
from typing import Final

import httpx

from reconciler.board import Board, Snapshot
from reconciler.gateway.bodies import Room
from reconciler.gateway.context import Summaries
from reconciler.gateway.surface import Served
from reconciler.gateway.upstream import UpstreamPool
from reconciler.leases import LeaseBook

#: Seconds for a question to an engine that is no client's request: counting tokens.
CONTROL_SECONDS: Final = 10.0


class Shared:
    """The parts of a gateway. `max_body` in bytes; None = the manifest's. `clock` is that of the snapshots."""

    def __init__(
        self,
        book: LeaseBook,
        board: Board,
        pool: UpstreamPool,
        *,
        max_body: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.book = book
        self.board = board
        self.pool = pool
        self.clock = clock
        self.served = Served()
        self.room = Room()
        self.summaries = Summaries()
        self._max_body = max_body
        self._client: httpx.AsyncClient | None = None

    def max_body(self, snapshot: Snapshot) -> int:
        """Return the bytes a request body may have."""
        return snapshot.applied.gateway.max_body if self._max_body is None else self._max_body

    @property
    def client(self) -> httpx.AsyncClient:
        """For questions to engines. None of its connections is kept: each would hold a thread of llama-server."""
        if self._client is None:
            self._client = httpx.AsyncClient(
                verify=False,  # noqa: S501  only http:// to loopback is spoken; it saves reading certificates
                trust_env=False,
                limits=httpx.Limits(max_keepalive_connections=0),
                timeout=CONTROL_SECONDS,
            )
        return self._client
