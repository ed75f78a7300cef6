"""Errors in the document: every code of the gateway's table, as answers by their status."""

from typing import Any, Final

from reconciler.gateway.errors import CODES
from reconciler.gateway.messages.errors import TYPES
from reconciler.gateway.openapi.hoist import reference

#: What any request may be answered with, before anybody looks at what it asks for.
ANYWHERE: Final = (400, 401, 403, 404, 405, 408, 413, 429, 431, 500, 503)
STATUSES: Final = tuple(sorted({code.status for code in CODES.values()}))


def schemas() -> dict[str, Any]:
    """Return the schemas of errors."""
    codes = {
        "type": "string",
        "enum": sorted(CODES),
        "description": "\n".join(f"- `{name}`: {code.when}" for name, code in sorted(CODES.items())),
    }
    inner = _object(
        message={"type": "string", "description": "For people."},
        type={"type": "string", "enum": sorted({code.type for code in CODES.values()})},
        code=reference("ErrorCode"),
    )
    anthropic = _object(
        message={"type": "string"},
        type={"type": "string", "enum": sorted(set(TYPES.values()))},
        code={"type": "string", "description": "One of `ErrorCode`, or what the engine called it."},
    )
    return {
        "ErrorCode": codes,
        "Error": _object(error=inner),
        "AnthropicError": _object(type={"const": "error"}, error=anthropic),
        "EngineError": {"type": "object", "description": "An engine's own error, as it came."},
    }


def responses() -> dict[str, Any]:
    """Return an answer for each status of the table: ours alone, ours or an engine's, and in Anthropic's shape."""
    made: dict[str, Any] = {}
    for status in STATUSES:
        said = "\n".join(f"- `{name}`: {code.when}" for name, code in CODES.items() if code.status == status)
        forms: dict[str, Any] = {
            "Error": reference("Error"),
            "DataError": {"anyOf": [reference("Error"), reference("EngineError")]},
            "MessagesError": {"anyOf": [reference("AnthropicError"), reference("EngineError")]},
        }
        for name, schema in forms.items():
            content = {"application/json": {"schema": schema}}
            made[f"{name}{status}"] = {"description": said, "content": content}
    return made


def answers(form: str = "Error", statuses: tuple[int, ...] = ANYWHERE) -> dict[str, Any]:
    """Return the error answers of an operation; `form` is `Error`, `DataError` or `MessagesError`."""
    return {str(status): {"$ref": f"#/components/responses/{form}{status}"} for status in statuses}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}
