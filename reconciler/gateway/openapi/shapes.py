"""Schemas of what clients send and get, as far as the gateway looks at it: engines take and answer more."""

from typing import Any, Final

from reconciler.gateway.openapi.hoist import reference

TEXT: Final[dict[str, Any]] = {"type": "string"}
COUNT: Final[dict[str, Any]] = {"type": "integer", "minimum": 0}
STREAM: Final[dict[str, Any]] = {"type": "boolean", "description": "Answer with server-sent events."}
OPEN: Final[dict[str, Any]] = {"type": "object"}
TOKENS: Final[dict[str, Any]] = {"type": "integer", "minimum": 1}
CONTENT: Final[dict[str, Any]] = {"anyOf": [TEXT, {"type": "array", "items": OPEN}]}
PROMPT: Final[dict[str, Any]] = {
    "anyOf": [TEXT, {"type": "array", "items": {"anyOf": [TEXT, {"type": "integer"}]}}]
}


def record(required: str, **properties: Any) -> dict[str, Any]:
    """Return an object that may have further fields; `required` names the fields that must be there."""
    return {"type": "object", "properties": properties, "required": required.split()}


def ask(required: str = "", **properties: Any) -> dict[str, Any]:
    """Return a request to a model."""
    return record(f"model {required}", model=reference("ModelName"), **properties)


def schemas() -> dict[str, Any]:
    """Return the schemas by name."""
    return _requests() | _answers() | _leases()


def _requests() -> dict[str, Any]:
    message = record("role", role=TEXT, content={"anyOf": [*CONTENT["anyOf"], {"type": "null"}]})
    turn = record("role content", role={"enum": ["user", "assistant", "system"]}, content=CONTENT)
    messages = {"type": "array", "minItems": 1, "items": turn}
    tools = {"type": "array", "items": OPEN}
    return {
        "ModelName": {
            "type": "string",
            "minLength": 1,
            "description": "A name or an alias of the manifest; GET /v1/models lists them.",
        },
        "ChatRequest": ask(
            "messages",
            messages={"type": "array", "items": message},
            stream=STREAM,
            max_tokens=TOKENS,
            max_completion_tokens=TOKENS,
            tools=tools,
        ),
        "CompletionRequest": ask("prompt", prompt=PROMPT, stream=STREAM, max_tokens=TOKENS),
        "ResponsesRequest": ask("input", input=CONTENT, stream=STREAM, max_output_tokens=TOKENS),
        "EmbeddingsRequest": ask("input", input=PROMPT),
        "RerankRequest": ask("query documents", query=TEXT, documents={"type": "array"}, top_n=COUNT),
        "SpeechRequest": ask("input", input=TEXT, voice=TEXT, response_format=TEXT),
        "ImageRequest": ask("prompt", prompt=TEXT, n=COUNT, size=TEXT),
        "ModelRequest": ask(),
        "MessagesRequest": ask(
            "messages max_tokens",
            messages=messages,
            max_tokens=TOKENS,
            system=CONTENT,
            stream=STREAM,
            tools=tools,
        ),
        "CountTokensRequest": ask("messages", messages=messages, system=CONTENT, tools=tools),
        "FileForm": ask(file={"type": "string", "format": "binary"}),
    }


def _answers() -> dict[str, Any]:
    verdict = record("outcome reason", outcome=TEXT, reason=TEXT, detail=TEXT)
    entry = record(
        "id object created owned_by reconcile",
        id=TEXT,
        object={"const": "model"},
        created=COUNT,
        owned_by={"const": "reconcile"},
        reconcile={"type": "object", "description": "What the gateway knows of it: model, state, residency."},
    )
    return {
        "Answer": {"type": "object", "description": "What the engine answers."},
        "Message": record(
            "id type role model content stop_reason usage",
            type={"const": "message"},
            role={"const": "assistant"},
            content={"type": "array", "items": record("type", type=TEXT)},
            stop_reason={"type": ["string", "null"]},
            usage=record("input_tokens output_tokens", input_tokens=COUNT, output_tokens=COUNT),
        ),
        "TokenCount": record("input_tokens", input_tokens=COUNT),
        "Model": entry,
        "ModelList": record(
            "object data", object={"const": "list"}, data={"type": "array", "items": reference("Model")}
        ),
        "Health": record("status", status={"const": "ok"}, age_seconds={"type": "number", "minimum": 0}),
        "Readiness": record("status", status={"const": "ready"}, pinned={"type": "array", "items": TEXT}),
        "StopRequest": record(
            "",
            models={
                "enum": ["stop", "leave"],
                "description": "What becomes of the models; without it, what the manifest says.",
            },
        ),
        "Requested": record(
            "requested",
            requested={"enum": ["load", "evict", "forget", "resume", "stop"]},
            safe_mode={"type": "boolean", "description": "Whether safe mode was on (resume)."},
            model=TEXT,
            verdict={"anyOf": [verdict, {"type": "null"}]},
            within={"type": "number", "description": "Seconds that requests get at most (stop)."},
            models={"enum": ["stop", "leave"], "description": "What becomes of the models (stop)."},
            requests={
                "type": "array",
                "items": record("model active", model=TEXT, active={"type": "integer"}),
            },
            leases={"type": "array", "items": record("model owner", model=TEXT, owner=TEXT)},
        ),
        "World": {"type": "object", "description": "What the loop sees, for a dry run elsewhere."},
        "OpenApi": record("openapi paths", openapi=TEXT, paths=OPEN),
    }


def _leases() -> dict[str, Any]:
    duration = {"type": "string", "description": "A duration, like `30m`."}
    seconds = {"type": "number", "exclusiveMinimum": 0}
    waits = {"type": "boolean", "description": "Answer when the model is held, not at once."}
    begun = ask("owner", owner=TEXT, seconds=seconds, **{"for": duration}, wait=waits)
    either = [{"required": ["seconds"]}, {"required": ["for"]}]
    renewed = {"type": "object", "properties": {"seconds": seconds, "for": duration}, "oneOf": either}
    lease = record(
        "id model owner state ends_in",
        id=TEXT,
        model=TEXT,
        owner=TEXT,
        state={"enum": ["held", "waiting", "ended"]},
        ends_in={"type": "number", "minimum": 0, "description": "Seconds."},
        reason=TEXT,
    )
    return {
        "LeaseRequest": {**begun, "oneOf": either},
        "LeaseRenewal": renewed,
        "Lease": lease,
        "LeaseList": record("leases", leases={"type": "array", "items": reference("Lease")}),
    }
