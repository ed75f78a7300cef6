"""The application: guard, proxy and control endpoints put together."""

import time
from collections.abc import Callable
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from reconciler.board import Board
from reconciler.gateway.call import MAX_BODY_BYTES
from reconciler.gateway.control import Control
from reconciler.gateway.errors import ApiError
from reconciler.gateway.guard import Guard
from reconciler.gateway.proxy import Proxy
from reconciler.gateway.upstream import UpstreamPool
from reconciler.gateway.views import Views, standard_views
from reconciler.leases import LeaseBook

#: Paths that are passed on to the engine of the model they name.
PROXIED: Final = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings")


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


def create_app(
    book: LeaseBook,
    board: Board,
    *,
    views: Views,
    pool: UpstreamPool,
    max_body: int = MAX_BODY_BYTES,
    clock: Callable[[], float] = time.monotonic,
) -> Starlette:
    """Return the ASGI application. `clock` is the snapshots' clock, `max_body` in bytes."""
    proxy = Proxy(book, board, pool, max_body)
    app = Starlette(
        routes=[
            *(Route(path, proxy, methods=["POST"]) for path in PROXIED),
            *Control(book, board, views, clock).routes(),
        ],
        middleware=[Middleware(Guard, board=board)],
        exception_handlers={
            ApiError: _api_error,
            HTTPException: _routing_error,
            Exception: _internal_error,
        },
    )
    app.router.redirect_slashes = False
    return app


async def _api_error(_request: Request, error: Exception) -> Response:
    if not isinstance(error, ApiError):
        raise error
    response = JSONResponse(error.body(), status_code=error.status)
    response.raw_headers.extend(error.headers())
    return response


async def _routing_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    if error.status_code == 405:
        allow = ", ".join(sorted((error.headers or {}).get("Allow", "").split(", ")))
        text = f"{request.method} is not for {request.url.path}; it takes {allow}"
        answer = ApiError("method_not_allowed", text, headers=((b"allow", allow.encode()),))
    else:
        answer = ApiError("not_found", f"there is nothing at {request.url.path}")
    return await _api_error(request, answer)


async def _internal_error(request: Request, _error: Exception) -> Response:
    # The server logs the exception itself: Starlette raises it again once this answer is sent.
    return await _api_error(request, ApiError("internal_error", "the gateway failed; its log says how"))
