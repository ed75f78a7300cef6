"""The data API in the document, path by path of the table of paths."""

from typing import Any, Final

from reconciler.gateway.openapi.hoist import reference
from reconciler.gateway.openapi.refusals import STATUSES, answers
from reconciler.gateway.surface import PATHS, Path

#: The schema of what a path is sent; a path that is not here is sent a model and what its engine wants.
REQUESTS: Final = {
    "/v1/chat/completions": "ChatRequest",
    "/v1/completions": "CompletionRequest",
    "/v1/responses": "ResponsesRequest",
    "/v1/embeddings": "EmbeddingsRequest",
    "/v1/rerank": "RerankRequest",
    "/v1/audio/speech": "SpeechRequest",
    "/v1/images/generations": "ImageRequest",
    "/v1/messages": "MessagesRequest",
    "/v1/messages/count_tokens": "CountTokensRequest",
}
#: The schema of what a path answers; all others answer what their engine does.
ANSWERS: Final = {"/v1/messages": "Message", "/v1/messages/count_tokens": "TokenCount"}
#: Paths that answer with something else than JSON or events.
MEDIA: Final = {
    "/v1/audio/speech": ("audio/*", "application/octet-stream"),
    "/v1/audio/transcriptions": ("text/*",),
    "/v1/audio/translations": ("text/*",),
}

HEADERS: Final = {
    "X-Reconciler-Model": "The model that answered, not its alias; what is not printable ASCII is percent-encoded.",
    "X-Reconciler-Route": "The rule by which a virtual model chose it.",
    "X-Reconciler-Waited": "Seconds the request waited before it was sent to the engine.",
    "X-Reconciler-Waited-For": "What it waited for, and at which place.",
    "X-Reconciler-Context": "What was left out of a prompt that was too long.",
    "X-Reconciler-Estimate": "`estimate` where tokens were estimated instead of counted.",
}
PARAMETERS: Final[tuple[dict[str, Any], ...]] = (
    {
        "name": "X-Reconciler-Priority",
        "in": "header",
        "description": "How urgent it is; it can only be less urgent than its key or its model is.",
        "schema": {
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": 1000},
                {"enum": ["critical", "high", "medium", "low", "batch"]},
            ]
        },
    },
    {
        "name": "X-Reconciler-Comments",
        "in": "header",
        "description": "Whether a stream that waits is told what for, in comments.",
        "schema": {"enum": ["on", "off", "true", "false", "1", "0", "yes", "no"]},
    },
)


def headers() -> dict[str, Any]:
    """Return the headers of answers."""
    return {name: {"description": text, "schema": {"type": "string"}} for name, text in HEADERS.items()}


def paths() -> dict[str, Any]:
    """Return every spelling of every path."""
    return {spelling: {"post": _operation(path, spelling)} for path in PATHS for spelling in path.spellings}


def _operation(path: Path, spelling: str) -> dict[str, Any]:
    roles = ", ".join(sorted(role.value for role in path.roles)) or "any role"
    same = f" The same as `{path.name}`." if spelling != path.name else ""
    return {
        "tags": ["data"],
        "operationId": "post" + spelling.replace("-", "_").replace("/", "_"),
        "description": f"Passed to the engine of the model, which must be for: {roles}.{same}",
        "parameters": [*PARAMETERS, *([_query(path)] if path.query else [])],
        "requestBody": {"required": True, "content": _asked(path)},
        "responses": {
            "200": _answer(path),
            **answers("MessagesError" if path.anthropic else "DataError", STATUSES),
            "default": {"description": "Another status of the engine.", "content": {"*/*": {}}},
        },
    }


def _query(path: Path) -> dict[str, Any]:
    text = "The model, where the body does not name it."
    return {"name": "model", "in": "query", "description": text, "schema": reference("ModelName")}


def _asked(path: Path) -> dict[str, Any]:
    request = REQUESTS.get(path.name, "ModelRequest")
    made = {"application/json": {"schema": reference(request)}}
    if path.form:
        made["multipart/form-data"] = {"schema": reference("FileForm")}
    return made


def _answer(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = {"application/json": {"schema": reference(ANSWERS.get(path.name, "Answer"))}}
    content["text/event-stream"] = {}
    for kind in MEDIA.get(path.name, ()):
        content[kind] = {}
    shown = {name: {"$ref": f"#/components/headers/{name}"} for name in HEADERS}
    return {"description": "The engine's answer.", "headers": shown, "content": content}
