"""`GET /metrics`. A scrape has nobody work for it: it reads what the loop published last, and what was counted."""

from collections.abc import Callable
from typing import Final

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from reconciler.board import Board, Snapshot
from reconciler.counts import Counts
from reconciler.gateway.access.guard import started
from reconciler.gateway.metrics.exposition import OPEN, PLAIN, wants_open
from reconciler.leases import LeaseBook, Traffic

PATH: Final = "/metrics"


class Metrics:
    """The endpoint. `clock` is that of the snapshots."""

    def __init__(self, book: LeaseBook, board: Board, clock: Callable[[], float]) -> None:
        self._book, self._board, self._clock = book, board, clock

    def routes(self) -> list[Route]:
        """Return its route."""
        return [Route(PATH, self.scrape)]

    async def scrape(self, request: Request) -> Response:
        """Answer in the form that is asked for. Before the loop's first look 503, as everywhere."""
        snapshot = started(self._board.snapshot)
        open_metrics = wants_open(",".join(request.headers.getlist("accept")))
        seen = snapshot, self._book.traffic(), self._board.counts.copy(), self._clock()
        # In a thread: thousands of lines would keep requests waiting for some milliseconds.
        body = await to_thread.run_sync(_page, *seen, open_metrics)
        return Response(
            body, headers={"content-type": OPEN if open_metrics else PLAIN, "cache-control": "no-store"}
        )


def _page(snapshot: Snapshot, traffic: Traffic, counts: Counts, now: float, open_metrics: bool) -> bytes:
    from reconciler.gateway.metrics.page import page  # what it is made of is imported for the first scrape

    return page(snapshot, traffic, counts, now, open_metrics)
