"""Serves the files of the dashboard, with what keeps a browser from doing anything else with them."""

from collections.abc import Callable
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from reconciler.dashboard.files import PAGE, PREFIX, read_files

#: Nothing from elsewhere, nothing inline, no text that becomes HTML, and no page around this one.
POLICY: Final = "; ".join(
    (
        "default-src 'self'",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
_HEADERS: Final = {
    # Kept, and asked for again each time: a new version shows at the next look, an old one costs a 304.
    "cache-control": "no-cache",
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


class Dashboard:
    """The endpoints; `nowhere` makes the error for a path at which there is nothing."""

    def __init__(self, nowhere: Callable[[Request], Exception]) -> None:
        self.files = read_files()
        self.nowhere = nowhere

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [Route(PAGE, self.file), Route(PREFIX + "{file:path}", self.file)]

    async def file(self, request: Request) -> Response:
        """Show one file. A program that asks for the page and wants no HTML is told that there is nothing for it."""
        path = request.url.path
        file = self.files.get(path)
        if file is None or (path == PAGE and not _wants_html(request)):
            raise self.nowhere(request)
        headers = {**_HEADERS, "etag": file.etag}
        if path == PAGE:
            headers["vary"] = "Accept"
        if file.etag in _known(request):
            return Response(status_code=304, headers=headers)
        return Response(file.content, media_type=file.media_type, headers=headers)


def _wants_html(request: Request) -> bool:
    return "text/html" in request.headers.get("accept", "").lower()


def _known(request: Request) -> set[str]:
    """Return the validators of what the browser has; a weak one of ours is as good."""
    sent = request.headers.get("if-none-match", "").split(",")
    return {item.strip().removeprefix("W/") for item in sent}
