"""`GET /api/v1/openapi.json`."""

import anyio
from starlette.requests import Request
from starlette.responses import JSONResponse, Response


async def openapi(_request: Request) -> Response:
    """Answer with the document. It is made at the first request, in a worker thread: that takes a while."""
    return JSONResponse(await anyio.to_thread.run_sync(_made))


def _made() -> dict[str, object]:
    from reconciler.gateway.openapi.document import document

    return document()
