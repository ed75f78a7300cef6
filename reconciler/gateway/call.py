"""Reading one request: its body within a limit, and the model it asks for."""

import json
from dataclasses import dataclass, replace
from typing import Any, Final

from starlette.types import Receive, Scope

from reconciler.gateway.errors import ApiError
from reconciler.gateway.guard import header_values

#: Bytes of a request body at most. Images travel inside JSON, a third larger than they are.
MAX_BODY_BYTES: Final = 64 * 1024 * 1024


Headers = list[tuple[bytes, bytes]]


@dataclass(slots=True)
class Call:
    """One request of the data API, read as far as it had to be."""

    #: Without the query and in its usual spelling: `/rerank` is `/v1/rerank` here.
    path: str
    #: Path and query as they came.
    target: bytes
    method: str
    #: Names in lower case.
    headers: Headers
    body: bytes | bytearray | memoryview
    #: As the client wrote it.
    model: str
    stream: bool = False
    _document: dict[str, Any] | None = None

    @property
    def document(self) -> dict[str, Any]:
        """The JSON object of the body, parsed at the first use; empty for a form. Not to be changed in place."""
        if self._document is None:
            self._document = parse(decode(bytes(self.body))) if self.is_json else {}
        return self._document

    @property
    def is_json(self) -> bool:
        """Whether the body is JSON (not a form)."""
        kind = next((value for name, value in self.headers if name == b"content-type"), b"")
        return not kind.lower().startswith(b"multipart/")

    def with_document(self, document: dict[str, Any]) -> "Call":
        """Return the call with another JSON body."""
        body = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
        return replace(self, body=body, _document=document)


class ClientGoneError(Exception):
    """The client closed its connection: nobody is there to be answered."""


async def read_body(scope: Scope, receive: Receive, limit: int = MAX_BODY_BYTES) -> bytes:
    """Return the whole body. Raises `ApiError` (413) beyond `limit` bytes, `ClientGoneError` if the client left."""
    declared = header_values(scope, b"content-length")
    if declared and declared[0].isdigit() and int(declared[0]) > limit:
        raise _too_large(scope, limit)
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise _too_large(scope, limit)
        if part:
            parts.append(part)
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


async def read_call(scope: Scope, receive: Receive, limit: int = MAX_BODY_BYTES) -> tuple[str, bytes]:
    """Return the model a request asks for, and its body as it came. Raises as `read_body` and `model_of` do.

    While the JSON is parsed only the text is held, not the bytes: a large body is in memory twice, not thrice.
    """
    text = decode(await read_body(scope, receive, limit))
    model = model_of(text)
    return model, text.encode()


def model_of(text: str) -> str:
    """Return the `model` of a JSON body; raise `ApiError` (400) if it is no such thing."""
    model = parse(text).get("model")
    if isinstance(model, str) and model:
        return model
    what = "is missing" if model is None else "is empty" if model == "" else "is not a string"
    raise ApiError("invalid_model", f"the field 'model' {what}; GET /v1/models lists the names")


def with_model(body: bytes, model: str) -> bytes:
    """Return the JSON body with another `model`."""
    return json.dumps(parse(decode(body)) | {"model": model}, separators=(",", ":")).encode()


def decode(body: bytes) -> str:
    """Return the body as text; raise `ApiError` (400) unless it is UTF-8."""
    try:
        return str(body, "utf-8")
    except UnicodeDecodeError as error:
        raise ApiError("invalid_json", f"the body is not JSON in UTF-8: {error}"[:300]) from None


def parse(text: str) -> dict[str, Any]:
    """Return the JSON object in `text`; raise `ApiError` (400) if it is none."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise ApiError("invalid_json", "the body is nested too deeply") from None
    except ValueError as error:
        raise ApiError("invalid_json", f"the body is not JSON: {error}"[:300]) from None
    if not isinstance(value, dict):
        raise ApiError("invalid_json", "the body is JSON, but not an object")
    return value


def _too_large(scope: Scope, limit: int) -> ApiError:
    # A client that waits for "100 Continue" may or may not send the body now; only a new connection is sure.
    close = ((b"connection", b"close"),) if header_values(scope, b"expect") else ()
    text = f"the body is larger than {limit} bytes ({limit / 2**20:g} MiB)"
    return ApiError("request_too_large", text, headers=close)
