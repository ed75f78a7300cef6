"""What the gateway answers itself in the document: models, health, the loop's documents, wishes, leases."""

from typing import Any, Final

from reconciler.gateway.model_page import LINES, LINES_MOST
from reconciler.gateway.openapi.hoist import reference
from reconciler.gateway.openapi.refusals import ANYWHERE, answers

#: Path -> schema of the answer, and what it is.
READS: Final = {
    "/v1/models": ("ModelList", "Every name and alias a client may use. Loads nothing."),
    "/models": ("ModelList", "The same as `/v1/models`."),
    "/healthz": ("Health", "200 while the loop turns; asks for no key."),
    "/readyz": ("Readiness", "200 while every pinned model is ready."),
    "/api/v1/status": ("Status", "What `reconcile status --json` prints."),
    "/api/v1/plan": ("Plan", "What `reconcile --dry-run --json` prints."),
    "/api/v1/budget": ("Budget", "What `reconcile budget --json` prints."),
    "/api/v1/world": ("World", "What the loop sees, for a dry run."),
    "/api/v1/openapi.json": ("OpenApi", "This document."),
    "/api/v1/whoami": ("Whoami", "What the API key that is sent allows."),
}
#: What can be asked of a model, the conflicts it may meet, and what it is.
WISHES: Final = {
    "load": "Load it as a request would.",
    "evict": "Unload it once its requests are done; a pinned one stays.",
    "forget": "Forget what was measured of it, and its failures.",
}
#: What is shown of one model: the end of its path, the schema of the answer, and what it is.
OF_MODEL: Final = (
    (
        "",
        "ModelPage",
        "All that is known of it: its verdict, how it is started, its loads, evictions and use.",
    ),
    ("/advice", "Advice", "Why it is loaded or not, and what would help."),
    ("/log", "ModelLog", "The last lines of its log, secrets masked. Asks for the scope admin."),
)
#: A name may hold slashes; written as `%2F` they are one segment.
NAME: Final = {"name": "name", "in": "path", "required": True, "schema": reference("ModelName")}

LOG_LINES: Final = {
    "name": "lines",
    "in": "query",
    "description": "As many at most.",
    "schema": {"type": "integer", "minimum": 1, "maximum": LINES_MOST, "default": LINES},
}


def paths() -> dict[str, Any]:
    """Return the paths."""
    made = {path: {"get": _read(path, *said)} for path, said in READS.items()}
    model_id = {**NAME, "name": "id"}
    made["/metrics"] = {"get": _metrics()}
    made["/v1/models/{id}"] = {
        "get": {
            **_read("/v1/models/id", "Model", "One name or alias. Loads nothing."),
            "parameters": [model_id],
        }
    }
    for wish, text in WISHES.items():
        made[f"/api/v1/models/{{name}}/{wish}"] = {"post": {**_wish(wish, text), "parameters": [NAME]}}
    for tail, schema, text in OF_MODEL:
        read = _read(f"/api/v1/models{tail}", schema, text)
        made[f"/api/v1/models/{{name}}{tail}"] = {"get": read | {"parameters": [NAME]}}
    made["/api/v1/models/{name}/log"]["get"]["parameters"] = [NAME, LOG_LINES]
    made["/api/v1/resume"] = {"post": _wish("resume", "Leave safe mode: load every model again.")}
    made["/api/v1/stop"] = {
        "post": _wish(
            "stop",
            "End the loop and the gateway. The models end too, or run on for the next loop (`leave`); without a body as"
            " `machine.on_exit` says.",
        )
        | {"requestBody": {**_body("StopRequest"), "required": False}}
    }
    return made | _leases()


def _read(path: str, schema: str, text: str) -> dict[str, Any]:
    return _operation("control", "get" + _word(path), text, {"200": _json("It.", schema)})


def _metrics() -> dict[str, Any]:
    text = {"schema": {"type": "string"}}
    forms = {"text/plain": text, "application/openmetrics-text": text}
    good = {"200": {"description": "Every metric.", "content": forms}}
    said = "What goes on, for Prometheus; OpenMetrics 1.0.0 if `Accept` prefers it."
    return _operation("control", "get_metrics", said, good)


def _wish(wish: str, text: str) -> dict[str, Any]:
    made = {"202": _json("Noted; the verdict of the last plan.", "Requested")}
    return _operation("control", wish, text, made, (*ANYWHERE, 409))


def _leases() -> dict[str, Any]:
    one = {"name": "id", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    known = _json("The lease.", "Lease")
    listing = _operation("leases", "list_leases", "Every lease.", {"200": _json("All.", "LeaseList")})
    begin = _operation(
        "leases",
        "begin_lease",
        "Load a model and keep it in memory until the lease ends, however idle it is.",
        {"201": known},
        (*ANYWHERE, 409, 502, 504, 507),
    )
    renew = _operation("leases", "renew_lease", "Have it end so long from now.", {"200": known})
    end = _operation("leases", "end_lease", "End it now.", {"204": {"description": "It has ended."}})
    return {
        "/api/v1/leases": {"get": listing, "post": begin | {"requestBody": _body("LeaseRequest")}},
        "/api/v1/leases/{id}": {
            "parameters": [one],
            "put": renew | {"requestBody": _body("LeaseRenewal")},
            "delete": end,
        },
    }


def _operation(
    tag: str, name: str, text: str, good: dict[str, Any], bad: tuple[int, ...] = ANYWHERE
) -> dict[str, Any]:
    return {
        "tags": [tag],
        "operationId": name,
        "description": text,
        "responses": good | answers("Error", bad),
    }


def _json(text: str, schema: str) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": reference(schema)}}}


def _body(schema: str) -> dict[str, Any]:
    return {"required": True, "content": {"application/json": {"schema": reference(schema)}}}


def _word(path: str) -> str:
    return path.replace("/", "_").replace(".", "_")
