"""The document put together."""

from functools import cache
from typing import Any, Final

from reconciler.gateway.openapi import control, data, past, raw, refusals, shapes
from reconciler.gateway.openapi.hoist import hoisted
from reconciler.render import schemas

#: Grows only when clients of the old one would be misled.
VERSION: Final = "1"

INFO: Final = {
    "title": "reconcile",
    "version": VERSION,
    "summary": "One address for all models of a machine.",
    "description": (
        "The data API is OpenAI's and Anthropic's: a request names a model, which is loaded first if need be. "
        "What an engine answers passes unchanged, its errors too; errors of the gateway have a `code` of the list "
        "in the schema `ErrorCode`. Nothing changes on GET."
    ),
    "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
}
TAGS: Final = (
    {"name": "data", "description": "Requests to models."},
    {
        "name": "control",
        "description": "What the loop sees and does, and the few things it can be asked for.",
    },
    {"name": "past", "description": "What happened, from the ledger."},
    {"name": "leases", "description": "Keeping a model in memory for work that does not pass the gateway."},
    {"name": "raw", "description": "An engine's own paths, byte for byte."},
)
SECURITY: Final = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
}
#: Documents of the control API whose shapes have schemas of their own.
DOCUMENTS: Final = {
    "Status": schemas.status_schema,
    "Plan": schemas.plan_schema,
    "Budget": schemas.budget_schema,
    "Advice": schemas.advice_schema,
    "Events": schemas.events_schema,
    "RequestList": schemas.requests_schema,
    "History": schemas.history_schema,
    "Timeline": schemas.timeline_schema,
    "ModelPage": schemas.model_schema,
    "ModelLog": schemas.log_schema,
    "Whoami": schemas.whoami_schema,
}


@cache
def document() -> dict[str, Any]:
    """Return the OpenAPI 3.1 document; it is shared and must not be changed. Takes a good part of a second."""
    found: dict[str, Any] = {}
    for name, schema in DOCUMENTS.items():
        found |= hoisted(name, schema())
    return {
        "openapi": "3.1.0",
        "info": INFO,
        "tags": list(TAGS),
        # A key is only asked for where the manifest has some.
        "security": [{}, {"bearer": []}, {"key": []}],
        "paths": data.paths() | control.paths() | past.paths() | raw.paths(),
        "components": {
            "schemas": shapes.schemas() | refusals.schemas() | found,
            "responses": refusals.responses(),
            "headers": data.headers(),
            "securitySchemes": SECURITY,
        },
    }
