"""`GET /api/v1/timeline`: how the memory was, and what was loaded and evicted."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from reconciler.board import Board
from reconciler.gateway import ledger
from reconciler.gateway.access.guard import started
from reconciler.gateway.query import seconds

if TYPE_CHECKING:
    from reconciler.store import Store

#: Seconds it reaches back where nothing else is asked for.
TIMELINE_SECONDS: Final = 3600.0


class Timeline:
    """The endpoint."""

    def __init__(self, board: Board, wall: Callable[[], float] = time.time) -> None:
        self.board = board
        self.wall = wall

    def routes(self) -> list[Route]:
        """Return the route."""
        return [Route("/api/v1/timeline", self.timeline)]

    async def timeline(self, request: Request) -> Response:
        """Show what was since a time, and how it is now."""
        snapshot, now = started(self.board.snapshot), self.wall()
        since = seconds(request, "since", now - TIMELINE_SECONDS)
        samples = (*self.board.samples.since(since), snapshot.sample(now))

        def read(store: "Store") -> dict[str, Any]:
            from reconciler.render.timeline_document import timeline

            return timeline(store, samples, since, now)

        await ledger.write_down(self.board)
        return await ledger.answer(self.board, read)
