"""`/upstream/MODEL/...` in the document: any method, any path, any answer."""

from typing import Any, Final

from reconciler.gateway.openapi.hoist import reference
from reconciler.gateway.openapi.refusals import STATUSES, answers

METHODS: Final = ("get", "put", "post", "delete", "patch")
TEXTS: Final = {
    "get": "Loads nothing: 409 while the model is not in memory. Does not count as use.",
    "post": "Loads the model if need be, as any request does.",
}


def paths() -> dict[str, Any]:
    """Return the path with all its methods."""
    model = {"name": "model", "in": "path", "required": True, "schema": reference("ModelName")}
    tail: dict[str, Any] = {"name": "path", "in": "path", "required": True}
    tail["description"] = "The engine's own path, with as many slashes as it has, and its query."
    tail["schema"] = {"type": "string", "minLength": 1}
    operations = {method: _operation(method) for method in METHODS}
    return {"/upstream/{model}/{path}": {"parameters": [model, tail], **operations}}


def _operation(method: str) -> dict[str, Any]:
    made: dict[str, Any] = {
        "tags": ["raw"],
        "operationId": f"upstream_{method}",
        "description": TEXTS.get(method, TEXTS["post"]),
        "responses": {
            "default": {"description": "What the engine answers.", "content": {"*/*": {}}},
            **answers("DataError", STATUSES),
        },
    }
    if method != "get":
        made["requestBody"] = {"content": {"*/*": {}}}
    return made
