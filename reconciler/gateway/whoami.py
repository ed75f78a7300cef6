"""`GET /api/v1/whoami`: what the key that is sent allows."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from reconciler.gateway.access.guard import KEY
from reconciler.manifest.applied import EVERYTHING, ApiKey


def routes() -> list[Route]:
    """Return the route."""
    return [Route("/api/v1/whoami", whoami)]


async def whoami(request: Request) -> Response:
    """Show the name of the key and its scopes, never its text."""
    from reconciler.render.access_shapes import WhoamiDocument
    from reconciler.render.plan_document import as_json

    key: ApiKey | None = request.scope.get(KEY)
    scopes = EVERYTHING if key is None else key.scopes
    name = key.name or None if key is not None else None
    return JSONResponse(as_json(WhoamiDocument(name, tuple(sorted(scopes)), open=key is None)))
