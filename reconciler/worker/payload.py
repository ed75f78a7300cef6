"""Reading the JSON that a client sent; a field that is not as it should be is refused in a sentence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .errors import Refused
from .service import Request


def read(request: Request) -> Any:
    """Return the JSON of a body, None without one. Raises Refused."""
    if not request.body:
        return None
    try:
        return json.loads(request.body)
    except (ValueError, RecursionError) as error:
        raise Refused(f"the body is no JSON: {error}") from None


def read_object(request: Request) -> dict[str, Any]:
    """Return the JSON object of a body. Raises Refused."""
    value = read(request)
    if not isinstance(value, dict):
        raise Refused("the body must be a JSON object")
    return value


def text(body: Mapping[str, Any], name: str) -> str:
    """Return a text that has to be there. Raises Refused."""
    value = body.get(name)
    if not isinstance(value, str):
        raise Refused(f"{name} must be a text", param=name)
    return value


def texts(body: Mapping[str, Any], name: str) -> list[str]:
    """Return a text, or a list of texts, as a list. Raises Refused."""
    value = body.get(name)
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not found or not all(isinstance(item, str) for item in found):
        raise Refused(f"{name} must be a text or a list of texts", param=name)
    return found


def whole(body: Mapping[str, Any], name: str, default: int, least: int, most: int) -> int:
    """Return a whole number within bounds. Raises Refused."""
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise Refused(f"{name} must be a whole number from {least} to {most}", param=name)
    return value


def options(body: Mapping[str, Any], *without: str) -> dict[str, Any]:
    """Return the other fields of a body, as options for the class; null is as if a field was not there."""
    left_out = {"model", "user", *without}
    return {name: value for name, value in body.items() if name not in left_out and value is not None}
