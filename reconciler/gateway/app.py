"""The application: guard, proxy and control endpoints put together."""

import time
from collections.abc import Callable
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from reconciler.board import Board
from reconciler.counts import OTHER
from reconciler.dashboard import Dashboard
from reconciler.gateway.access.guard import Guard
from reconciler.gateway.control import Control, own_paths
from reconciler.gateway.error_form import refuse
from reconciler.gateway.errors import ApiError
from reconciler.gateway.messages.errors import body_for
from reconciler.gateway.naming import UPSTREAM, nowhere
from reconciler.gateway.proxy import DataTask
from reconciler.gateway.raw import RawTask
from reconciler.gateway.shared import Shared
from reconciler.gateway.surface import SURFACE, Path
from reconciler.gateway.tunnel.tunnels import Tunnels, asks_for_tunnel
from reconciler.gateway.upstream.pool import UpstreamPool
from reconciler.gateway.views import Views, standard_views
from reconciler.leases import LeaseBook

#: Seconds a request for a model waits for the loop's first look at the machine, right after the start.
START_SECONDS: Final = 5.0


class Gateway:
    """The application and its connections to the engines. `app` is served by `reconciler.gateway.server`."""

    def __init__(self, book: LeaseBook, board: Board, *, views: Views | None = None) -> None:
        self._pool = UpstreamPool()
        self.app = create_app(book, board, views=views or standard_views(), pool=self._pool)

    async def close_upstream(self, model: str) -> None:
        """Close every connection to a model's process, ending what still runs over them.

        To be awaited before the process gets TERM: llama-server with an open request does not end.
        """
        await self._pool.close(model)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._pool.aclose()


class Front:
    """What stands behind the guard: the data API by one look into its table, all else by routes."""

    def __init__(self, shared: Shared, routes: ASGIApp) -> None:
        self.shared = shared
        self.tunnels = Tunnels(shared)
        self.routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path = SURFACE.get(scope["path"])
        if path is not None:
            if scope["method"] == "POST":
                await answer_data(self.shared, scope, receive, send, path)
            else:
                self.shared.board.counts.error(OTHER, "method_not_allowed")
                await refuse(not_allowed(scope, "POST"), scope, send)
        elif scope["raw_path"].startswith(UPSTREAM):
            if asks_for_tunnel(scope):
                await self.tunnels(scope, receive, send)
            else:
                await RawTask(self.shared, scope, receive, send).run()
        else:
            await self.routes(scope, receive, send)


class Patient:
    """Lets requests for models wait a little while the loop has not yet looked: a restart is no error for them."""

    def __init__(self, app: ASGIApp, board: Board, seconds: float) -> None:
        self.app = app
        self.board = board
        self.seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Wait if there is something to wait for, then go on."""
        if self.board.snapshot is None and scope["type"] == "http":
            path: str = scope["path"]
            if path in SURFACE or path.startswith("/upstream/"):
                await self.board.first(self.seconds)
        await self.app(scope, receive, send)


def create_app(
    book: LeaseBook,
    board: Board,
    *,
    views: Views,
    pool: UpstreamPool,
    max_body: int | None = None,
    start_seconds: float = START_SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> ASGIApp:
    """Return the ASGI application. `clock` is the snapshots' clock, `max_body` in bytes (None = the manifest's).

    Requests for models that come before the first snapshot wait for it, `start_seconds` at most.
    """
    shared = Shared(book, board, pool, max_body=max_body, clock=clock)
    routes = Starlette(
        routes=[*Control(book, board, views, clock).routes(), *Dashboard(_nothing_at).routes()],
        exception_handlers={
            ApiError: _api_error,
            HTTPException: _routing_error,
            Exception: _internal_error,
        },
    )
    routes.router.redirect_slashes = False
    routes.state.counts = board.counts
    return Patient(Guard(Front(shared, routes), board=board), board, start_seconds)


async def answer_data(shared: Shared, scope: Scope, receive: Receive, send: Send, path: Path) -> None:
    """Serve one request of the data API; the client's leaving ends it and nothing else."""
    task = DataTask(shared, scope, receive, send, path)
    try:
        await task.run()
    finally:
        task.release()


def not_allowed(scope: Scope, allow: str) -> ApiError:
    """Return the 405 that says what the path takes."""
    text = f"{scope['method']} is not for {scope['path']}; it takes {allow}"
    return ApiError("method_not_allowed", text, headers=((b"allow", allow.encode()),))


async def _api_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, ApiError):
        raise error
    request.app.state.counts.error(OTHER, error.code)
    response = JSONResponse(body_for(request.url.path, error), status_code=error.status)
    response.raw_headers.extend(error.headers())
    return response


async def _routing_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    if error.status_code == 405:
        allow = ", ".join(sorted((error.headers or {}).get("Allow", "").split(", ")))
        answer = not_allowed(request.scope, allow)
    else:
        answer = _nothing_at(request)
    return await _api_error(request, answer)


def _nothing_at(request: Request) -> ApiError:
    # What is there for browsers only is no advice for those who asked for it in vain.
    path = request.url.path
    return nowhere(path, [own for own in own_paths(request) if own != path])


async def _internal_error(request: Request, _error: Exception) -> Response:
    # The server logs the exception itself: Starlette raises it again once this answer is sent.
    return await _api_error(request, ApiError("internal_error", "the gateway failed; its log says how"))
