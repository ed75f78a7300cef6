"""What all requests to models share."""

import time
from collections.abc import Callable

from reconciler.board import Board, Snapshot
from reconciler.gateway.body.room import Room
from reconciler.gateway.context import Summaries
from reconciler.gateway.surface import Served
from reconciler.gateway.upstream.pool import UpstreamPool
from reconciler.leases import LeaseBook


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

    def max_body(self, snapshot: Snapshot) -> int:
        """Return the bytes a request body may have."""
        return snapshot.applied.gateway.max_body if self._max_body is None else self._max_body
