"""`GET /api/v1/models/NAME/advice`: why a model is loaded or not, who would go for it, and what would help."""

from collections.abc import Callable

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from reconciler.board import Board
from reconciler.gateway.access.guard import started
from reconciler.gateway.naming import unknown
from reconciler.gateway.views import AdviceView, model_ids


class Advisor:
    """The endpoint. Advice takes some dozens of plans: it is worked out in a worker thread, one at a time."""

    def __init__(self, board: Board, view: AdviceView, clock: Callable[[], float]) -> None:
        self.board = board
        self.view = view
        self.clock = clock
        self._one: CapacityLimiter | None = None

    def routes(self) -> list[Route]:
        """Return the route."""
        return [Route("/api/v1/models/{name:path}/advice", self.advice)]

    async def advice(self, request: Request) -> Response:
        """Advise on a model: a name, an alias, or one that still runs although the manifest does not name it."""
        snapshot = started(await self.board.fresh())
        name = request.path_params["name"]
        model = snapshot.applied.routes.get(name, name)
        if snapshot.plan.verdict(model) is None:
            raise unknown(name, model_ids(snapshot))
        self._one = self._one or CapacityLimiter(1)
        found = await to_thread.run_sync(self.view, snapshot, self.clock(), model, limiter=self._one)
        return JSONResponse(found)
