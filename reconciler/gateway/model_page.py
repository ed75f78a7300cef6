"""`GET /api/v1/models/NAME` and `.../log`: all that is known of one model, and what its server wrote last."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from anyio import CapacityLimiter, to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from reconciler.board import Board, Snapshot
from reconciler.excerpt import secrets_of
from reconciler.gateway import ledger
from reconciler.gateway.access.guard import started
from reconciler.gateway.errors import ApiError
from reconciler.gateway.naming import several, unknown
from reconciler.gateway.query import whole
from reconciler.gateway.views import model_ids
from reconciler.log_lines import shown_lines

if TYPE_CHECKING:
    from reconciler.render.document import Document
    from reconciler.store import Store

LINES_MOST: Final = 2000
LINES: Final = 200


class ModelPages:
    """The endpoints. `clock` is the snapshots' clock."""

    def __init__(
        self, board: Board, clock: Callable[[], float], wall: Callable[[], float] = time.time
    ) -> None:
        self.board = board
        self.clock = clock
        self.wall = wall
        self._one: CapacityLimiter | None = None

    def routes(self) -> list[Route]:
        """Return the routes; the second one's tail is free, so it comes after all others."""
        return [
            Route("/api/v1/models/{name:path}/log", self.log),
            Route("/api/v1/models/{name:path}", self.page),
        ]

    async def page(self, request: Request) -> Response:
        """Show one model: a name, an alias, or one that still runs although the manifest does not name it."""
        name = request.path_params["name"]
        if not name:
            raise HTTPException(404)
        snapshot = started(await self.board.fresh())
        _check_get(snapshot, name)
        return await self._page(snapshot, _model(snapshot, name))

    async def _page(self, snapshot: Snapshot, model: str) -> Response:
        def read(store: "Store") -> "Document":
            from reconciler.gateway.launch_page import launch_document
            from reconciler.render.model_page_document import model_page

            launch = launch_document(snapshot, model)
            return model_page(snapshot, model, self.clock(), launch, store, self.wall())

        await ledger.write_down(self.board)
        return await ledger.answer(self.board, read)

    async def log(self, request: Request) -> Response:
        """Show the last lines of a model's log; one log is read at a time."""
        snapshot, name = started(self.board.snapshot), request.path_params["name"]
        if not request.scope["raw_path"].endswith(b"/log"):  # `%2Flog`: that is how the name ends
            return await self._page(snapshot, _model(snapshot, f"{name}/log"))
        model = _model(snapshot, name)
        count = whole(request, "lines", LINES, 1, LINES_MOST)
        path = snapshot.log_paths.get(model)
        if path is None:
            raise ApiError("not_found", f"the log of {model!r} is not known: the manifest does not name it")
        self._one = self._one or CapacityLimiter(1)
        secrets = secrets_of(snapshot.applied.launches.get(model))
        try:
            lines, older = await to_thread.run_sync(
                shown_lines, Path(path), count, secrets, limiter=self._one
            )
        except OSError as error:
            raise ApiError("log_unavailable", f"{path} cannot be read: {error.strerror or error}") from error
        from reconciler.render.model_shapes import ModelLogDocument
        from reconciler.render.plan_document import as_json

        return JSONResponse(as_json(ModelLogDocument(model, path, lines, older)))


def _check_get(snapshot: Snapshot, name: str) -> None:
    """Raise the 405 for a path that takes a POST."""
    model, _, wish = name.rpartition("/")
    if wish in ("load", "evict", "forget") and not _known(snapshot, name) and _known(snapshot, model):
        raise HTTPException(405, headers={"Allow": "POST"})


def _known(snapshot: Snapshot, name: str) -> bool:
    loaded = {i.model for i in snapshot.world.observation.instances}
    return name in snapshot.applied.routes or name in loaded or snapshot.plan.verdict(name) is not None


def _model(snapshot: Snapshot, name: str) -> str:
    """Return the model that is meant; raise the 404 `ApiError` if nobody is."""
    if virtual := snapshot.applied.virtual.get(name):
        raise several(virtual)
    if not _known(snapshot, name):
        raise unknown(name, model_ids(snapshot))
    return snapshot.applied.routes.get(name, name)
