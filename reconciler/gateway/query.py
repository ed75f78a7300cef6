"""What stands behind the `?` of a control path. Everything wrong with it is a 400 that names it."""

import math

from starlette.requests import Request

from reconciler.board import Snapshot
from reconciler.gateway.errors import ApiError
from reconciler.gateway.naming import several


def whole(request: Request, name: str, default: int, low: int, high: int) -> int:
    """Return a whole number from `low` to `high`, or `default` where none was given. Raises `ApiError`."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 18 and low <= int(text) <= high):
        raise ApiError("invalid_request", f"`{name}` is a whole number from {low} to {high}")
    return int(text)


def seconds(request: Request, name: str, default: float) -> float:
    """Return a time in seconds since 1970, or `default` where none was given. Raises `ApiError`."""
    text = request.query_params.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < 1e11:
        raise ApiError("invalid_request", f"`{name}` is a time in seconds since 1970")
    return value


def model_name(request: Request, snapshot: Snapshot) -> str | None:
    """Return the model of a name or alias; of a name the manifest does not know, itself: it may have had it once.

    None where no model was given. Raises `ApiError` for a virtual model.
    """
    name = request.query_params.get("model")
    if name is None:
        return None
    if virtual := snapshot.applied.virtual.get(name):
        raise several(virtual)
    return snapshot.applied.routes.get(name, name)
