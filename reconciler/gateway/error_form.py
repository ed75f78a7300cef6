"""Which shape errors have: OpenAI's, and on Anthropic's paths theirs."""

from typing import Final

from starlette.types import Scope, Send

from reconciler.gateway.errors import ApiError
from reconciler.gateway.messages import error_body
from reconciler.gateway.reply import OPENAI, ErrorForm, Reply
from reconciler.gateway.surface import SURFACE, Path

ANTHROPIC: Final = ErrorForm(
    lambda error: error_body(error.status, error.code, error.message), b"event: error\n"
)


def form_of(path: Path | None) -> ErrorForm:
    """Return how errors look to the clients of a path."""
    return ANTHROPIC if path is not None and path.anthropic else OPENAI


async def refuse(error: ApiError, scope: Scope, send: Send) -> None:
    """Answer with an error in the shape that the clients of the request's path know."""
    await Reply(send, form_of(SURFACE.get(scope["path"]))).fail(error, [])
