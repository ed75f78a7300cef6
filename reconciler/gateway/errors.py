"""Every error the gateway answers with: one list of codes, one shape (`{"error": {message, type, code}}`)."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from starlette.types import Send

from reconciler.gateway.protocol.cycle import FOLLOWS
from reconciler.leases import Refusal


@dataclass(frozen=True, slots=True)
class Code:
    """One kind of error: its HTTP status, its OpenAI `type`, and when it happens."""

    status: int
    type: str
    when: str


BAD_REQUEST: Final = "invalid_request_error"
SERVER: Final = "server_error"
LIMIT: Final = "rate_limit_error"

#: What the gateway itself says, and what the loop's refusals are called. docs/gateway.md shows this table.
CODES: Final[Mapping[str, Code]] = MappingProxyType(
    {
        "invalid_json": Code(400, BAD_REQUEST, "The body is not a JSON object in UTF-8."),
        "invalid_model": Code(400, BAD_REQUEST, "`model` is missing, empty or not a string."),
        "invalid_host": Code(400, BAD_REQUEST, "There is no `Host` header, an empty one, or more than one."),
        "invalid_http": Code(400, BAD_REQUEST, "What arrived is not HTTP/1.1."),
        "invalid_form": Code(400, BAD_REQUEST, "The body is not the form its `Content-Type` says."),
        "invalid_request": Code(
            400, BAD_REQUEST, "A field of the request is missing or wrong; the message names it."
        ),
        "invalid_header": Code(
            400, BAD_REQUEST, "An `X-Reconciler-...` header has a value that means nothing."
        ),
        "invalid_lease": Code(
            400, BAD_REQUEST, "The owner or the time of a lease is missing or out of range."
        ),
        "wrong_role": Code(
            400, BAD_REQUEST, "The model is for something else; the message names one that fits."
        ),
        "context_length_exceeded": Code(
            400, BAD_REQUEST, "Prompt and answer together are longer than the model's context."
        ),
        "invalid_api_key": Code(401, "authentication_error", "No API key was sent, or a wrong one."),
        "forbidden_host": Code(
            403, "permission_error", "The `Host` name is neither loopback nor configured."
        ),
        "forbidden_origin": Code(403, "permission_error", "The browser page's `Origin` is not configured."),
        "insufficient_scope": Code(403, "permission_error", "The API key does not allow this."),
        "not_found": Code(404, BAD_REQUEST, "There is no such path."),
        "model_not_found": Code(404, BAD_REQUEST, "No model or alias has this name."),
        "lease_not_found": Code(404, BAD_REQUEST, "No such lease, or it has ended."),
        "method_not_allowed": Code(405, BAD_REQUEST, "The path does not take this method; see `Allow`."),
        "request_timeout": Code(408, BAD_REQUEST, "The client did not finish sending its request in time."),
        "not_loaded": Code(409, "conflict_error", "The model is not in memory, and a GET does not load it."),
        "model_pinned": Code(409, "conflict_error", "A pinned model cannot be evicted; edit the manifest."),
        "cannot_load": Code(409, "conflict_error", "The last plan says that this model cannot be loaded."),
        "request_too_large": Code(413, BAD_REQUEST, "The body is larger than the limit."),
        "headers_too_large": Code(431, BAD_REQUEST, "The head of the request is larger than the limit."),
        "queue_full": Code(429, LIMIT, "As many requests as allowed already wait for the model."),
        "internal_error": Code(500, SERVER, "A fault of the gateway; its log has the details."),
        "upstream_error": Code(
            502, SERVER, "The model's server broke the connection or could not be reached."
        ),
        "load_failed": Code(502, SERVER, "The model could not be started; the message has its last line."),
        "starting": Code(503, SERVER, "The loop has not yet finished its first pass."),
        "not_ready": Code(503, SERVER, "Not every pinned model is ready, or the loop does not turn."),
        "too_many_connections": Code(503, SERVER, "As many clients as allowed are connected."),
        "too_many_bodies": Code(503, SERVER, "Large bodies fill the memory that requests may take together."),
        "queue_timeout": Code(503, SERVER, "The model was not ready within the time a request may wait."),
        "history_unavailable": Code(503, SERVER, "The ledger cannot be read now; the message says why."),
        "log_unavailable": Code(503, SERVER, "The model's log cannot be read; the message says why."),
        "insufficient_memory": Code(503, SERVER, "There is no room for the model now."),
        "not_startable": Code(
            503, SERVER, "The model cannot be started until what the message names is mended."
        ),
        "backing_off": Code(
            503,
            SERVER,
            "The model failed and is tried again later: in more than 5 s, or 30 s if it has been ready before.",
        ),
        "given_up": Code(
            503,
            SERVER,
            "The model fails again and again, or for a reason that no repetition mends; the message says what helps.",
        ),
        "model_stopped": Code(503, SERVER, "The model was stopped while it served the request."),
        "model_hung": Code(
            503,
            SERVER,
            "The model's server hung while it served the request; it is stopped, and can be loaded again.",
        ),
        "upstream_timeout": Code(504, SERVER, "The model's server took longer than the manifest allows."),
        "never_fits": Code(507, SERVER, "The model is larger than the memory it may ever get."),
    }
)


class ApiError(Exception):
    """An answer that is an error. `retry_after` is in seconds; None = the header is left out."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        headers: tuple[tuple[bytes, bytes], ...] = (),
    ) -> None:
        super().__init__(message)
        known = CODES.get(code)
        self.code = code
        self.message = message
        self.status = status or (known.status if known else 500)
        self.type = known.type if known else _type_of(self.status)
        self.retry_after = retry_after
        self.extra = headers

    @classmethod
    def refused(cls, refusal: Refusal) -> "ApiError":
        """Turn a refusal of the lease book into an answer; its own status stands."""
        return cls(refusal.code, refusal.message, status=refusal.status, retry_after=refusal.retry_after)

    def body(self) -> dict[str, dict[str, str]]:
        """Return the OpenAI-shaped body."""
        return {"error": {"message": self.message, "type": self.type, "code": self.code}}

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Return the headers that go with it, without those of the body."""
        if self.retry_after is not None:
            return [(b"retry-after", seconds_header(self.retry_after)), *self.extra]
        # Clients of the OpenAI kind try any 5xx again, several times, unless they are told that it will not help.
        final = [(b"x-should-retry", b"false")] if self.status >= 500 else []
        return [*final, *self.extra]

    async def send(self, send: Send) -> None:
        """Send the whole answer."""
        await send_json(send, self.status, self.body(), self.headers())


def seconds_header(seconds: float) -> bytes:
    """Return `Retry-After`'s whole seconds, at least one."""
    return str(max(1, math.ceil(seconds))).encode()


async def send_json(
    send: Send, status: int, value: object, headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    """Send `value` as a complete JSON answer."""
    data = json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
    framing = [(b"content-type", b"application/json"), (b"content-length", str(len(data)).encode())]
    start = {"type": "http.response.start", "status": status, "headers": [*framing, *(headers or [])]}
    await send({**start, FOLLOWS: True})
    await send({"type": "http.response.body", "body": data, "more_body": False})


def _type_of(status: int) -> str:
    if status == 429:
        return LIMIT
    return BAD_REQUEST if status < 500 else SERVER
